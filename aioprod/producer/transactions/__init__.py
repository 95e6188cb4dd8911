"""Transactions: the calls, their requests to the coordinator, and sessions that several processes share."""
