from __future__ import annotations

import random
import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import CorruptRecordError, ProtocolError
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression, compress
from aioprod.records.headers import encode_headers
from aioprod.records.layout import HEADER, PREFIX
from aioprod.records.parser import ControlType, ParsedBatch, ParsedRecord, parse_batches
from aioprod.wire import crc
from aioprod.wire.memory import put_varint

NOW = 1_700_000_000_000
INT64_MAX = (1 << 63) - 1

HEADER_LAYOUT = struct.Struct(">qiibIhiqqqhii")
FIELDS: dict[str, int] = {
    "base_offset": 0,
    "leader_epoch": -1,
    "magic": 2,
    "attributes": 0,
    "base_timestamp": NOW,
    "max_timestamp": NOW,
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
}


def make_batch(payload: bytes, count: int, last_offset_delta: int | None = None, **changed: int) -> bytes:
    """A batch as anybody could write it, with the right length and checksum and otherwise any values."""
    fields = FIELDS | changed
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    tail = struct.pack(
        ">hiqqqhii",
        fields["attributes"],
        delta,
        fields["base_timestamp"],
        fields["max_timestamp"],
        fields["producer_id"],
        fields["producer_epoch"],
        fields["base_sequence"],
        count,
    )
    head = struct.pack(">ib", fields["leader_epoch"], fields["magic"])
    checked = tail + payload
    body = head + struct.pack(">I", crc.function()(checked)) + checked
    return struct.pack(">qi", fields["base_offset"], len(body)) + body


def varints(*values: int) -> bytes:
    buffer = bytearray(10 * len(values))
    position = 0
    for value in values:
        position = put_varint(buffer, position, value)
    return bytes(buffer[:position])


def make_record(body: bytes) -> bytes:
    return varints(len(body)) + body


def plain_record(offset_delta: int, timestamp_delta: int = 0, key: bytes | None = None) -> bytes:
    encoded_key = varints(-1) if key is None else varints(len(key)) + key
    return make_record(b"\x00" + varints(timestamp_delta, offset_delta) + encoded_key + varints(-1, 0))


def sample(count: int = 3, codec: Compression = Compression.NONE) -> bytes:
    builder = RecordBatchBuilder(bytearray(PREFIX + 10_000))
    for index in range(count):
        builder.append(NOW + index, b"key", b"value" * 10, encode_headers([("name", b"%d" % index)]))
    builder.seal(codec=codec, level=None)
    return bytes(builder.wire(0, flexible=False)[8:])


def parse(data: Any, **options: Any) -> ParsedBatch:
    (batch,) = parse_batches(data, **options)
    return batch


def corrupt(data: bytes) -> str:
    with pytest.raises(CorruptRecordError) as caught:
        [list(batch.records()) for batch in parse_batches(data)]
    return str(caught.value)


def test_every_header_field() -> None:
    data = make_batch(
        plain_record(4),
        1,
        last_offset_delta=6,
        base_offset=1000,
        leader_epoch=12,
        attributes=0x10,
        base_timestamp=NOW - 5,
        max_timestamp=NOW + 5,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
    )
    batch = parse(data)
    assert (batch.base_offset, batch.last_offset_delta, batch.next_offset) == (1000, 6, 1007)
    assert (batch.partition_leader_epoch, batch.attributes, batch.codec) == (12, 0x10, 0)
    assert (batch.is_transactional, batch.is_control, batch.is_log_append_time) == (True, False, False)
    assert (batch.base_timestamp, batch.max_timestamp) == (NOW - 5, NOW + 5)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 9)
    assert (batch.count, batch.size) == (1, len(data))
    assert bytes(batch.payload) == data[HEADER:]
    assert list(batch.records()) == [ParsedRecord(1004, NOW - 5, None, None, ())]
    assert HEADER_LAYOUT.size == HEADER


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(kind: Any) -> None:
    records = list(parse(kind(sample())).records())
    assert [type(record.value) for record in records] == [bytes] * 3


def test_several_batches_are_parsed_as_they_are_asked_for() -> None:
    damaged = bytearray(sample())
    damaged[-1] ^= 1
    batches = parse_batches(sample(2) + sample(1, Compression.LZ4) + bytes(damaged))
    assert next(batches).count == 2
    assert next(batches).count == 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        next(batches)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_last_batch_cut_off_at_every_byte_is_left_out(codec: Compression) -> None:
    first, second = sample(2), sample(20, codec)
    for end in range(len(second)):
        (batch,) = parse_batches(first + second[:end])
        assert batch.count == 2
    assert list(parse_batches(b"")) == []


@pytest.mark.parametrize("codec", list(Compression))
def test_a_payload_cut_off_at_every_byte_is_corrupt(codec: Compression) -> None:
    batch = parse(sample(5, codec))
    payload = bytes(batch.payload)
    for end in range(len(payload)):
        cut = make_batch(
            payload[:end], 5, attributes=batch.attributes, base_timestamp=NOW, max_timestamp=batch.max_timestamp
        )
        assert corrupt(cut)


