"""The group protocol in which the broker assigns the partitions (KIP-848)."""
