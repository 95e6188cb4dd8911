"""The records of a topic, read by an independent client: confluent-kafka (librdkafka)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from aioprod.testing import KafkaCluster

__all__ = ["APPEND_TIME", "CREATE_TIME", "Stored", "committed", "read_topic", "stored"]

CREATE_TIME: Final = 1
APPEND_TIME: Final = 2
_TIMEOUT_S: Final = 120.0


class Stored(NamedTuple):
    """One record of the log; `timestamp_type` is CREATE_TIME or APPEND_TIME."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    timestamp_type: int


async def stored(cluster: KafkaCluster, topic: str) -> list[Stored]:
    """All records of a topic, by partition and offset."""
    return await asyncio.to_thread(read_topic, cluster.bootstrap_servers, topic)


async def committed(cluster: KafkaCluster, topic: str) -> list[Stored]:
    """The records that a read_committed consumer sees, once no transaction is open in the topic."""
    return await asyncio.to_thread(read_topic, cluster.bootstrap_servers, topic, "read_committed")


def read_topic(
    bootstrap_servers: str,
    topic: str,
    isolation: str = "read_uncommitted",
    settings: Mapping[str, str] = MappingProxyType({}),
) -> list[Stored]:
    """All records of a topic, by partition and offset; raises TimeoutError after two minutes.

    `settings` are more settings of librdkafka. With read_committed a transaction that never ends causes the timeout.
    """
    uncommitted, reader = (_consumer(bootstrap_servers, of, settings) for of in ("read_uncommitted", isolation))
    try:
        # A read_committed consumer gets the last stable offset as the end, without records about to be committed.
        ends = _ends(uncommitted, topic)
        return sorted(_read(reader, topic, ends))
    finally:
        uncommitted.close()
        reader.close()


def _consumer(bootstrap_servers: str, isolation: str, settings: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "integration",
            "enable.auto.commit": False,
            "check.crcs": True,
            # The last offset of a partition may be a transaction marker, which is not a record.
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "reconnect.backoff.max.ms": 500,
            **settings,
        }
    )


def _ends(consumer: Consumer, topic: str) -> dict[int, int]:
    indexes = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return {index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30)[1] for index in indexes}


def _read(consumer: Consumer, topic: str, ends: dict[int, int]) -> list[Stored]:
    deadline = time.monotonic() + _TIMEOUT_S
    unread = {index: end for index, end in ends.items() if end > 0}
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in unread])
    records: list[Stored] = []
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"Topic {topic} was not read to its end: {unread} are still to be reached.")
        for message in consumer.consume(2000, timeout=0.1):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                if offset >= unread.get(partition, 0):
                    unread.pop(partition, None)
                continue
            kind, timestamp = message.timestamp()
            headers = tuple(cast("list[tuple[str, bytes | None]]", message.headers() or []))
            records.append(Stored(partition, offset, message.key(), message.value(), headers, timestamp, kind))
    return records
