"""One record as it was read: of a class of C in the compiled build, as reading makes one for each record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioprod._short_reprs import shown_record

__all__ = ["ConsumedRecord", "consumed_record"]


class ConsumedRecord:
    """One record as it was read from a partition; its repr shows the same parts as that of a `ProducerRecord`."""

    __match_args__ = ("topic", "partition", "offset", "key", "value", "headers", "timestamp")
    __slots__ = ("headers", "key", "offset", "partition", "timestamp", "topic", "value")

    topic: str
    partition: int
    offset: int
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: Any,
        value: Any,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp: int,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp = timestamp

    def __reduce__(self) -> tuple[type[ConsumedRecord], tuple[Any, ...]]:
        return ConsumedRecord, self._fields()

    def _fields(self) -> tuple[Any, ...]:
        return self.topic, self.partition, self.offset, self.key, self.value, self.headers, self.timestamp

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, ConsumedRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return shown_record(self, ("topic", "partition", "offset", "key", "value", "headers", "timestamp"))

    def header(self, name: str) -> bytes | None:
        """The value of its last header of this name; None where there is none, or where it has no value."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    def replaced(self, key: Any, value: Any) -> ConsumedRecord:
        """The same record with another key and value: those that were deserialized."""
        return consumed_record(self.topic, self.partition, self.offset, key, value, self.headers, self.timestamp)


def consumed_record(
    topic: str,
    partition: int,
    offset: int,
    key: Any,
    value: Any,
    headers: Sequence[tuple[str, bytes | None]],
    timestamp: int,
) -> ConsumedRecord:
    """A new `ConsumedRecord`: where it is compiled, without the cost of a Python call."""
    record = ConsumedRecord.__new__(ConsumedRecord)
    record.topic = topic
    record.partition = partition
    record.offset = offset
    record.key = key
    record.value = value
    record.headers = headers
    record.timestamp = timestamp
    return record
