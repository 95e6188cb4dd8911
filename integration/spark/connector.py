"""Spark's own Kafka connector for comparison: its jars are downloaded once."""

from __future__ import annotations

from aioprod.testing.kafka.jars import fetched

__all__ = ["connector_jars"]

WANTED = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
"""Works on PySpark 4.3.0, whose own version of the connector is not published."""


def connector_jars() -> str:
    """What `spark.jars` takes. Raises KafkaUnavailableError when they can't be fetched."""
    return ",".join(str(jar) for jar in sorted(fetched("spark-kafka-4.2.0", WANTED).glob("*.jar")))
