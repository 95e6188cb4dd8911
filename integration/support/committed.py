"""What a transaction left behind, as confluent-kafka sees it: committed records, and a group's offsets."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from aioprod.testing import KafkaCluster

__all__ = ["committed", "group_offset"]

_TIMEOUT_S: Final = 120.0


async def committed(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    """The values that a read_committed consumer sees now, by partition and offset."""
    return await asyncio.to_thread(_read, cluster.bootstrap_servers, topic)


async def group_offset(cluster: KafkaCluster, group: str, topic: str, partition: int = 0) -> int | None:
    """The offset that a group has committed, None for none."""
    return await asyncio.to_thread(_offset, cluster.bootstrap_servers, group, topic, partition)


def _consumer(bootstrap_servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )


def _offset(bootstrap_servers: str, group: str, topic: str, partition: int) -> int | None:
    consumer = _consumer(bootstrap_servers, group)
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=30)
        return found.offset if found.offset >= 0 else None
    finally:
        consumer.close()


def _read(bootstrap_servers: str, topic: str) -> list[bytes | None]:
    consumer = _consumer(bootstrap_servers, "integration")
    try:
        unread = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in unread])
        deadline = time.monotonic() + _TIMEOUT_S
        records: list[tuple[int, int, bytes | None]] = []
        while unread:
            assert time.monotonic() < deadline, f"{topic} was not read to its end: {unread} are open"
            for message in consumer.consume(2000, timeout=0.1):
                error, partition, offset = message.error(), message.partition(), message.offset()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    unread.discard(partition)
                    continue
                assert offset is not None
                records.append((partition, offset, message.value()))
        return [value for _, _, value in sorted(records, key=lambda record: record[:2])]
    finally:
        consumer.close()
