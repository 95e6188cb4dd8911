"""Compare aioprod with aiokafka and confluent-kafka (`python -m benchmarks --help`), and its two builds with each other
(`python -m benchmarks.micro`)."""
