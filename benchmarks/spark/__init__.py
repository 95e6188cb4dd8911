"""aioprod's sink and source on Spark beside Spark's own, and beside what people write with confluent-kafka."""
