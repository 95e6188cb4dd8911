"""The data pipeline on Spark: sink, source, exactly-once delivery, and the jobs load, audit and plan."""
