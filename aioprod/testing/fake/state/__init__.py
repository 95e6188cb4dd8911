"""What the brokers of a fake cluster keep."""
