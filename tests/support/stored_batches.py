"""Record batches as a log may hold them: at any offset, of transactions, with gaps, markers among them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from aioprod.records import PREFIX, Compression, ControlType, ParsedBatch, RecordBatchBuilder, parse_batches
from aioprod.records.headers import encode_headers
from aioprod.testing.fake import FakePartition
from aioprod.types import Headers
from aioprod.wire import crc

CONTROL_FLAG = 0x20


def stored_batch(
    values: Sequence[bytes | None],
    *,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    timestamp: int = 1000,
    key: bytes | None = None,
    headers: Headers = (),
    codec: Compression = Compression.NONE,
    producer_id: int = -1,
    transactional: bool = False,
    attributes: int = 0,
) -> bytes:
    """One batch with `values` from `base_offset` on; timestamps count up in ms; `attributes` are set beside the others.

    With `last_offset_delta` the batch covers more offsets than it has records, as after compaction.
    """
    room = 200 + sum(50 + len(value or b"") + len(key or b"") for value in values)
    builder = RecordBatchBuilder(bytearray(PREFIX + 61 + room))
    for index, value in enumerate(values):
        assert builder.append(timestamp + index, key, value, encode_headers(headers))
    builder.seal(codec=codec, level=None, producer_id=producer_id, producer_epoch=0, transactional=transactional)
    batch = bytearray(builder.wire(0, flexible=False)[8:])
    struct.pack_into(">q", batch, 0, base_offset)
    (flags,) = struct.unpack_from(">h", batch, 21)
    struct.pack_into(">h", batch, 21, flags | attributes)
    if last_offset_delta is not None:
        struct.pack_into(">i", batch, 23, last_offset_delta)
    struct.pack_into(">I", batch, 17, crc.function()(batch[21:]))
    return bytes(batch)


def marker(kind: ControlType, producer_id: int, *, base_offset: int) -> bytes:
    """The control batch that ends a transaction."""
    key = struct.pack(">hh", 0, kind)
    value = struct.pack(">hi", 0, 0)
    return stored_batch(
        [value],
        base_offset=base_offset,
        key=key,
        producer_id=producer_id,
        transactional=True,
        attributes=CONTROL_FLAG,
    )


def parsed(data: bytes) -> ParsedBatch:
    """The only batch in `data`."""
    (batch,) = parse_batches(data)
    return batch


def store(partition: FakePartition, *batches: bytes) -> None:
    """Add batches with their own offsets to a log; what they leave out is a gap."""
    for data in batches:
        partition.store(data)


def append(partition: FakePartition, data: bytes) -> None:
    """Add a batch to a log as its leader does: at the end, with note of its producer."""
    partition.append(parsed(data), data)


def fill(partition: FakePartition, count: int, *, batch_records: int = 1) -> None:
    """Add `count` records with their offset as value, and 1000 more as timestamp in ms."""
    for base in range(partition.next_offset, partition.next_offset + count, batch_records):
        values = [b"%d" % offset for offset in range(base, base + batch_records)]
        store(partition, stored_batch(values, base_offset=base, timestamp=1000 + base))
