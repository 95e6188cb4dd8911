# cython: boundscheck=False, wraparound=False
"""Building one record batch: records are encoded on arrival, the header is written when the batch is sealed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from aioprod.records.bounds import RECORD_OVERHEAD_MAX
from aioprod.records.compression import Compression, compress
from aioprod.records.cursor import EncodedRecord, RecordCursor
from aioprod.records.headers import NO_HEADERS
from aioprod.records.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    BATCH_LENGTH,
    CRC,
    HEADER,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    MAGIC,
    MAGIC_V2,
    MAX_TIMESTAMP,
    PREFIX,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from aioprod.wire import crc, memory
from aioprod.wire.buffer import Buffer

__all__ = ["EncodedRecord", "RecordBatchBuilder"]

_NO_CODEC: Final = int(Compression.NONE)
"""As a plain number: a member of an enumeration costs a microsecond before Python 3.12."""

_NO_COUNT: Final = 0
"""The varint of 0: the encoding of no headers."""

_TAIL: Final = 1
"""The byte after the records that a flexible Produce request fills with an empty tag section."""


class RecordBatchBuilder:
    """Encodes the records of one batch into one bytearray, and makes of it what a Produce request carries.

    After `compress`, or `seal` without it, nothing more fits.
    """

    __slots__ = (
        "_bytes",
        "_codec",
        "_limit",
        "_sealed",
        "base_timestamp",
        "buffer",
        "compressed_size",
        "count",
        "max_timestamp",
        "position",
    )

    def __init__(self, buffer: bytearray) -> None:
        self.buffer = buffer
        """The caller's, and never resized: `PREFIX` free bytes, the batch, one free byte."""
        self._bytes = buffer
        """Once compiled, the memory of `buffer`."""
        self._limit = len(buffer) - _TAIL
        """Where the records end at the latest."""
        self.position = PREFIX + HEADER
        """The end of the records."""
        self.count = 0
        """The number of records."""
        self.base_timestamp = -1
        """The timestamp of the first record in ms, -1 while there is no record."""
        self.max_timestamp = -1
        """The latest timestamp in ms, -1 while there is no record."""
        self.compressed_size = 0
        """Bytes of the sealed batch: header and records as they are sent."""
        self._sealed: bytearray | None = None
        self._codec = 0

    @property
    def compressed(self) -> bool:
        """Whether the records are in the form in which they are sent."""
        return self._sealed is not None

    @property
    def size(self) -> int:
        """Bytes of the uncompressed batch: header and records."""
        return self.position - PREFIX

    def append(self, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes = NO_HEADERS) -> int:
        """Encode one record; its size in bytes, or 0 when it does not fit in the buffer: then nothing has changed.

        The caller has checked `timestamp` (ms, 0 to 2**63 - 1); `headers` come from `encode_headers`.
        """
        return self.append_from(
            timestamp,
            b"" if key is None else key,
            0,
            -1 if key is None else len(key),
            b"" if value is None else value,
            0,
            -1 if value is None else len(value),
            headers,
            0,
            len(headers),
        )

    def append_from(
        self,
        timestamp: int,
        key: Buffer,
        key_start: int,
        key_size: int,
        value: Buffer,
        value_start: int,
        value_size: int,
        headers: Buffer,
        headers_start: int,
        headers_size: int,
    ) -> int:
        """The same for a record whose parts lie somewhere in larger buffers; a size of -1 stands for null."""
        count = self.count
        base = timestamp if count == 0 else self.base_timestamp
        delta = timestamp - base
        body = 1 + memory.varint_size(delta) + memory.varint_size(count) + headers_size
        body += memory.varint_size(key_size) + memory.varint_size(value_size)
        if key_size > 0:
            body += key_size
        if value_size > 0:
            body += value_size
        start = self.position
        size = memory.varint_size(body) + body
        if start + size > self._limit:
            return 0
        p = self._bytes
        pos = memory.put_varint(p, start, body)
        p[pos] = 0
        pos = memory.put_varint(p, pos + 1, delta)
        pos = memory.put_varint(p, pos, count)
        pos = memory.put_varint(p, pos, key_size)
        if key_size > 0:
            memory.copy_short(p, pos, key, key_start, key_size)
            pos += key_size
        pos = memory.put_varint(p, pos, value_size)
        if value_size > 0:
            memory.copy(p, pos, value, value_start, value_size)
            pos += value_size
        if headers_size == 1:
            p[pos] = _NO_COUNT
        else:
            memory.copy(p, pos, headers, headers_start, headers_size)
        # Last: a copy for which there is no memory, where nothing is compiled, leaves the batch as it was.
        self._advance(timestamp, base, count + 1, start + size)
        return size

    def _advance(self, timestamp: int, base: int, count: int, position: int) -> None:
        """There are `count` records up to `position` now, the last ones of `timestamp`."""
        self.position = position
        self.count = count
        self.base_timestamp = base
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp

    def append_values(self, timestamp: int, values: list[Any], start: int, headers: bytes, size_max: int) -> int:
        """Encode values as records without key that have the rest in common; how many of `values[start:]`.

        It ends before the first that is not of type bytes, and before what fits neither into the buffer nor, with
        those before it, into `size_max` bytes.
        """
        count = self.count
        base = timestamp if count == 0 else self.base_timestamp
        delta = timestamp - base
        headers_size = len(headers)
        fixed_size = 1 + memory.varint_size(delta) + 1 + headers_size
        p = self._bytes
        pos = self.position
        limit = min(self._limit, pos + size_max)
        index = start
        stop = len(values)
        while index < stop:
            given = values[index]
            if type(given) is not bytes:
                break
            value = given
            value_size = len(value)
            at = memory.put_head(p, pos, limit, count, delta, fixed_size, value_size)
            if not at:
                break
            memory.copy(p, at, value, 0, value_size)
            pos = at + value_size
            if headers_size == 1:
                p[pos] = _NO_COUNT
            else:
                memory.copy(p, pos, headers, 0, headers_size)
            pos += headers_size
            count += 1
            index += 1
        if index > start:
            self._advance(timestamp, base, count, pos)
        return index - start

    def append_column(
        self,
        timestamp: int,
        data: Buffer,
        data_size: int,
        places: Buffer,
        width: int,
        gap: int,
        start: int,
        stop: int,
        size_max: int,
    ) -> int:
        """The same for the byte strings `start` to `stop` of `data`, from one place to the next each, without headers.

        `places` are integers of `width` bytes, as the offsets of Arrow, and `gap` bytes before the next place belong to
        none. It also ends before a string whose places descend, or point out of the `data_size` bytes.
        """
        count = self.count
        base = timestamp if count == 0 else self.base_timestamp
        delta = timestamp - base
        fixed_size = 1 + memory.varint_size(delta) + 1 + 1
        p = self._bytes
        pos = self.position
        limit = min(self._limit, pos + size_max)
        index = start
        value_start = memory.int_at(places, width, index)
        while index < stop:
            value_end = memory.int_at(places, width, index + 1) - gap
            if not 0 <= value_start <= value_end <= data_size:
                break
            value_size = value_end - value_start
            at = memory.put_head(p, pos, limit, count, delta, fixed_size, value_size)
            if not at:
                break
            memory.copy(p, at, data, value_start, value_size)
            pos = at + value_size
            p[pos] = _NO_COUNT
            pos += 1
            value_start = value_end + gap
            count += 1
            index += 1
        if index > start:
            self._advance(timestamp, base, count, pos)
        return index - start

    def append_again(self, cursor: RecordCursor) -> int:
        """Encode the record on which the cursor of another builder stands; returns what `append` does."""
        buffer = cursor.buffer
        return self.append_from(
            cursor.timestamp,
            buffer,
            cursor.key_start,
            cursor.key_size,
            buffer,
            cursor.value_start,
            cursor.value_size,
            buffer,
            cursor.headers_start,
            cursor.end - cursor.headers_start,
        )

    def copy(self, other: RecordBatchBuilder) -> None:
        """Copy the records of another builder into this one, which has room for them and none of its own."""
        assert self.count == 0
        assert other.position <= self._limit
        memory.copy(self.buffer, PREFIX + HEADER, other.buffer, PREFIX + HEADER, other.position - PREFIX - HEADER)
        self.position = other.position
        self.count = other.count
        self.base_timestamp = other.base_timestamp
        self.max_timestamp = other.max_timestamp

    def limit_to(self, position: int) -> None:
        """Let the records end at `position` at the latest, or at the end of the buffer if that comes first."""
        self._limit = min(position, len(self.buffer) - _TAIL)

    def trim(self) -> None:
        """Return what is left of the buffer: nothing more fits."""
        self.buffer = memory.shortened(self.buffer, self.position + _TAIL)
        self._bytes = self.buffer
        self._limit = self.position

    def grow(self, buffer: bytearray) -> bytearray:
        """Move to a larger buffer, which may be filled to its end, and return the old one."""
        old = self.buffer
        assert self._sealed is None
        assert len(buffer) >= self.position + _TAIL
        memory.copy(buffer, PREFIX, old, PREFIX, self.position - PREFIX)
        self.buffer = buffer
        self._bytes = buffer
        self._limit = len(buffer) - _TAIL
        return old

    def without(self, indexes: Collection[int], buffer: bytearray) -> RecordBatchBuilder:
        """A builder over `buffer` with all records but those at `indexes`; offsets and base timestamp are new.

        The remaining records may need more bytes than before, when their timestamps are far from the new base:
        if they don't fit in `buffer`, the result has made itself a larger one.
        """
        builder = RecordBatchBuilder(buffer)
        cursor = RecordCursor(self)
        while cursor.next():
            if cursor.index in indexes:
                continue
            if not builder.append_again(cursor):
                builder.grow(bytearray(PREFIX + self.size + self.count * RECORD_OVERHEAD_MAX + _TAIL))
                builder.append_again(cursor)
        return builder

    def compress(self, codec: int, level: int | None) -> None:
        """Compress the records, unless that does not make them smaller; once.

        Compressed records go to a buffer of their own: `buffer` keeps the raw ones and can still be read.
        Touches nothing but this builder, so that a worker thread can do it while no other code changes it.
        """
        assert self.count > 0
        assert self._sealed is None
        sealed = self.buffer
        end = self.position
        if codec != _NO_CODEC:
            with memoryview(self.buffer)[PREFIX + HEADER : end] as raw:
                compressed = compress(codec, level, raw)
            if len(compressed) < end - PREFIX - HEADER:
                sealed = bytearray(PREFIX + HEADER + len(compressed) + _TAIL)
                memory.copy(sealed, PREFIX + HEADER, compressed, 0, len(compressed))
                end = PREFIX + HEADER + len(compressed)
            else:
                codec = _NO_CODEC
        self._codec = codec
        self._sealed = sealed
        self.compressed_size = end - PREFIX
        self._limit = 0

    def seal(
        self,
        codec: int,
        level: int | None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> None:
        """Finish the batch: compress the records, if that has not been done, and write the header."""
        if self._sealed is None:
            self.compress(codec, level)
        sealed = self._sealed
        assert sealed is not None
        end = PREFIX + self.compressed_size
        memory.put_int64_be(sealed, PREFIX + BASE_OFFSET, 0)
        memory.put_int32_be(sealed, PREFIX + BATCH_LENGTH, end - PREFIX - SIZE_OVERHEAD)
        memory.put_int32_be(sealed, PREFIX + LEADER_EPOCH, -1)
        sealed[PREFIX + MAGIC] = MAGIC_V2
        memory.put_int16_be(sealed, PREFIX + ATTRIBUTES, self._codec | (TRANSACTIONAL_FLAG if transactional else 0))
        memory.put_int32_be(sealed, PREFIX + LAST_OFFSET_DELTA, self.count - 1)
        memory.put_int64_be(sealed, PREFIX + BASE_TIMESTAMP, self.base_timestamp)
        memory.put_int64_be(sealed, PREFIX + MAX_TIMESTAMP, self.max_timestamp)
        memory.put_int32_be(sealed, PREFIX + RECORD_COUNT, self.count)
        self.restamp(producer_id, producer_epoch, base_sequence)

    def restamp(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the sealed batch another producer id, epoch and first sequence: 14 bytes and the checksum.

        The bytes must not be on their way to a socket.
        """
        sealed = self._sealed
        assert sealed is not None
        memory.put_int64_be(sealed, PREFIX + PRODUCER_ID, producer_id)
        memory.put_int16_be(sealed, PREFIX + PRODUCER_EPOCH, producer_epoch)
        memory.put_int32_be(sealed, PREFIX + BASE_SEQUENCE, base_sequence)
        memory.put_uint32_be(
            sealed,
            PREFIX + CRC,
            crc.function()(memory.span(sealed, PREFIX + ATTRIBUTES, PREFIX + self.compressed_size)),
        )

    def wire(self, partition: int, flexible: bool) -> memoryview:
        """What a Produce request carries of one partition: its index, the length of the batch and the sealed batch.

        `flexible` (Produce v9 and later): the length is an unsigned varint plus one, and an empty tag section follows.
        The view is of the batch's own buffer: at most one form of it can be in use.
        """
        sealed = self._sealed
        assert sealed is not None
        end = PREFIX + self.compressed_size
        size = end - PREFIX
        start = PREFIX - 4
        if flexible:
            size += 1
            start = PREFIX - 1
            rest = size >> 7
            while rest > 0:
                start -= 1
                rest >>= 7
            pos = start
            while size >= 0x80:
                sealed[pos] = (size & 0x7F) | 0x80
                size >>= 7
                pos += 1
            sealed[pos] = size
            sealed[end] = 0
            end += _TAIL
        else:
            memory.put_int32_be(sealed, start, size)
        memory.put_int32_be(sealed, start - 4, partition)
        return memoryview(sealed)[start - 4 : end]

    def records(self) -> Iterator[EncodedRecord]:
        """The records in their order, as they were appended."""
        cursor = RecordCursor(self)
        while cursor.next():
            yield cursor.record()
