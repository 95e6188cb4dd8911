"""How a fake broker answers each request."""
