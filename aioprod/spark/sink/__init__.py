"""Rows of Spark into Kafka, in batch and streaming queries."""
