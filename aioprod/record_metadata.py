"""The result of an acknowledged record: where it is stored."""

from __future__ import annotations

__all__ = ["RecordMetadata"]


class RecordMetadata:
    """Where an acknowledged record is; `offset` is -1 when acks=0, or when the broker answered only "duplicate".

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

    def __reduce__(self) -> tuple[type[RecordMetadata], tuple[str, int, int, int, int, int]]:
        return RecordMetadata, self._fields()

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
