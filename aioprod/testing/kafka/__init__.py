"""Real brokers for tests: `KafkaCluster`, the backends that run its brokers, and how Kafka and Java are fetched."""