@pytest.mark.parametrize("codec", list(Compression))
def test_every_flipped_bit_is_noticed_or_harmless(codec: Compression) -> None:
    data = sample(4, codec)
    content = [record[1:] for record in parse(data).records()]
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            batches = list(parse_batches(flipped))
            records = [list(batch.records()) for batch in batches]
        except ProtocolError:
            continue
        # Only base offset, length and leader epoch are outside of the checksum; a larger length is a cut-off batch.
        assert bit // 8 < 16
        assert records == [] or [record[1:] for record in records[0]] == content


def test_flipped_bits_without_the_checksum_are_corrupt_or_some_records() -> None:
    rng = random.Random(7)
    for codec in Compression:
        data = sample(20, codec)
        for _ in range(150):
            flipped = bytearray(data)
            flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            try:
                for batch in parse_batches(flipped, verify_crc=False, decompressed_max=100_000):
                    assert len(list(batch.records())) == batch.count
                    batch.control_type()
            except ProtocolError:
                continue


@given(st.binary(max_size=60), st.integers(0, 5), st.integers(0, 7), st.integers(0, 6))
@settings(max_examples=150)
def test_any_payload_is_corrupt_or_some_records(payload: bytes, count: int, attributes: int, last: int) -> None:
    try:
        batch = parse(make_batch(payload, count, last, attributes=attributes))
        assert len(list(batch.records())) == count
    except CorruptRecordError:
        return


@given(st.binary(max_size=120))
@settings(max_examples=100)
def test_any_bytes_are_refused_or_parsed(data: bytes) -> None:
    for given_data in (data, data[:16] + b"\x02" + data[16:]):
        records: list[ParsedRecord] = []
        with suppress(ProtocolError):
            for batch in parse_batches(given_data):
                records += batch.records()
        assert len(records) <= len(given_data)


def test_a_wrong_checksum_is_an_error_unless_it_is_not_looked_at() -> None:
    data = bytearray(sample())
    data[17] ^= 1
    assert corrupt(bytes(data)) == "The checksum of the batch at offset 0 does not match its bytes."
    assert parse(data, verify_crc=False).count == 3


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_formats_are_refused_in_a_sentence(magic: int) -> None:
    data = bytearray(sample())
    data[16] = magic
    with pytest.raises(ProtocolError, match=f"format version {magic}, and aioprod reads version 2 only") as caught:
        list(parse_batches(data))
    assert ("No broker converts what is stored" in (caught.value.hint or "")) == (magic < 2)


def test_a_short_message_of_an_old_format_is_refused_too() -> None:
    old = struct.pack(">qiIbbiI", 0, 14, 0, 0, 0, -1, 0)
    with pytest.raises(ProtocolError, match="format version 0"):
        list(parse_batches(old))


@pytest.mark.parametrize("length", [-(1 << 31), -13, -12, -1, 0, 48])
def test_impossible_lengths(length: int) -> None:
    data = bytearray(sample())
    data[8:12] = struct.pack(">i", length)
    assert corrupt(bytes(data)) == f"A record batch declares {length + 12} bytes: its header alone has more."


@pytest.mark.parametrize(
    ("count", "last_offset_delta", "base_offset"),
    [
        (-1, 0, 0),
        (2, 0, 0),
        (0x7FFF_FFFF, 5, 0),
        (1, -1, 0),
        (1, -(1 << 31), 0),
        (1, 0, -1),
        (1, 1, INT64_MAX),
        (1, 0, INT64_MAX),
    ],
)
def test_impossible_counts_and_offsets(count: int, last_offset_delta: int, base_offset: int) -> None:
    assert corrupt(make_batch(plain_record(0), count, last_offset_delta, base_offset=base_offset))


def test_the_count_is_bounded_by_the_bytes() -> None:
    count = 0x7FFF_FFFF
    assert corrupt(make_batch(plain_record(0), count)) == (
        f"The batch at offset 0 declares {count} records in 7 bytes."
    )


def test_the_number_of_headers_is_bounded() -> None:
    most = 1 << 20
    for count, is_read in ((most, True), (most + 1, False)):
        fields = bytes(1) + varints(0, 0, -1, -1, count) + b"\x00\x01" * count
        batch = parse(make_batch(varints(len(fields)) + fields, 1))
        if is_read:
            [record] = batch.records()
            assert record.headers == (("", None),) * most
        else:
            with pytest.raises(CorruptRecordError, match=f"{count} headers, and at most {most} are read"):
                list(batch.records())


def test_bytes_after_the_last_record() -> None:
    assert "1 bytes after its last record" in corrupt(make_batch(plain_record(0) + b"\x00", 1))


@pytest.mark.parametrize("deltas", [(0, 0), (1, 0), (0, 2), (-1, 0)])
def test_offsets_must_rise_inside_the_batch(deltas: tuple[int, int]) -> None:
    assert "offset delta" in corrupt(make_batch(b"".join(plain_record(delta) for delta in deltas), 2))


