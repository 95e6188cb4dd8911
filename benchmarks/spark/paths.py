"""The measured paths, with keys of 16 bytes, values of 100 bytes, and eight partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.dropping import DroppingSource

__all__ = ["FLOOR", "PARTITIONS", "Paths"]

PARTITIONS = 8
FLOOR = "a Python sink that drops its rows"
"""The path of what Spark takes to hand rows to Python, whatever becomes of them there."""
TASKS = 4


@dataclass(frozen=True)
class Paths:
    """The paths by name: each takes a number of rows, and returns when all were delivered, or read."""

    spark: SparkSession
    servers: str
    sink_topic: str
    source_topic: str

    def all(self) -> Mapping[str, Callable[[int], None]]:
        return {
            "noop": lambda rows: noop(self.rows(rows)),
            FLOOR: self.dropping_sink,
            "aioprod sink": self.aioprod_sink,
            "Spark's sink": lambda rows: self.spark_sink(rows),
            "Spark's sink, linger.ms=20, batch.size=128 KB": lambda rows: self.spark_sink(
                rows, **{"kafka.linger.ms": "20", "kafka.batch.size": "131072"}
            ),
            "foreachPartition, confluent-kafka": self.for_each_partition,
            "aioprod source": lambda _: noop(self.read("aioprod")),
            "Spark's source": lambda _: noop(self.read("kafka")),
            "aioprod source, key and value": lambda _: noop(self.read("aioprod").select("key", "value")),
            "Spark's source, key and value": lambda _: noop(self.read("kafka").select("key", "value")),
        }

    def rows(self, count: int) -> DataFrame:
        return self.spark.range(0, count, 1, TASKS).selectExpr(
            "cast(lpad(cast(id as string), 16, '0') as binary) as key",
            "cast(rpad(cast(id as string), 100, 'x') as binary) as value",
        )

    def aioprod_sink(self, count: int) -> None:
        writer = self.rows(count).write.format("aioprod").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", self.sink_topic).mode("append").save()

    def dropping_sink(self, count: int) -> None:
        self.spark.dataSource.register(DroppingSource)
        self.rows(count).write.format(DroppingSource.name()).mode("append").save()

    def spark_sink(self, count: int, topic: str | None = None, **options: str) -> None:
        writer = self.rows(count).write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.options(**options).option("topic", topic or self.sink_topic).save()

    def for_each_partition(self, count: int) -> None:
        servers, topic = self.servers, self.sink_topic

        def produce(rows: Iterable[Any]) -> None:
            import confluent_kafka

            failures: list[object] = []

            def done(error: object, message: object) -> None:
                if error is not None:
                    failures.append(error)

            producer = confluent_kafka.Producer(
                {"bootstrap.servers": servers, "linger.ms": 5, "queue.buffering.max.messages": 500_000}
            )
            for row in rows:
                while True:
                    try:
                        producer.produce(topic, row.value, row.key, on_delivery=done)
                        break
                    except BufferError:
                        producer.poll(0.1)
                producer.poll(0)
            producer.flush()
            if failures:
                raise RuntimeError(f"{len(failures)} rows failed: {failures[0]}")

        self.rows(count).foreachPartition(produce)

    def read(self, kind: str) -> DataFrame:
        reader = self.spark.read.format(kind).option("kafka.bootstrap.servers", self.servers)
        return reader.option("subscribe", self.source_topic).option("startingOffsets", "earliest").load()


def noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()
