"""SASL mechanisms of a client, as Kafka speaks them: generators without I/O (KIP-43, KIP-84, KIP-255)."""
