"""Record batches: both builds write the same bytes, and read the same out of any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builds import Build, builds, check_same, plain
from tests.support.columns import table_records

INT64_MAX = (1 << 63) - 1
NOW = 1_700_000_000_000

Record = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS: st.SearchStrategy[list[Record]] = st.lists(
    st.tuples(
        st.integers(0, INT64_MAX) | st.integers(NOW, NOW + 1000) | st.integers(NOW, NOW + 3_000_000),
        st.none() | st.binary(max_size=100),
        st.none() | st.binary(max_size=300) | st.integers(0, 9000).map(lambda size: b"a" * size),
        st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3),
    ),
    min_size=1,
    max_size=12,
)
SIZES = st.integers(100, 60_000)
DAMAGE = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3)
STAMPS = st.tuples(st.integers(-1, INT64_MAX), st.integers(-1, (1 << 15) - 1), st.integers(-1, (1 << 31) - 1))


def filled(build: Build, records: Sequence[Record], size: int) -> tuple[Any, list[int]]:
    """A builder with those of the records that fit into `size` bytes, and what each append said."""
    module = build["aioprod.records.builder"]
    encode_headers = build["aioprod.records.headers"].encode_headers
    builder = module.RecordBatchBuilder(bytearray(size))
    said = [builder.append(time, key, value, encode_headers(headers)) for time, key, value, headers in records]
    return builder, said


def state(builder: Any) -> list[Any]:
    return [
        builder.position,
        builder.count,
        builder.base_timestamp,
        builder.max_timestamp,
        builder.size,
        plain(list(builder.records())),
    ]


@given(RECORDS, SIZES)
def test_appending(records: list[Record], size: int) -> None:
    def call(build: Build) -> object:
        builder, said = filled(build, records, size)
        bound = build["aioprod.records.bounds"].record_size_bound
        encode_headers = build["aioprod.records.headers"].encode_headers
        bounds = [bound(key, value, encode_headers(headers)) for _, key, value, headers in records]
        return state(builder), said, bounds, builder.buffer[: builder.position]

    check_same(call)


def test_a_record_for_which_there_is_no_memory_leaves_the_batch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is compiled a slice is a copy, for which there may be no memory."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    interpreted = builds()[1]
    builder, _ = filled(interpreted, [(NOW, None, b"first", [])], 1000)
    before = state(builder)
    with monkeypatch.context() as patch:
        for name in ("copy", "copy_short"):
            patch.setattr(interpreted["aioprod.wire.memory"], name, no_memory)
        for key, value in ((b"key", None), (None, b"value")):
            with pytest.raises(MemoryError):
                builder.append(NOW + 1, key, value)
    assert state(builder) == before


@given(RECORDS, st.sampled_from([0, 1, 2, 3, 4]), st.booleans(), st.booleans(), STAMPS, STAMPS)
@settings(max_examples=150)
def test_sealing_and_the_wire(
    records: list[Record],
    codec: int,
    flexible: bool,
    transactional: bool,
    stamp: tuple[int, int, int],
    again: tuple[int, int, int],
) -> None:
    def call(build: Build) -> object:
        builder, _ = filled(build, records, 120_000)
        producer_id, epoch, sequence = stamp
        builder.seal(
            codec=codec,
            level=None,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        first = bytes(builder.wire(3, flexible))
        builder.restamp(*again)
        second = bytes(builder.wire(0x7FFFFFFF, flexible))
        parsed = build["aioprod.records.parser"].parse_batches(bytes(builder.wire(0, False))[8:])
        return first, second, builder.compressed_size, [(batch, list(batch.records())) for batch in parsed]

    check_same(call)


@given(RECORDS, st.sets(st.integers(0, 12)), SIZES)
def test_leaving_records_out(records: list[Record], indexes: set[int], size: int) -> None:
    def call(build: Build) -> object:
        builder, _ = filled(build, records, 120_000)
        rest = builder.without(indexes, bytearray(size))
        return state(rest), rest.buffer[77 : rest.position]

    check_same(call)


@given(RECORDS, SIZES, st.integers(0, 100_000))
def test_growing(records: list[Record], size: int, more: int) -> None:
    def call(build: Build) -> object:
        builder, _ = filled(build, records, size)
        old = builder.grow(bytearray(size + more))
        said = builder.append(NOW, b"key", b"value")
        return len(old), said, state(builder)

    check_same(call)


@given(RECORDS, SIZES)
def test_copying(records: list[Record], more: int) -> None:
    def call(build: Build) -> object:
        original, _ = filled(build, records, 120_000)
        copied = build["aioprod.records.builder"].RecordBatchBuilder(bytearray(120_000 + more))
        copied.copy(original)
        said = copied.append(NOW, b"key", b"value")
        return said, state(copied), copied.buffer[77 : copied.position]

    check_same(call)


@given(RECORDS, st.lists(st.integers(0, 4), max_size=8))
def test_the_cursor(records: list[Record], steps: list[int]) -> None:
    def call(build: Build) -> object:
        builder, _ = filled(build, records, 120_000)
        cursor = build["aioprod.records.cursor"].RecordCursor(builder)
        seen: list[object] = []
        for step in steps:
            seen += [cursor.skip(step) if step else cursor.next(), cursor.index, cursor.start, cursor.end]
            if not step:
                seen += [cursor.timestamp, cursor.key_start, cursor.key_size, cursor.value_start, cursor.value_size]
        return seen

    check_same(call)


def read_varint(build: Build, data: bytes, start: int, bits: int) -> tuple[int, int]:
    reader = build["aioprod.records.fields"].FieldReader(data, start, len(data))
    return reader.varint(bits), reader.position


def integers(size: int) -> st.SearchStrategy[int]:
    """Any signed integer of `size` bytes."""
    return st.integers(-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)


@given(st.tuples(integers(8), integers(2), integers(4)), integers(4))
def test_integers(stamp: tuple[int, int, int], partition: int) -> None:
    def call(build: Build) -> object:
        builder, _ = filled(build, [(NOW, None, b"value", [])], 200)
        builder.seal(codec=0, level=None)
        builder.restamp(*stamp)
        return bytes(builder.wire(partition, False))

    check_same(call)


@given(st.binary(max_size=12), st.integers(0, 4), st.sampled_from([32, 64]))
def test_reading_any_integer(data: bytes, start: int, bits: int) -> None:
    check_same(lambda build: read_varint(build, data, start, bits))


HEADERS = st.lists(
    st.tuples(NAMES | st.text(max_size=4), st.none() | st.binary(max_size=40) | st.text(max_size=3)), max_size=5
)


@given(HEADERS)
def test_encoding_headers(headers: list[tuple[str, bytes | None]]) -> None:
    check_same(lambda build: build["aioprod.records.headers"].encode_headers(headers))


@given(st.binary(max_size=60))
def test_decoding_any_headers(data: bytes) -> None:
    check_same(lambda build: build["aioprod.records.headers"].decode_headers(data, 0, len(data)))


@given(RECORDS, st.integers(0, 4), DAMAGE, st.data())
@settings(max_examples=150)
def test_parsing_damaged_batches(
    records: list[Record], codec: int, damage: list[tuple[int, int]], data: st.DataObject
) -> None:
    def stored(build: Build) -> bytes:
        builder, _ = filled(build, records, 120_000)
        builder.seal(codec=codec, level=None)
        return bytes(builder.wire(0, False))[8:]

    batch = bytearray(check_same(stored))
    for at, byte in damage:
        batch[at % len(batch)] = byte
    cut = bytes(batch[: data.draw(st.integers(0, len(batch)))] if data.draw(st.booleans()) else batch)

    def call(build: Build) -> object:
        parsed = build["aioprod.records.parser"].parse_batches(cut, verify_crc=False, decompressed_max=1 << 20)
        return [(found, list(found.records())) for found in parsed]

    check_same(call)


@given(RECORDS, st.integers(0, 4), DAMAGE, st.integers(0, 12), st.integers(0, 14))
def test_consumed_records(
    records: list[Record], codec: int, damage: list[tuple[int, int]], start: int, end: int
) -> None:
    def stored(build: Build) -> bytes:
        builder, _ = filled(build, records, 120_000)
        builder.seal(codec=codec, level=None)
        return bytes(builder.wire(0, False))[8:]

    data = bytearray(check_same(stored))
    for at, byte in damage:
        data[61 + at % (len(data) - 61)] = byte

    def call(build: Build) -> object:
        module = build["aioprod.records.parser"]
        said: list[object] = []
        for batch in module.parse_batches(bytes(data), verify_crc=False, decompressed_max=1 << 20):
            found: list[Any] = []
            try:
                reader = module.RecordReader(batch)
                while reader.consume(found, "t", 3, start, end):
                    pass
            except build["aioprod.errors"].CorruptRecordError as error:
                said.append(str(error))
            said.append([plain(one) for one in found])
        return said

    check_same(call)


@given(RECORDS, st.integers(0, 4), DAMAGE, st.integers(0, 12), st.integers(0, 14), st.booleans(), st.integers(1, 9))
@settings(max_examples=150)
def test_tables(
    records: list[Record],
    codec: int,
    damage: list[tuple[int, int]],
    start: int,
    end: int,
    headers: bool,
    rows_max: int,
) -> None:
    def stored(build: Build) -> bytes:
        builder, _ = filled(build, records, 120_000)
        builder.seal(codec=codec, level=None)
        return bytes(builder.wire(0, False))[8:]

    data = bytearray(check_same(stored))
    for at, byte in damage:
        data[61 + at % (len(data) - 61)] = byte

    def call(build: Build) -> object:
        module = build["aioprod.records.table"]
        parsed = build["aioprod.records.parser"].parse_batches(bytes(data), verify_crc=False, decompressed_max=1 << 20)
        return [
            table_records(module, batch, start, end, rows_max=rows_max, size_max=5000, headers=headers)
            for batch in parsed
        ]

    check_same(call)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=30))
def test_spare_buffers(turns: list[tuple[bool, int]]) -> None:
    def call(build: Build) -> object:
        spares = build["aioprod.records.spare_buffers"].SpareBuffers(50)
        held = [bytearray()]
        said = []
        for is_kept, size in turns:
            buffer = spares.longer(bytearray(), size)
            said.append(len(buffer))
            spares.gave(buffer)
            held[0] = buffer if is_kept else held[0]
            del buffer
        return said

    check_same(call)


@pytest.mark.parametrize("codec", range(5))
@given(data=st.binary(max_size=300), limit=st.integers(0, 1000))
def test_compression(codec: int, data: bytes, limit: int) -> None:
    def call(build: Build) -> object:
        module = build["aioprod.records.compression"]
        return module.decompress(codec, module.compress(codec, None, data), limit)

    check_same(call)
    check_same(lambda build: build["aioprod.records.compression"].decompress(codec, data, limit))
