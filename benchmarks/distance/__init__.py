"""What producers send over any distance: ours beside Java's and confluent-kafka, on sinks and on real brokers."""
