"""The protocol of one connection and of its log-in: no I/O, no event loop, no clock."""
