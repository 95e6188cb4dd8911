"""Records of Kafka as rows of Spark, in batch and streaming queries."""
