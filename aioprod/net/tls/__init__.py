"""TLS: contexts, certificates and stores, their rotation, and what failures mean."""