def test_gaps_of_compaction_are_kept() -> None:
    payload = plain_record(2) + plain_record(5)
    batch = parse(make_batch(payload, 2, last_offset_delta=9, base_offset=100))
    assert [record.offset for record in batch.records()] == [102, 105]
    assert batch.next_offset == 110


def test_a_batch_that_compaction_emptied() -> None:
    batch = parse(make_batch(b"", 0, last_offset_delta=4, base_offset=10))
    assert list(batch.records()) == []
    assert batch.next_offset == 15


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "declares 0 bytes"),
        (b"\x00", "cut off"),
        (b"\x00\x00\x00" + varints(-2, -1, 0) + b"\x00", "key or value declares -2 bytes"),
        (b"\x00\x00\x00" + varints(-1, -2, 0) + b"\x00", "key or value declares -2 bytes"),
        (b"\x00\x00\x00" + varints(3, -1, 0), "key or value declares 3 bytes where 2 are left"),
        (b"\x00\x00\x00" + varints(-1, 0x7FFF_FFFF, 0), "key or value declares 2147483647 bytes"),
        (b"\x00\x00\x00" + varints(-1, -1, 0) + b"\x00", "1 bytes after its headers"),
        (b"\x00\x00\x00" + varints(-1, -1, 5), "declares 5 headers"),
        (b"\x00\x00\x00" + varints(-1, -1), "cut off"),
    ],
)
def test_malformed_records(body: bytes, message: str) -> None:
    payload = make_record(body)
    assert message in corrupt(make_batch(payload + bytes(max(0, 7 - len(payload))), 1))


@pytest.mark.parametrize("size", [-1, -(1 << 31), 8, 0x7FFF_FFFF])
def test_impossible_record_sizes(size: int) -> None:
    assert f"declares {size} bytes" in corrupt(make_batch(varints(size) + bytes(7), 1))


def test_record_attributes_are_ignored() -> None:
    payload = bytearray(plain_record(0))
    payload[1] = 0xFF
    assert len(list(parse(make_batch(bytes(payload), 1)).records())) == 1


def test_timestamps_of_the_brokers_clock_are_the_same_for_all() -> None:
    payload = plain_record(0, 5) + plain_record(1, -7)
    producers = parse(make_batch(payload, 2, max_timestamp=NOW + 5))
    assert [record.timestamp for record in producers.records()] == [NOW + 5, NOW - 7]
    brokers = parse(make_batch(payload, 2, max_timestamp=NOW + 99, attributes=0x08))
    assert brokers.is_log_append_time
    assert [record.timestamp for record in brokers.records()] == [NOW + 99] * 2


@pytest.mark.parametrize(("base", "delta"), [(INT64_MAX, 1), (-(1 << 63), -1), (INT64_MAX, INT64_MAX)])
def test_timestamps_that_overflow(base: int, delta: int) -> None:
    assert "timestamp of the record at 0 overflows" in corrupt(
        make_batch(plain_record(0, delta), 1, base_timestamp=base)
    )


def test_records_without_a_timestamp() -> None:
    batch = parse(make_batch(plain_record(0), 1, base_timestamp=-1, max_timestamp=-1))
    assert [record.timestamp for record in batch.records()] == [-1]


@pytest.mark.parametrize(("number", "meaning"), [(0, ControlType.ABORT), (1, ControlType.COMMIT), (2, 2), (-1, -1)])
def test_control_batches(number: int, meaning: int) -> None:
    key = struct.pack(">hh", 0, number)
    batch = parse(make_batch(plain_record(0, key=key + b"more"), 1, attributes=0x30))
    assert (batch.is_control, batch.is_transactional) == (True, True)
    assert batch.control_type() == meaning


def test_a_batch_without_a_control_record_has_no_control_type() -> None:
    assert parse(sample()).control_type() is None
    assert parse(make_batch(b"", 0, last_offset_delta=0, attributes=0x20)).control_type() is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_a_control_record_without_a_type(key: bytes | None) -> None:
    batch = parse(make_batch(plain_record(0, key=key), 1, attributes=0x20))
    with pytest.raises(CorruptRecordError, match="no type in its key"):
        batch.control_type()


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    batch = parse(make_batch(plain_record(0), 1, attributes=codec))
    assert batch.codec == codec
    with pytest.raises(CorruptRecordError, match=f"codec {codec}"):
        list(batch.records())


@pytest.mark.parametrize("codec", list(Compression))
def test_decompressed_max_bounds_one_batch(codec: Compression) -> None:
    payload = b"".join(plain_record(index) for index in range(200))
    data = make_batch(compress(codec, None, payload), 200, attributes=codec)
    assert len(list(parse(data, decompressed_max=len(payload)).records())) == 200
    with pytest.raises(CorruptRecordError, match=f"more than (the )?{len(payload) - 1} bytes"):
        list(parse(data, decompressed_max=len(payload) - 1).records())
