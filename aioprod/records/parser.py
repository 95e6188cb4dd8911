"""Reading record batches as a Fetch response, or a test's own broker, holds them: nothing in the bytes is trusted."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from aioprod._short_reprs import shown_record
from aioprod.consumed_record import ConsumedRecord, consumed_record
from aioprod.errors import CorruptRecordError, ProtocolError
from aioprod.records import layout
from aioprod.records.compression import Compression, decompress
from aioprod.records.fields import FieldReader
from aioprod.wire import crc, memory
from aioprod.wire.buffer import Buffer

__all__ = ["DECOMPRESSED_SIZE_MAX", "ControlType", "ParsedBatch", "ParsedRecord", "RecordReader", "parse_batches"]

DECOMPRESSED_SIZE_MAX: Final = 128 * 1024 * 1024
"""A broker's compressed batches end at `message.max.bytes`, about 1 MB unless that is raised. This leaves room for a
ratio of 128."""

_CONTROL_SIZE_MAX: Final = 64 * 1024
"""The records of a control batch, which brokers write: they are read where the batch is parsed, and are a few bytes."""

_OLD_FORMATS: Final = (
    "Kafka before 0.11 wrote versions 0 and 1, and brokers up to 3.x do where the topic's message.format.version is "
    "below 0.11. No broker converts what is stored: read from a later offset on, or copy it with a client that reads "
    "these."
)

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CONTROL_KEY: Final = struct.Struct(">hh")
_RECORD_SIZE_MIN: Final = 7
"""Length, attributes, timestamp, offset, null key, null value and no headers: one byte each."""

_RUN: Final = 32
_RUN_SIZE: Final = 64 * 1024

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


class ControlType(IntEnum):
    """What a control batch says of a transaction; other values are Kafka's own business."""

    ABORT = 0
    COMMIT = 1


