"""The values that go in and come out of the public API."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from aioprod.errors import AioprodError, DeliveryError

__all__ = [
    "Buffered",
    "ConsumedRecord",
    "DeliveryCallback",
    "DeliveryReport",
    "ErrorCallback",
    "Headers",
    "ProducerRecord",
    "RecordMetadata",
    "SendResult",
    "Timestamp",
    "TopicPartition",
]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Record headers in wire order: (name, value or None). A name may repeat."""

Timestamp: TypeAlias = int | datetime.datetime
"""Milliseconds since the epoch, or an aware datetime."""


class TopicPartition(NamedTuple):
    """A topic's name and the index of one of its partitions."""

    topic: str
    partition: int


class RecordMetadata:
    """Where an acknowledged record is; `offset` is -1 when acks=0, or when the broker said no more than "duplicate".

    `timestamp` is in milliseconds: the record's own, or the broker's for topics with LogAppendTime.
    Sizes are bytes after serialization, -1 for a null key or value.
    """

    __slots__ = ("offset", "partition", "serialized_key_size", "serialized_value_size", "timestamp", "topic")

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        serialized_key_size: int = -1,
        serialized_value_size: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    def _fields(self) -> tuple[str, int, int, int, int, int]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.serialized_key_size,
            self.serialized_value_size,
        )

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, RecordMetadata) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, serialized_key_size={self.serialized_key_size}, "
            f"serialized_value_size={self.serialized_value_size})"
        )


@dataclass(slots=True)
class ProducerRecord:
    """One record to send, before serialization. `partition=None` lets the partitioner choose."""

    topic: str
    value: Any = None
    key: Any = field(default=None, kw_only=True)
    partition: int | None = field(default=None, kw_only=True)
    headers: Headers | None = field(default=None, kw_only=True)
    timestamp: Timestamp | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """One record as it was read back from a partition."""

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: Headers
    timestamp: int


@dataclass(frozen=True, slots=True)
class SendResult:
    """What became of one bulk call: `offsets` as ranges per partition, `failures` as (index in the call, error)."""

    count: int
    offsets: dict[TopicPartition, tuple[range, ...]]
    failures: tuple[tuple[int, AioprodError], ...] = ()


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """What became of every record accepted since `start()`; `undelivered` holds those that this close failed."""

    delivered: int = 0
    not_sent: int = 0
    unknown: int = 0
    rejected: int = 0
    undelivered: tuple[DeliveryError, ...] = ()


class Buffered(NamedTuple):
    """What the producer holds: accepted records whose outcome is not known yet, and their encoded bytes."""

    records: int
    bytes: int


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, "AioprodError | None"], object]
"""Called once per record with (metadata, None) or (None, error)."""

ErrorCallback: TypeAlias = Callable[["AioprodError", ProducerRecord], object]
"""Called once for each failed record that nobody waits for."""
