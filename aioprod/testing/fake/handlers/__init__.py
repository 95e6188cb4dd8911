"""How a fake broker answers each request; `table.py` says which function does it."""
