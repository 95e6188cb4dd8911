"""Stored batches as brokers change them: by their own clock, and by compaction."""

from __future__ import annotations

from collections.abc import Container

from aioprod.records import PREFIX, RecordBatchBuilder, parse_batches
from aioprod.records.headers import encode_headers
from aioprod.records.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    LAST_OFFSET_DELTA,
    LOG_APPEND_TIME_FLAG,
    MAX_TIMESTAMP,
)
from aioprod.testing.fake.state.log import StoredBatch
from aioprod.wire import crc

__all__ = ["at_broker_time", "compacted", "with_bytes"]


def with_bytes(stored: StoredBatch, data: bytearray) -> StoredBatch:
    """A stored batch with other bytes, which get a checksum."""
    data[CRC:ATTRIBUTES] = crc.function()(bytes(data[ATTRIBUTES:])).to_bytes(4, "big")
    (batch,) = parse_batches(bytes(data))
    return stored._replace(batch=batch, data=bytes(data))


def at_broker_time(stored: StoredBatch, timestamp: int) -> StoredBatch:
    """As a topic with LogAppendTime stores it at this time, in ms."""
    data = bytearray(stored.data)
    data[ATTRIBUTES + 1] |= LOG_APPEND_TIME_FLAG
    data[MAX_TIMESTAMP : MAX_TIMESTAMP + 8] = timestamp.to_bytes(8, "big")
    return with_bytes(stored, data)


def compacted(stored: StoredBatch, kept: Container[int]) -> StoredBatch:
    """With its first records only, those of `kept` (0, 1, ...), as the log cleaner leaves it: the numbers stay."""
    batch = stored.batch
    builder = RecordBatchBuilder(bytearray(PREFIX + batch.size + 100))
    for place, record in enumerate(batch.records()):
        if place in kept:
            builder.append(record.timestamp, record.key, record.value, encode_headers(record.headers))
    builder.seal(0, None, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    data = bytearray(builder.buffer[PREFIX : PREFIX + builder.compressed_size])
    data[BASE_OFFSET : BASE_OFFSET + 8] = batch.base_offset.to_bytes(8, "big")
    data[LAST_OFFSET_DELTA : LAST_OFFSET_DELTA + 4] = batch.last_offset_delta.to_bytes(4, "big")
    return with_bytes(stored, data)
