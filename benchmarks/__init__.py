"""aioprod beside aiokafka and confluent-kafka (`python -m benchmarks --help`), and its two builds side by side
(`python -m benchmarks.micro`)."""
