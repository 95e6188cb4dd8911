# cython: boundscheck=False, wraparound=False
"""Reading back the records that a `RecordBatchBuilder` has encoded, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aioprod._short_reprs import shown_record
from aioprod.records.layout import HEADER, PREFIX

if TYPE_CHECKING:
    from aioprod.records.builder import RecordBatchBuilder

__all__ = ["EncodedRecord", "RecordCursor"]


class EncodedRecord(NamedTuple):
    """One record as it was appended: the timestamp in ms, key and value, and the encoded headers."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: bytes

    def __repr__(self) -> str:
        return shown_record(self, self._fields)


class RecordCursor:
    """Walks the records of one builder, which must not change meanwhile; before the first `next()` it stands on none.

    It trusts the bytes: they are our own.
    """

    __slots__ = (
        "_base_timestamp",
        "_limit",
        "_position",
        "buffer",
        "end",
        "headers_start",
        "index",
        "key_size",
        "key_start",
        "start",
        "timestamp",
        "value_size",
        "value_start",
    )

    def __init__(self, builder: RecordBatchBuilder) -> None:
        self.buffer = builder.buffer
        self._base_timestamp = builder.base_timestamp
        self._limit = builder.position
        self._position = 0
        """The end of the varint that was read last."""
        self.index = -1
        """The index in the batch of the record it stands on, which the fields below describe."""
        self.start = 0
        """Where the record begins in `buffer`."""
        self.end = PREFIX + HEADER
        """Where the record ends."""
        self.timestamp = -1
        """The timestamp of the record in ms."""
        self.key_start = 0
        """Where the key begins."""
        self.key_size = -1
        """The bytes of the key, -1 for null."""
        self.value_start = 0
        """Where the value begins."""
        self.value_size = -1
        """The bytes of the value, -1 for null."""
        self.headers_start = 0
        """Where the encoded headers begin, which end at `end`."""

    def next(self) -> bool:
        """Step to the next record; False after the last one."""
        position = self.end
        if position >= self._limit:
            return False
        p = self.buffer
        self.start = position
        self.index += 1
        # Most numbers take one byte or two. Those are read here: a call for each costs more than all the rest.
        byte = p[position]
        second = p[position + 1]
        if byte >= 0x80 and second < 0x80:
            position += 2
            self.end = position + ((byte & 0x7F | second << 7) >> 1)
        elif byte < 0x80:
            position += 1
            self.end = position + (byte >> 1)
        else:
            value = self._varint(position)
            position = self._position
            self.end = position + value
        position += 1
        byte = p[position]
        if byte < 0x80:
            position += 1
            self.timestamp = self._base_timestamp + ((byte >> 1) ^ -(byte & 1))
        else:
            self.timestamp = self._base_timestamp + self._varint(position)
            position = self._position
        while p[position] >= 0x80:
            position += 1
        position += 1
        byte = p[position]
        if byte < 0x80:
            position += 1
            value = (byte >> 1) ^ -(byte & 1)
        else:
            value = self._varint(position)
            position = self._position
        self.key_size = value
        self.key_start = position
        if value > 0:
            position += value
        byte = p[position]
        second = p[position + 1]
        if byte < 0x80:
            position += 1
            value = (byte >> 1) ^ -(byte & 1)
        elif second < 0x80:
            position += 2
            value = (byte & 0x7F | second << 7) >> 1
        else:
            value = self._varint(position)
            position = self._position
        self.value_size = value
        self.value_start = position
        if value > 0:
            position += value
        self.headers_start = position
        return True

    def skip(self, count: int) -> bool:
        """Step over `count` records and read only their sizes: of the fields only `start` and `end` are right then.

        False when there are fewer records.
        """
        while count > 0:
            if self.end >= self._limit:
                return False
            self.start = self.end
            body_size = self._varint(self.end)
            self.end = self._position + body_size
            self.index += 1
            count -= 1
        return True

    def follow(self, builder: RecordBatchBuilder) -> None:
        """The builder has taken further records since, perhaps in a larger buffer: walk on to these."""
        self.buffer = builder.buffer
        self._limit = builder.position

    def go_to(self, index: int) -> None:
        """Step to the record at `index`, which exists and comes after the one on which it stands."""
        self.skip(index - self.index - 1)
        self.next()

    def record(self) -> EncodedRecord:
        """A copy of the record it stands on, after `next()`."""
        buffer = self.buffer
        return EncodedRecord(
            self.timestamp,
            None if self.key_size < 0 else bytes(buffer[self.key_start : self.key_start + self.key_size]),
            None if self.value_size < 0 else bytes(buffer[self.value_start : self.value_start + self.value_size]),
            bytes(buffer[self.headers_start : self.end]),
        )

    def _varint(self, position: int) -> int:
        """The signed varint at `position`; `_position` is its end."""
        byte = self.buffer[position]
        zigzag = byte & 0x7F
        shift = 7
        while byte >= 0x80:
            position += 1
            byte = self.buffer[position]
            zigzag |= (byte & 0x7F) << shift
            shift += 7
        self._position = position + 1
        return (zigzag >> 1) ^ -(zigzag & 1)
