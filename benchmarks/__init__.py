"""aioprod beside aiokafka and confluent-kafka: `python -m benchmarks --help`."""
