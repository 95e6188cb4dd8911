from __future__ import annotations

import os
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.records.bounds import record_size_bound
from aioprod.records.builder import EncodedRecord, RecordBatchBuilder
from aioprod.records.compression import Compression
from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.records.layout import ATTRIBUTES, HEADER, PREFIX, PRODUCER_ID, RECORD_COUNT
from aioprod.records.parser import ParsedBatch, parse_batches
from aioprod.wire import crc

NOW = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1

ONE_RECORD = (
    "00000000000000000000003affffffff02e99b8dd80000000000000000018bcfe568000000018bcfe56800ffffffffffffffffff"
    "ffffffffff0000000110000000026b027600"
)
TWO_RECORDS = (
    "000000000000000000000049ffffffff029f7079af0010000000010000018bcfe568000000018bcfe5687b000000000000000700"
    "0100000005000000021e000000026b02760402680231026e010e00f60102010100"
)


def new_builder(capacity: int = 4096) -> RecordBatchBuilder:
    return RecordBatchBuilder(bytearray(b"\xee" * (PREFIX + capacity + 1)))


def seal(builder: RecordBatchBuilder, codec: Compression = Compression.NONE) -> bytes:
    builder.seal(codec=codec, level=None)
    return batch_of(builder)


def batch_of(builder: RecordBatchBuilder) -> bytes:
    return bytes(builder.wire(0, flexible=False)[8:])


def parse(batch: bytes) -> ParsedBatch:
    (parsed,) = parse_batches(batch)
    return parsed


def test_known_batch_of_one_record() -> None:
    builder = new_builder()
    assert builder.append(NOW, b"k", b"v") == 9
    assert seal(builder).hex() == ONE_RECORD


def test_known_batch_of_two_records_in_a_transaction() -> None:
    builder = new_builder()
    builder.append(NOW, b"k", b"v", encode_headers([("h", b"1"), ("n", None)]))
    builder.append(NOW + 123, None, None)
    builder.seal(
        codec=Compression.NONE, level=None, producer_id=7, producer_epoch=1, base_sequence=5, transactional=True
    )
    assert batch_of(builder).hex() == TWO_RECORDS


def test_every_header_field() -> None:
    builder = new_builder()
    builder.append(NOW + 50, b"key", b"value")
    builder.append(NOW + 90, b"key", b"value")
    builder.append(NOW, b"key", b"value")
    builder.seal(
        codec=Compression.NONE,
        level=None,
        producer_id=INT64_MAX,
        producer_epoch=0x7FFF,
        base_sequence=0x7FFF_FFFF,
        transactional=True,
    )
    batch = batch_of(builder)
    assert (
        struct.unpack_from(">qiibIhiqqqhii", batch)
        == (
            0,  # base offset
            len(batch) - 12,
            -1,  # partition leader epoch
            2,  # magic
            crc.function()(batch[21:]),
            0x10,  # attributes
            2,  # last offset delta
            NOW + 50,  # the first record's timestamp, not the smallest
            NOW + 90,
            INT64_MAX,
            0x7FFF,
            0x7FFF_FFFF,
            3,
        )
    )
    assert len(batch) == builder.size == builder.compressed_size
    assert [record.timestamp for record in parse(batch).records()] == [NOW + 50, NOW + 90, NOW]


def test_without_a_producer_id_the_three_fields_are_minus_one() -> None:
    builder = new_builder()
    builder.append(0, b"", b"")
    parsed = parse(seal(builder))
    assert (parsed.producer_id, parsed.producer_epoch, parsed.base_sequence) == (-1, -1, -1)
    assert parsed.attributes == 0


