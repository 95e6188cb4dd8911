"""Decisions without I/O: what to send when, what a broker's answer means, how one connection behaves."""
