"""The values that go in and come out of the public API."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aioprod.record_metadata import RecordMetadata

if TYPE_CHECKING:
    from aioprod.errors import AioprodError, DeliveryError

__all__ = [
    "Buffered",
    "ConsumedRecord",
    "DeliveryCallback",
    "DeliveryReport",
    "ErrorCallback",
    "Headers",
    "OffsetAndMetadata",
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


class OffsetAndMetadata(NamedTuple):
    """What a group has committed for a partition: the next offset to read, and what else it keeps of it, up to 4 KB."""

    offset: int
    metadata: str = ""


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


DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, "AioprodError | None"], None]
"""Called once per record with (metadata, error), in this order: one of them is None. A plain function."""

ErrorCallback: TypeAlias = Callable[["AioprodError", ProducerRecord], None]
"""Called with (error, record) once for each failed record that nobody waits for. A plain function."""
