"""Record batches: parsed from Fetch responses, decompressed, and built."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator

import cramjam

from aioprod.errors import CorruptRecordError
from aioprod.records import (
    HEADER,
    PREFIX,
    Compression,
    ParsedBatch,
    RecordBatchBuilder,
    compress,
    decode_headers,
    decompress,
    encode_headers,
    parse_batches,
    record_size_bound,
    table,
)
from aioprod.records.layout import ATTRIBUTES, CRC
from aioprod.wire import crc
from tests.fuzz.limits import DECOMPRESSED_MAX
from tests.support.columns import table_records
from tests.support.golden import GOLDEN, from_base64

__all__ = ["batch_seeds", "batches", "builder", "builder_seeds", "codec_seeds", "codecs"]

INT64_MAX = (1 << 63) - 1


# --- reading


def batches(data: bytes) -> None:
    """Input: flags, batches. Bit 0 verifies the checksum, bit 1 corrects it. Records are in order."""
    if not data:
        return
    stream = bytearray(data[1:])
    if data[0] & 2:
        stream[CRC:ATTRIBUTES] = struct.pack(">I", crc.function()(stream[ATTRIBUTES:]))
    position = 0
    for batch in parse_batches(bytes(stream), verify_crc=bool(data[0] & 1), decompressed_max=DECOMPRESSED_MAX):
        position += batch.size
        assert position <= len(stream)
        check(batch)


def check(batch: ParsedBatch) -> None:
    """The invariants that a reader relies on."""
    assert 0 <= batch.base_offset < batch.next_offset <= INT64_MAX
    repr(batch)
    batch.control_type()
    assert outcome(lambda: columns(batch)) == outcome(lambda: [tuple(record) for record in batch.records()])
    previous = batch.base_offset - 1
    count = size = 0
    for record in batch.records():
        assert previous < record.offset < batch.next_offset
        assert -INT64_MAX - 1 <= record.timestamp <= INT64_MAX
        previous = record.offset
        count += 1
        size += len(record.key or b"") + len(record.value or b"")
        size += sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    assert count == batch.count
    assert size <= DECOMPRESSED_MAX


def columns(batch: ParsedBatch) -> list[tuple[object, ...]]:
    """The records from columns, in small tables."""
    tables = table_records(table, batch, 0, INT64_MAX, rows_max=5, size_max=1000)
    return [record for rows in tables for record in rows]


def outcome(read: Callable[[], list[tuple[object, ...]]]) -> object:
    """The records, or the error of parsing them."""
    try:
        return read()
    except CorruptRecordError as error:
        return str(error)


def golden_batches() -> Iterator[bytes]:
    """All batches that Kafka's own classes wrote."""
    for path in sorted((GOLDEN / "records").glob("*.json")):
        for sample in json.loads(path.read_text()):
            yield from_base64(sample["bytes"])


def batch_seeds() -> Iterator[bytes]:
    """Kafka's own batches, of every codec and control batches."""
    for stored in golden_batches():
        for flags in (b"\x00", b"\x01", b"\x02"):
            yield flags + stored


# --- decompressing


def codecs(data: bytes) -> None:
    """Input: codec, bytes. The output never exceeds the limit; with the high bit they are compressed first."""
    if not data:
        return
    codec, rest = data[0] & 7, data[1:]
    if data[0] & 0x80 and codec in Compression.__members__.values():
        assert decompress(codec, compress(codec, None, rest), max(len(rest), 1)) == rest
    assert len(decompress(codec, rest, DECOMPRESSED_MAX)) <= DECOMPRESSED_MAX


