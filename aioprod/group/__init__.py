"""Consumer groups: who reads which partition."""
