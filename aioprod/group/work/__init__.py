"""Parallel work of a member: handlers run at once, in order for each key, and finished records are committed."""
