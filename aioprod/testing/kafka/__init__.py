"""Real brokers for tests: where their programs come from, how they start and end."""
