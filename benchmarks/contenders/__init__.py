"""One module for each client library; each runs in a process of its own."""