def bombs(size: int) -> Iterator[tuple[Compression, bytes]]:
    """Decompression bombs of each codec: few bytes for `size` bytes, with and without a declared size."""
    nothing = bytes(size)
    yield Compression.GZIP, zlib.compress(nothing, 9, 31)
    yield Compression.GZIP, zlib.compress(nothing[: size // 100], 9, 31) * 100
    yield Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(nothing))
    yield Compression.SNAPPY, compress(Compression.SNAPPY, None, nothing)
    yield Compression.LZ4, bytes(cramjam.lz4.compress(nothing))
    yield Compression.LZ4, compress(Compression.LZ4, None, nothing)
    yield Compression.ZSTD, bytes(cramjam.zstd.compress(nothing))
    yield Compression.ZSTD, zstd_bomb(size, window=17 << 3)
    yield Compression.ZSTD, zstd_bomb(size, window=21 << 3)


def zstd_bomb(size: int, *, window: int) -> bytes:
    """A frame without content size, of blocks that repeat one byte 128 KiB times; `window` is its descriptor."""
    count = max(size >> 17, 1)
    block = ((1 << 17) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = ((1 << 17) << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return bytes.fromhex("28b52ffd") + bytes([0, window]) + block * (count - 1) + last


def codec_seeds() -> Iterator[bytes]:
    """Compressed text, small bombs, and text to compress."""
    text = b"a record, and another record, and one more record. " * 8
    for codec in Compression:
        for data in (b"", b"a", text):
            yield bytes([codec]) + compress(codec, None, data)
            yield bytes([codec | 0x80]) + data
    for codec, bomb in bombs(2 * DECOMPRESSED_MAX):
        if len(bomb) < 4096:
            yield bytes([codec]) + bomb
    yield bytes([Compression.SNAPPY]) + bytes(cramjam.snappy.compress_raw(text))
    yield bytes([Compression.ZSTD]) + bytes.fromhex("502a4d18 03000000 616263")
    yield bytes([7])


# --- writing


def builder(data: bytes) -> None:
    """Input: flags, records. The cursor and the parser read exactly the records that the builder accepted.

    A record is eight bytes of timestamp, then sizes and bytes of key, value, a header's name and its value; size 255
    is a null.
    """
    rows = list(rows_of(data[1:]))
    if not rows:
        return
    room = sum(record_size_bound(key, value, encode_headers(headers)) for _, key, value, headers in rows)
    batch = RecordBatchBuilder(bytearray(PREFIX + HEADER + room + 1))
    taken = []
    for timestamp, key, value, headers in rows:
        if batch.append(timestamp, key, value, encode_headers(headers)):
            taken.append((timestamp, key, value, headers))
    encoded = [
        (one.timestamp, one.key, one.value, decode_headers(one.headers, 0, len(one.headers))) for one in batch.records()
    ]
    assert encoded == taken
    codec = Compression(data[0] % len(Compression))
    batch.seal(codec=codec, level=None, producer_id=data[0], producer_epoch=1, base_sequence=0)
    [parsed] = parse_batches(bytes(batch.wire(0, flexible=False)[8:]), decompressed_max=DECOMPRESSED_MAX)
    found = [(one.timestamp, one.key, one.value, one.headers) for one in parsed.records()]
    assert found == taken
    assert parsed.count == len(taken)


def rows_of(
    data: bytes,
) -> Iterator[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]]:
    """The records that `data` describes, as far as it goes."""
    position = 0

    def part() -> bytes | None:
        nonlocal position
        size = data[position] if position < len(data) else 0
        position += 1
        if size == 255:
            return None
        position += size
        return data[position - size : position]

    while position + 8 <= len(data):
        (timestamp,) = struct.unpack_from(">q", data, position)
        position += 8
        key, value, name, held = part(), part(), part(), part()
        headers = () if name is None else ((name.decode("latin-1"), held),)
        yield timestamp & INT64_MAX, key, value, headers


def builder_seeds() -> Iterator[bytes]:
    """Some records, with and without key, value and headers."""
    row = struct.pack(">q", 1_700_000_000_000) + b"\x01k\x05value\x01h\x01v"
    empty = struct.pack(">q", 0) + b"\xff\xff\xff\x00"
    for flags in range(5):
        yield bytes([flags]) + row + empty + row
