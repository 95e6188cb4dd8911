# cython: boundscheck=False, wraparound=False
"""Records as the bytes of a group: a length, a checksum, and what a producer needs to send the record."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from aioprod.errors import CorruptRecordError
from aioprod.records.headers import decode_headers
from aioprod.relay.columns import ColumnRows
from aioprod.wire import memory

__all__ = ["ENTRY_OVERHEAD", "EntryReader", "encode_entry", "entry_end", "reseeded"]

_FRAME: Final = 8
"""The bytes of length and checksum."""
_FIXED: Final = 25
"""The bytes of flags, timestamp, partition, and the sizes of topic, key and headers."""
_OVERHEAD: Final = 33
ENTRY_OVERHEAD: Final = _OVERHEAD
"""The bytes of a record beside its topic, key, value and headers."""
_NO_VALUE: Final = 1
"""The flag of a record whose value is None."""


def encode_entry(
    topic: bytes, key: bytes | None, value: bytes | None, headers: bytes, partition: int, timestamp: int, seed: int
) -> bytearray:
    """A record: `headers` as `encode_headers` gives them, `partition` -1 if it is to be chosen, milliseconds."""
    key_size = -1 if key is None else len(key)
    at = _OVERHEAD
    size = at + len(topic) + len(headers)
    if key is not None:
        size += key_size
    if value is not None:
        size += len(value)
    entry = memory.room(size)
    out = entry
    out[_FRAME] = _NO_VALUE if value is None else 0
    memory.put_int64_be(out, 9, timestamp)
    memory.put_int32_be(out, 17, partition)
    memory.put_int32_be(out, 21, len(topic))
    memory.put_int32_be(out, 25, key_size)
    memory.put_int32_be(out, 29, len(headers))
    memory.copy(out, at, topic, 0, len(topic))
    at += len(topic)
    if key is not None:
        memory.copy(out, at, key, 0, key_size)
        at += key_size
    memory.copy(out, at, headers, 0, len(headers))
    at += len(headers)
    if value is not None:
        memory.copy(out, at, value, 0, len(value))
    memory.put_uint32_be(out, 0, size - _FRAME)
    memory.put_uint32_be(out, 4, crc32(memory.span(entry, _FRAME, size), seed))
    return entry


class EntryReader:
    """Reads the records of groups."""

    __slots__ = ("_last", "_seed", "_topic", "_topics")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._topics: dict[bytes, str] = {}
        """Each topic's name once, so that records share it."""
        self._last = b""
        self._topic = ""
        """The name of the last record's topic, as it was written and as text."""

    def read(self, data: bytes, at: int, end: int, count: int, rows: ColumnRows) -> int:
        """Add the next `count` records of `data[at:end]` to the columns; returns where the one after them begins.

        Raises CorruptRecordError for a record whose length or checksum is wrong.
        """
        source = memory.first_byte(memoryview(data))
        topics, partitions, keys = rows.topics, rows.partitions, rows.keys
        values, headers, timestamps = rows.values, rows.headers, rows.timestamps
        for index in range(count):
            length = 0 if end - at < _OVERHEAD else memory.number(source, at, 4)
            stop = at + _FRAME + length
            is_whole = length >= _FIXED and stop <= end
            if not is_whole or crc32(memory.copied(source, at + _FRAME, length), self._seed) != _crc(source, at + 4):
                raise CorruptRecordError(f"the checksum of record {index} of {count} is wrong")
            at += _FRAME
            flags = source[at]
            timestamps.append(memory.number(source, at + 1, 8))
            partition = memory.number(source, at + 9, 4)
            topic_size = memory.number(source, at + 13, 4)
            key_size = memory.number(source, at + 17, 4)
            headers_size = memory.number(source, at + 21, 4)
            at += _FIXED
            if topic_size < 0 or headers_size < 1 or topic_size + headers_size + max(key_size, 0) > stop - at:
                raise CorruptRecordError(f"the sizes in the record before byte {at} don't fit")
            partitions.append(None if partition < 0 else partition)
            topics.append(self._topic_of(memory.copied(source, at, topic_size)))
            at += topic_size
            if key_size < 0:
                keys.append(None)
            else:
                keys.append(memory.copied(source, at, key_size))
                at += key_size
            headers.append(None if headers_size == 1 else decode_headers(data, at, at + headers_size))
            at += headers_size
            values.append(None if flags & _NO_VALUE else memory.copied(source, at, stop - at))
            at = stop
        return at

    def read_all(self, data: bytes, at: int, end: int, count: int) -> ColumnRows:
        """The `count` records that are all of `data[at:end]`; raises CorruptRecordError."""
        rows = ColumnRows()
        stop = self.read(data, at, end, count, rows)
        if stop != end:
            raise CorruptRecordError(f"{end - stop} bytes follow the last of {count} records")
        return rows

    def _topic_of(self, name: bytes) -> str:
        if name != self._last:
            self._last = name
            self._topic = self._topics.setdefault(name, name.decode())
        return self._topic


def _crc(source: memoryview, at: int) -> int:
    return memory.number(source, at, 4) & 0xFFFFFFFF


def entry_end(data: bytes, at: int, seed: int) -> int | None:
    """Where the record at `at` ends; None where no whole one is there."""
    if len(data) - at < _OVERHEAD:
        return None
    length, crc = (int.from_bytes(data[begin : begin + 4], "big") for begin in (at, at + 4))
    end = at + _FRAME + length
    if length < _FIXED or end > len(data) or crc32(data[at + _FRAME : end], seed) != crc:
        return None
    return end


def reseeded(data: bytes, seed: int) -> bytes:
    """Whole records with checksums that begin with another seed."""
    parts = []
    at = 0
    while at < len(data):
        length = data[at : at + 4]
        body = data[at + _FRAME : at + _FRAME + int.from_bytes(length, "big")]
        parts += [length, crc32(body, seed).to_bytes(4, "big"), body]
        at += _FRAME + len(body)
    return b"".join(parts)