class ParsedRecord(NamedTuple):
    """One record as it is stored: its offset, the timestamp in ms, key, value and headers."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def __repr__(self) -> str:
        return shown_record(self, self._fields)


class ParsedBatch:
    """The header of one record batch, and its records on demand; made by `parse_batches`."""

    __match_args__ = (
        "base_offset",
        "partition_leader_epoch",
        "attributes",
        "last_offset_delta",
        "base_timestamp",
        "max_timestamp",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "count",
        "size",
    )
    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "decompressed_max",
        "last_offset_delta",
        "max_timestamp",
        "partition_leader_epoch",
        "payload",
        "producer_epoch",
        "producer_id",
        "size",
    )

    base_offset: int
    partition_leader_epoch: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    size: int
    """The bytes of header and payload."""
    payload: memoryview
    """What follows the header, compressed or not: a view of the bytes that were given to `parse_batches`, which must
    not change while the batch is in use."""
    decompressed_max: int

    def __repr__(self) -> str:
        return shown_record(self, self.__match_args__)

    def placed(self, base_offset: int) -> ParsedBatch:
        """The same batch at another offset."""
        batch = self._copy()
        batch.base_offset = base_offset
        return batch

    def unpacked(self, data: Buffer) -> ParsedBatch:
        """The same batch with these bytes of its records, which are not compressed any more."""
        batch = self._copy()
        batch.attributes &= ~layout.CODEC_MASK
        batch.payload = memoryview(data)
        return batch

    def _copy(self) -> ParsedBatch:
        batch = ParsedBatch.__new__(ParsedBatch)
        batch.base_offset = self.base_offset
        batch.partition_leader_epoch = self.partition_leader_epoch
        batch.attributes = self.attributes
        batch.last_offset_delta = self.last_offset_delta
        batch.base_timestamp = self.base_timestamp
        batch.max_timestamp = self.max_timestamp
        batch.producer_id = self.producer_id
        batch.producer_epoch = self.producer_epoch
        batch.base_sequence = self.base_sequence
        batch.count = self.count
        batch.size = self.size
        batch.payload = self.payload
        batch.decompressed_max = self.decompressed_max
        return batch

    @property
    def codec(self) -> int:
        """The codec's id; `records` raises for those that are not in `Compression`."""
        return self.attributes & layout.CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether the timestamps are those of the broker's clock, instead of the producer's."""
        return bool(self.attributes & layout.LOG_APPEND_TIME_FLAG)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & layout.TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        """Whether the batch is a marker that the broker wrote, instead of data."""
        return bool(self.attributes & layout.CONTROL_FLAG)

    @property
    def next_offset(self) -> int:
        """The offset after the batch. Compaction may have removed the last records: their offsets still count."""
        return self.base_offset + self.last_offset_delta + 1

    def control_type(self) -> int | None:
        """The `ControlType` of a control batch, or another number; None for a batch of data, or an empty one.

        Raises CorruptRecordError as `records` does.
        """
        record = next(self.records(), None) if self.is_control else None
        if record is None:
            return None
        if record.key is None or len(record.key) < _CONTROL_KEY.size:
            raise CorruptRecordError(f"The control record at offset {record.offset} has no type in its key.")
        _, control_type = _CONTROL_KEY.unpack_from(record.key)
        return int(control_type)

    def records(self) -> Iterator[ParsedRecord]:
        """The records in their order, decompressed and decoded one by one.

        Raises CorruptRecordError when they are malformed, or take more than `decompressed_max` bytes.
        """
        reader = RecordReader(self)
        for _ in range(self.count):
            yield reader.record()
        reader.finish()

    def decompressed(self) -> Buffer:
        """The bytes of the records, contiguous; they are `payload` itself where that is not compressed.

        Raises CorruptRecordError when they take more than `decompressed_max` bytes, or are too few for `count`.
        """
        data = self.payload
        if self.codec != Compression.NONE or len(data) > self.decompressed_max:
            data = memoryview(decompress(self.codec, data, self.decompressed_max))
        if self.count * _RECORD_SIZE_MIN > len(data):
            raise CorruptRecordError(
                f"The batch at offset {self.base_offset} declares {self.count} records in {len(data)} bytes."
            )
        return data


class RecordWalk(FieldReader):
    """Walks the records of `batch`, one after the other; raises CorruptRecordError.

    `begin`, then the key, the value and the headers, then `complete`.
    """

    __slots__ = (
        "_base_offset",
        "_base_timestamp",
        "_delta_max",
        "_delta_min",
        "_is_log_append_time",
        "_key_size",
        "_key_start",
        "_last_offset_delta",
        "_limit",
        "_max_timestamp",
        "_offset_delta",
        "_previous_delta",
        "_timestamp_delta",
        "_value_size",
        "_value_start",
        "offset",
        "timestamp",
    )

    def __init__(self, batch: ParsedBatch) -> None:
        data = batch.decompressed()
        FieldReader.__init__(self, data, 0, len(data))
        self._limit = len(data)
        self._go_to_start(batch)

    def _go_to_start(self, batch: ParsedBatch) -> None:
        self._base_offset = batch.base_offset
        self._last_offset_delta = batch.last_offset_delta
        self._previous_delta = -1
        self._offset_delta = -1
        base = batch.base_timestamp
        self._base_timestamp = base
        self._max_timestamp = batch.max_timestamp
        self._timestamp_delta = 0
        # Within these a timestamp has no more than 64 bits.
        self._delta_min = _INT64_MIN - min(base, 0)
        self._delta_max = _INT64_MAX - max(base, 0)
        self._is_log_append_time = batch.is_log_append_time
        self._key_start = self._value_start = 0
        self._key_size = self._value_size = -1
        self.offset = -1
        """The offset of the record, known once it is complete."""
        self.timestamp = -1
        """The timestamp of the record in ms, known once it is complete."""

    def begin(self) -> None:
        """Go to the key of the next record."""
        self.end = self._limit
        size = self.varint(32)
        if not 0 < size <= self.end - self.position:
            raise CorruptRecordError(f"A record declares {size} bytes where {self.end - self.position} are left.")
        self.end = self.position + size
        self.position += 1
        self._timestamp_delta = self.varint(64)
        self._offset_delta = self.varint(32)

    def complete(self) -> None:
        """The fields of the record were read: check its place and its time."""
        if not self._previous_delta < self._offset_delta <= self._last_offset_delta:
            raise CorruptRecordError(
                f"A record in the batch at offset {self._base_offset} has the offset delta {self._offset_delta}, "
                f"between {self._previous_delta} and {self._last_offset_delta}, the last of the batch."
            )
        if self._is_log_append_time:
            self.timestamp = self._max_timestamp
        elif self._delta_min <= self._timestamp_delta <= self._delta_max:
            self.timestamp = self._base_timestamp + self._timestamp_delta
        else:
            at = self._base_offset + self._offset_delta
            raise CorruptRecordError(f"The timestamp of the record at {at} overflows.")
        self._previous_delta = self._offset_delta
        self.offset = self._base_offset + self._offset_delta

    def _step_quickly(self) -> bool:
        """Go to the next record if it has no headers and only short numbers; else False, and nothing is done.

        That is most records, at a third of the cost. One with a fault is left to the careful way, too, which names it.
        """
        data = self._bytes
        number = memory.short_varint(data, self.position, self._limit)
        at = self.position + (number & 3)
        end = at + (number >> 2)
        if not number or not at < end <= self._limit:
            return False
        at += 1
        time = memory.short_varint(data, at, end)
        at += time & 3
        delta = memory.short_varint(data, at, end)
        at += delta & 3
        key = memory.short_varint(data, at, end)
        at += key & 3
        if not (time and delta and key) or not -1 <= key >> 2 <= end - at:
            return False
        key_start = at
        at += max(key >> 2, 0)
        value = memory.short_varint(data, at, end)
        at += value & 3
        if not value or not -1 <= value >> 2 <= end - at:
            return False
        value_start = at
        at += max(value >> 2, 0)
        if at + 1 != end or data[at]:
            return False
        time >>= 2
        delta >>= 2
        if not (self._previous_delta < delta <= self._last_offset_delta and self._delta_min <= time <= self._delta_max):
            return False
        self.position = self.end = end
        self._previous_delta = delta
        self.offset = self._base_offset + delta
        self.timestamp = self._max_timestamp if self._is_log_append_time else self._base_timestamp + time
        self._key_start = key_start
        self._key_size = key >> 2
        self._value_start = value_start
        self._value_size = value >> 2
        return True

    def finish(self) -> None:
        """There is nothing after the last record."""
        if self.position != self._limit:
            left = self._limit - self.position
            raise CorruptRecordError(f"The batch at offset {self._base_offset} has {left} bytes after its last record.")


class RecordReader(RecordWalk):
    """Reads the records of a batch, one after the other; raises CorruptRecordError."""

    __slots__ = ("_left",)

    def __init__(self, batch: ParsedBatch) -> None:
        RecordWalk.__init__(self, batch)
        self._left = batch.count

    def consume(self, found: list[ConsumedRecord], topic: str, partition: int, start: int, end: int) -> bool:
        """Append some of the next records to `found`, those from offset `start` on, up to but not including `end`.

        These are up to 32, or 64 KiB. True unless the batch has ended.
        """
        run = _RUN
        stop = self.position + _RUN_SIZE
        while self._left and run and self.position < stop:
            self._left -= 1
            run -= 1
            if self._step_quickly():
                if not start <= self.offset < end:
                    continue
                key_size = self._key_size
                value_size = self._value_size
                key = None if key_size < 0 else memory.copied(self._bytes, self._key_start, key_size)
                value = None if value_size < 0 else memory.copied(self._bytes, self._value_start, value_size)
                found.append(consumed_record(topic, partition, self.offset, key, value, (), self.timestamp))
                continue
            self.begin()
            key = self.nullable()
            value = self.nullable()
            headers = self.headers()
            self.complete()
            if start <= self.offset < end:
                found.append(consumed_record(topic, partition, self.offset, key, value, headers, self.timestamp))
        if self._left:
            return True
        self.finish()
        return False

    def record(self) -> ParsedRecord:
        """The next record."""
        self.begin()
        key = self.nullable()
        value = self.nullable()
        headers = self.headers()
        self.complete()
        return memory.tuple_as(ParsedRecord, (self.offset, self.timestamp, key, value, headers))


def parse_batches(
    data: Buffer, *, verify_crc: bool = True, decompressed_max: int = DECOMPRESSED_SIZE_MAX
) -> Iterator[ParsedBatch]:
    """The record batches in `data`, one by one; an incomplete one at the end is left out, as Fetch cuts answers off.

    Raises CorruptRecordError for a malformed header or a wrong checksum, ProtocolError for a batch of another format
    than version 2. `decompressed_max` limits the bytes that the records of one batch may take.
    """
    view = memoryview(data)
    position = 0
    while len(view) - position > layout.MAGIC:
        batch_size = layout.SIZE_OVERHEAD + int.from_bytes(
            view[position + layout.BATCH_LENGTH : position + layout.SIZE_OVERHEAD], "big", signed=True
        )
        magic = view[position + layout.MAGIC]
        if magic != layout.MAGIC_V2:
            raise ProtocolError(
                f"A record batch has format version {magic}, and aioprod reads version 2 only.",
                hint=_OLD_FORMATS if magic < layout.MAGIC_V2 else None,
            )
        if batch_size < layout.HEADER:
            raise CorruptRecordError(f"A record batch declares {batch_size} bytes: its header alone has more.")
        if batch_size > len(view) - position:
            return
        yield _parse_batch(view[position : position + batch_size], verify_crc, decompressed_max)
        position += batch_size


def _parse_batch(view: memoryview, verify_crc: bool, decompressed_max: int) -> ParsedBatch:
    batch = ParsedBatch.__new__(ParsedBatch)
    (
        batch.base_offset,
        _,
        batch.partition_leader_epoch,
        _,
        checksum,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    ) = _HEADER.unpack_from(view)
    batch.size = len(view)
    batch.payload = view[layout.HEADER :]
    batch.decompressed_max = _CONTROL_SIZE_MAX if batch.is_control else decompressed_max
    base_offset, delta, count = batch.base_offset, batch.last_offset_delta, batch.count
    if verify_crc and crc.function()(view[layout.ATTRIBUTES :]) != checksum:
        raise CorruptRecordError(f"The checksum of the batch at offset {base_offset} does not match its bytes.")
    if base_offset < 0 or not 0 <= delta < _INT64_MAX - base_offset:
        raise CorruptRecordError(f"A batch covers {delta} offsets after {base_offset}.")
    if not 0 <= count <= delta + 1:
        raise CorruptRecordError(f"The batch at offset {base_offset} declares {count} records for {delta + 1} offsets.")
    return batch
