"""aiokafka's tuples: its own classes where it is installed, so that `isinstance` holds on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

__all__ = ["BatchRecordMetadata", "BrokerMetadata", "OffsetAndMetadata", "RecordMetadata", "TopicPartition"]


class BatchRecordMetadata(NamedTuple):
    """What `BatchBuilder.append()` returns: the record's place in the batch, its encoded size, its timestamp in ms.

    `crc` is always None: only messages of Kafka before 0.11 have a checksum of their own.
    """

    offset: int
    crc: None
    size: int
    timestamp: int


class _TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions."""

    topic: str
    partition: int


class _OffsetAndMetadata(NamedTuple):
    """The next offset to read, and a text that is kept with it."""

    offset: int
    metadata: str


class _BrokerMetadata(NamedTuple):
    """A broker and its address."""

    nodeId: int | str  # noqa: N815 - aiokafka's name
    host: str
    port: int
    rack: str | None


class _RecordMetadata(NamedTuple):
    """Where a record is stored; `timestamp` is in ms, `timestamp_type` 0 for the sender's time and 1 for the broker's.

    `log_start_offset` is always None.
    """

    topic: str
    partition: int
    topic_partition: _TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


if TYPE_CHECKING:
    TopicPartition = _TopicPartition
    OffsetAndMetadata = _OffsetAndMetadata
    BrokerMetadata = _BrokerMetadata
    RecordMetadata = _RecordMetadata
else:
    try:
        from aiokafka.structs import BrokerMetadata, OffsetAndMetadata, RecordMetadata, TopicPartition
    except ImportError:
        TopicPartition, OffsetAndMetadata = _TopicPartition, _OffsetAndMetadata
        BrokerMetadata, RecordMetadata = _BrokerMetadata, _RecordMetadata
