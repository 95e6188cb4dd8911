"""What a producer writes into the log, and how often."""
