"""Topics for tests with Spark, and what an independent consumer finds in them."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import LoopThread

__all__ = ["Found", "consumed", "new_topic"]

Found = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Partition, offset, key, value, headers, timestamp in ms."""


def new_topic(cluster: KafkaCluster, partitions: int = 1, **config: object) -> str:
    """A topic with a name that was never used before."""
    name = f"spark-{uuid.uuid4().hex[:12]}"
    with LoopThread() as loop:
        loop.run(cluster.create_topic(name, partitions, config=config))
    return name


def consumed(cluster: KafkaCluster, topic: str, isolation: str = "read_committed") -> list[Found]:
    """All that librdkafka reads of a topic up to its present end, by partition and offset."""
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": uuid.uuid4().hex,
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    found: list[Found] = []
    try:
        partitions = list(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        open_partitions = set(partitions)
        while open_partitions:
            # It waits for as many messages as were asked for, or for the time to pass.
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                if error is not None:
                    assert error.name() == "_PARTITION_EOF", error
                    open_partitions.discard(partition)
                    continue
                assert offset is not None
                headers: Any = message.headers() or []
                found.append((partition, offset, message.key(), message.value(), headers, message.timestamp()[1]))
    finally:
        consumer.close()
    found.sort(key=lambda row: row[:2])
    return found