@pytest.mark.parametrize("key", [None, b"", b"k", b"k" * 100])
@pytest.mark.parametrize("value", [None, b"", b"v", b"v" * 10_000])
@pytest.mark.parametrize("headers", [[], [("", None)], [("name", b""), ("name", b"x" * 70)]])
def test_null_empty_and_long(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> None:
    blob = encode_headers(headers)
    builder = new_builder(40_000)
    sizes = [builder.append(NOW + index, key, value, blob) for index in range(3)]
    assert builder.count == 3
    assert builder.size == HEADER + sum(sizes)
    assert max(sizes) <= record_size_bound(key, value, blob)
    assert list(builder.records()) == [EncodedRecord(NOW + index, key, value, blob) for index in range(3)]
    assert [
        (record.offset, record.timestamp, record.key, record.value, record.headers)
        for record in parse(seal(builder)).records()
    ] == [(index, NOW + index, key, value, tuple(headers)) for index in range(3)]


@pytest.mark.parametrize("timestamps", [(0, INT64_MAX), (INT64_MAX, 0), (5, 4, 3, 1 << 40, 0)])
def test_extreme_timestamps(timestamps: tuple[int, ...]) -> None:
    builder = new_builder()
    for timestamp in timestamps:
        builder.append(timestamp, None, b"value")
    parsed = parse(seal(builder))
    assert parsed.base_timestamp == builder.base_timestamp == timestamps[0]
    assert parsed.max_timestamp == builder.max_timestamp == max(timestamps)
    assert tuple(record.timestamp for record in parsed.records()) == timestamps


def test_the_bound_holds_in_the_worst_case() -> None:
    assert record_size_bound(None, None) == 21 + 1 + 1 + 1
    assert record_size_bound(b"k" * 64, b"v" * 63, b"\x02\x00\x01") == 21 + 2 + 64 + 1 + 63 + 3
    builder = new_builder()
    builder.append(INT64_MAX, None, None)
    assert builder.append(0, b"k" * 64, b"v" * 63, NO_HEADERS) <= record_size_bound(b"k" * 64, b"v" * 63)


def test_an_empty_builder() -> None:
    builder = new_builder()
    assert (builder.size, builder.count, builder.base_timestamp, builder.max_timestamp) == (HEADER, 0, -1, -1)
    assert builder.position == PREFIX + HEADER
    assert list(builder.records()) == []


def test_what_does_not_fit_changes_nothing() -> None:
    size = new_builder().append(NOW, b"key", b"value")
    for missing in (0, 1):
        builder = new_builder(HEADER + 2 * size - missing)
        assert builder.append(NOW, b"key", b"value") == size
        before = bytes(builder.buffer)
        fits = builder.append(NOW, b"key", b"value") == size
        assert fits == (missing == 0)
        if not fits:
            assert bytes(builder.buffer) == before
            assert builder.count == 1
            assert builder.append(NOW + 9, None, None) > 0


def test_a_first_record_that_does_not_fit_leaves_the_builder_empty() -> None:
    builder = new_builder(HEADER + 20)
    assert builder.append(NOW, None, b"v" * 20) == 0
    assert (builder.count, builder.base_timestamp, builder.max_timestamp) == (0, -1, -1)
    assert builder.append(3, None, b"v") == 8
    assert (builder.base_timestamp, builder.max_timestamp) == (3, 3)


@pytest.mark.parametrize("capacity", [0, HEADER - 1, HEADER])
def test_a_buffer_without_room_takes_nothing(capacity: int) -> None:
    assert new_builder(capacity).append(NOW, None, None) == 0


def test_grow_keeps_the_records_and_hands_back_the_old_buffer() -> None:
    builder = new_builder(HEADER + 25)
    old = builder.buffer
    builder.append(NOW, b"k", b"v" * 10)
    assert builder.append(NOW, b"k", b"v" * 10) == 0
    larger = bytearray(b"\xdd" * 500)
    assert builder.grow(larger) is old
    assert builder.buffer is larger
    assert builder.append(NOW + 1, b"k", b"v" * 10) > 0
    assert [record.value for record in parse(seal(builder)).records()] == [b"v" * 10] * 2
    old[:] = bytes(len(old))
    assert len(list(builder.records())) == 2


def test_copied_records_are_the_same_bytes_and_others_may_follow() -> None:
    original = new_builder(HEADER + 100)
    original.append(NOW + 5, b"k", b"one", encode_headers([("a", b"1")]))
    original.append(NOW, None, None)
    copied, longer = new_builder(), new_builder()
    copied.copy(original)
    longer.copy(original)
    assert seal(copied) == seal(original)
    original.buffer[:] = bytes(len(original.buffer))
    longer.append(NOW + 9, None, b"two")
    records = [(record.timestamp, record.value) for record in parse(seal(longer)).records()]
    assert records == [(NOW + 5, b"one"), (NOW, None), (NOW + 9, b"two")]


def test_a_sealed_builder_takes_no_more_records() -> None:
    builder = new_builder()
    builder.append(NOW, None, b"v")
    batch = seal(builder)
    assert builder.append(NOW, None, b"v") == 0
    assert batch_of(builder) == batch


@given(st.sets(st.integers(0, 9), max_size=9))
@settings(max_examples=40)
def test_without_renumbers_what_remains(withdrawn: set[int]) -> None:
    builder = new_builder()
    for index in range(10):
        builder.append(NOW + index * 1000, b"%d" % index, None, NO_HEADERS)
    kept = [record for index, record in enumerate(builder.records()) if index not in withdrawn]
    buffer = bytearray(4096)
    rest = builder.without(withdrawn, buffer)
    assert rest.buffer is buffer
    assert rest.count == len(kept)
    assert list(rest.records()) == kept
    assert rest.base_timestamp == kept[0].timestamp
    assert rest.max_timestamp == kept[-1].timestamp
    records = list(parse(seal(rest)).records())
    assert [record.offset for record in records] == list(range(len(kept)))
    assert [(record.timestamp, record.key) for record in records] == [(r.timestamp, r.key) for r in kept]
    assert builder.count == 10


def test_without_all_is_an_empty_builder() -> None:
    builder = new_builder()
    builder.append(NOW, None, b"v")
    rest = builder.without({0}, bytearray(200))
    assert (rest.count, rest.size) == (0, HEADER)


def test_without_makes_itself_room_when_the_new_base_timestamp_is_far_from_the_rest() -> None:
    builder = new_builder()
    for timestamp in (0, INT64_MAX, 0, 0, 0):
        builder.append(timestamp, b"k", b"v")
    exact = bytearray(PREFIX + builder.size + 1)
    rest = builder.without({0}, exact)
    assert rest.size > builder.size
    assert rest.buffer is not exact
    assert list(rest.records()) == list(builder.records())[1:]


def test_the_size_that_a_cursor_steps_over_is_what_append_returned() -> None:
    builder = new_builder()
    sizes = [builder.append(NOW, None, b"v" * (index * 40)) for index in range(6)]
    cursor = RecordCursor(builder)
    assert [cursor.end - cursor.start for _ in iter(lambda: cursor.skip(1), False)] == sizes


@pytest.mark.parametrize("codec", list(Compression))
def test_restamp_changes_only_the_producer_fields_and_the_checksum(codec: Compression) -> None:
    builder = new_builder()
    for _ in range(20):
        builder.append(NOW, b"key", b"value" * 5)
    builder.seal(codec=codec, level=None, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True)
    before = batch_of(builder)
    builder.restamp(0x0102030405060708, 0x1112, 0x21222324)
    after = batch_of(builder)
    changed = {index for index, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}
    assert changed <= {*range(17, 21), *range(43, 57)}
    assert after[43:57].hex() == "0102030405060708111221222324"
    parsed = parse(after)
    assert (parsed.producer_id, parsed.producer_epoch) == (0x0102030405060708, 0x1112)
    assert parsed.is_transactional
    builder.restamp(1, 2, 3)
    assert batch_of(builder) == before


def extremes(size: int) -> tuple[int, ...]:
    """The least and the greatest integer of `size` bytes, and what is near 0."""
    top = 1 << (8 * size - 1)
    return -top, -1, 0, 1, top - 1


@pytest.mark.parametrize("stamp", list(zip(extremes(8), extremes(2), extremes(4), strict=True)))
def test_a_stamp_of_extreme_integers(stamp: tuple[int, int, int]) -> None:
    builder = new_builder()
    builder.append(NOW, None, b"value")
    before = seal(builder)
    builder.restamp(*stamp)
    after = batch_of(builder)
    assert after[PRODUCER_ID:RECORD_COUNT] == struct.pack(">qhi", *stamp)
    assert (after[ATTRIBUTES:PRODUCER_ID], after[RECORD_COUNT:]) == (
        before[ATTRIBUTES:PRODUCER_ID],
        before[RECORD_COUNT:],
    )


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("value_size", [0, 40, 100, 16_000, 300_000])
def test_wire_of_both_forms(codec: Compression, value_size: int) -> None:
    builder = new_builder(value_size + 200)
    builder.append(NOW, b"key", os.urandom(value_size // 2) + bytes(value_size - value_size // 2))
    batch = seal(builder, codec)
    assert len(batch) == builder.compressed_size

    fixed = bytes(builder.wire(-7, flexible=False))
    assert fixed == struct.pack(">ii", -7, len(batch)) + batch

    length = len(batch) + 1
    varint = bytearray()
    while length >= 0x80:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    assert bytes(builder.wire(0x01020304, flexible=True)) == b"\x01\x02\x03\x04" + varint + batch + b"\x00"
    assert bytes(builder.wire(-7, flexible=False)) == fixed


@pytest.mark.parametrize("size", [126, 127, 128, 16_382, 16_383, 16_384])
def test_wire_where_the_length_gets_one_byte_more(size: int) -> None:
    builder = new_builder(size)
    value = bytes(size - HEADER)
    while not builder.append(NOW, None, value):
        value = value[:-1]
    wire = bytes(builder_sealed(builder).wire(1, flexible=True))
    prefix_size = len(wire) - builder.size - 1
    assert prefix_size - 4 == (len(bin(builder.size + 1)) - 2 + 6) // 7
    assert wire[prefix_size:-1] == batch_of(builder)


def builder_sealed(builder: RecordBatchBuilder) -> RecordBatchBuilder:
    builder.seal(codec=Compression.NONE, level=None)
    return builder


def test_uncompressed_is_sent_from_the_callers_buffer() -> None:
    builder = new_builder()
    builder.append(NOW, None, b"value")
    builder.seal(codec=Compression.NONE, level=None)
    assert builder.wire(0, flexible=True).obj is builder.buffer
    assert builder.compressed_size == builder.size


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_compressed_leaves_the_raw_records_readable(codec: Compression) -> None:
    builder = new_builder(100_000)
    for index in range(500):
        builder.append(NOW, b"%d" % index, b"value" * 20)
    raw = bytes(builder.buffer)
    batch = seal(builder, codec)
    assert parse(batch).codec == codec
    assert builder.compressed_size == len(batch) < builder.size / 2
    assert bytes(builder.buffer) == raw
    assert [record.key for record in builder.records()] == [b"%d" % index for index in range(500)]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
@pytest.mark.parametrize("value", [b"", b"v", os.urandom(3000)])
def test_what_does_not_get_smaller_is_sent_uncompressed(codec: Compression, value: bytes) -> None:
    builder = new_builder()
    builder.append(NOW, None, value)
    batch = seal(builder, codec)
    assert parse(batch).codec == Compression.NONE
    assert builder.compressed_size == builder.size
    assert builder.wire(0, flexible=False).obj is builder.buffer
