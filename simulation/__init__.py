"""Seeded runs of the producer over fake brokers, and the check of what it promises: `python -m simulation`."""
