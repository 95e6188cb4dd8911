"""Records as the bytes of a group: a length, a checksum, and what a producer needs to send the record."""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from aioprod.errors import CorruptRecordError
from aioprod.records.headers import NO_HEADERS, decode_headers
from aioprod.types import ProducerRecord

__all__ = ["ENTRY_OVERHEAD", "EntryReader", "encode_entry", "entry_end", "reseeded"]

_FRAME: Final = struct.Struct(">II")
_FIXED: Final = struct.Struct(">BqiHiI")
_NO_VALUE: Final = 1
"""The flag of a record whose value is None."""
ENTRY_OVERHEAD: Final = _FRAME.size + _FIXED.size
"""The bytes of a record beside its topic, key, value and headers."""


def encode_entry(
    topic: bytes, key: bytes | None, value: bytes | None, headers: bytes, partition: int, timestamp: int, seed: int
) -> bytes:
    """A record: `headers` as `encode_headers` gives them, `partition` -1 if it is to be chosen, milliseconds."""
    fixed = _FIXED.pack(
        _NO_VALUE if value is None else 0,
        timestamp,
        partition,
        len(topic),
        -1 if key is None else len(key),
        len(headers),
    )
    body = b"".join((fixed, topic, key or b"", headers, value or b""))
    return _FRAME.pack(len(body), crc32(body, seed)) + body


class EntryReader:
    """Reads the records of groups."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._topics: dict[bytes, str] = {}
        """Each topic's name once, so that records share it."""

    def records(self, data: bytes, begin: int, end: int, count: int) -> list[ProducerRecord]:
        """The `count` records in `data[begin:end]`, all of it; raises CorruptRecordError, which says which is bad."""
        found: list[ProducerRecord] = []
        at = begin
        for index in range(count):
            if end - at < ENTRY_OVERHEAD:
                raise CorruptRecordError(f"record {index} of {count} is cut off")
            length, crc = _FRAME.unpack_from(data, at)
            at += _FRAME.size
            if length < _FIXED.size or length > end - at or crc32(data[at : at + length], self._seed) != crc:
                raise CorruptRecordError(f"the checksum of record {index} of {count} is wrong")
            found.append(self._record(data, at, at + length))
            at += length
        if at != end:
            raise CorruptRecordError(f"{end - at} bytes follow the last of {count} records")
        return found

    def _record(self, data: bytes, at: int, end: int) -> ProducerRecord:
        """Decode a record whose checksum was right: this package has written it."""
        flags, timestamp, partition, topic_size, key_size, headers_size = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        name = data[at : at + topic_size]
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = name.decode()
        at += topic_size
        key = None
        if key_size >= 0:
            key = data[at : at + key_size]
            at += key_size
        headers = None
        if data[at : at + headers_size] != NO_HEADERS:
            headers = decode_headers(data, at, at + headers_size)
        at += headers_size
        return ProducerRecord(
            topic,
            None if flags & _NO_VALUE else data[at:end],
            key=key,
            partition=None if partition < 0 else partition,
            headers=headers,
            timestamp=timestamp,
        )


def entry_end(data: bytes, at: int, seed: int) -> int | None:
    """Where the record at `at` ends; None where no whole one is there."""
    if len(data) - at < ENTRY_OVERHEAD:
        return None
    length, crc = _FRAME.unpack_from(data, at)
    at += _FRAME.size
    if not _FIXED.size <= length <= len(data) - at or crc32(data[at : at + length], seed) != crc:
        return None
    return at + int(length)


def reseeded(data: bytes, seed: int) -> bytes:
    """Whole records with checksums that begin with another seed."""
    parts = []
    at = 0
    while at < len(data):
        length, _ = _FRAME.unpack_from(data, at)
        at += _FRAME.size
        body = data[at : at + length]
        parts += [_FRAME.pack(length, crc32(body, seed)), body]
        at += length
    return b"".join(parts)
