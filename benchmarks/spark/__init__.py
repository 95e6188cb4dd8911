"""Compare aioprod's sink and source with Spark's own, and with `foreachPartition` and confluent-kafka."""
