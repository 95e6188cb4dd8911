"""Many records by one call: `send_many` and `send_arrow`."""
