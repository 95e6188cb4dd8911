"""What is in a topic, read by an independent client: confluent-kafka, which is librdkafka."""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from aioprod.testing import KafkaCluster

__all__ = ["APPEND_TIME", "CREATE_TIME", "Stored", "read_topic", "stored"]

CREATE_TIME: Final = 1
APPEND_TIME: Final = 2
_TIMEOUT_S: Final = 120.0


class Stored(NamedTuple):
    """One record as it is in the log; `timestamp_type` is CREATE_TIME or APPEND_TIME."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: int


async def stored(cluster: KafkaCluster, topic: str) -> list[Stored]:
    """All that is in a topic now, by partition and offset."""
    return await asyncio.to_thread(read_topic, cluster.bootstrap_servers, topic)


def read_topic(bootstrap_servers: str, topic: str) -> list[Stored]:
    """All that is in a topic now, by partition and offset; raises TimeoutError after two minutes."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "integration",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": False,
            "reconnect.backoff.max.ms": 500,
        }
    )
    try:
        return sorted(_read(consumer, topic))
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str) -> list[Stored]:
    deadline = time.monotonic() + _TIMEOUT_S
    indexes = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ends = {index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1] for index in indexes}
    unread = {index: end for index, end in ends.items() if end > 0}
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in unread])
    records: list[Stored] = []
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Topic {topic} was not read to its end: {unread} are still to be reached.")
        for message in consumer.consume(2000, timeout=0.1):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert error is None, error
            assert partition is not None
            assert offset is not None
            kind, timestamp = message.timestamp()
            headers = tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))
            records.append(Stored(partition, offset, message.key(), message.value(), headers, timestamp, kind))
            if offset + 1 >= unread.get(partition, 0):
                unread.pop(partition, None)
    return records
