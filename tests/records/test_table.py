from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import CorruptRecordError
from aioprod.records import PREFIX, Compression, ParsedBatch, RecordBatchBuilder, encode_headers, parse_batches, table
from tests.records.test_parser import make_batch, make_record, plain_record, varints
from tests.support.columns import bytes_of, records_of, table_records
from tests.support.stored_batches import parsed, stored_batch

NOW = 1_700_000_000_000
ALL = 1 << 62

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
RECORDS = st.lists(
    st.tuples(
        st.integers(NOW, NOW + 10_000) | st.integers(0, (1 << 63) - 1),
        st.none() | st.binary(max_size=40),
        st.none() | st.binary(max_size=40) | st.integers(0, 9000).map(lambda size: b"v" * size),
        st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=20)), max_size=3) | st.just([]),
    ),
    min_size=1,
    max_size=30,
)
Rows = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]


def built(rows: Rows, codec: Compression = Compression.NONE) -> bytes:
    builder = RecordBatchBuilder(bytearray(PREFIX + 400_000))
    for time, key, value, headers in rows:
        assert builder.append(time, key, value, encode_headers(headers))
    builder.seal(codec=codec, level=None)
    return bytes(builder.wire(0, flexible=False)[8:])


def flat(tables: list[list[tuple[object, ...]]]) -> list[tuple[object, ...]]:
    return [record for rows in tables for record in rows]


def expected(batch: ParsedBatch, start: int, end: int) -> list[tuple[object, ...]]:
    return [tuple(record) for record in batch.records() if start <= record.offset < end]


@given(RECORDS, st.sampled_from(list(Compression)), st.integers(0, 30), st.integers(0, 40))
@settings(max_examples=150)
def test_the_same_as_record_by_record(rows: Rows, codec: Compression, start: int, end: int) -> None:
    batch = parsed(built(rows, codec))
    assert flat(table_records(table, batch, start, end)) == expected(batch, start, end)


@given(RECORDS, st.integers(1, 7), st.integers(1, 20_000))
def test_small_tables(rows: Rows, rows_max: int, size_max: int) -> None:
    batch = parsed(built(rows))
    found = table_records(table, batch, 0, ALL, rows_max=rows_max, size_max=size_max)
    assert flat(found) == expected(batch, 0, ALL)
    assert all(len(one) <= rows_max for one in found)


@given(RECORDS)
def test_without_headers(rows: Rows) -> None:
    batch = parsed(built(rows))
    found = flat(table_records(table, batch, 0, ALL, headers=False))
    assert found == [(*record[:4], ()) for record in expected(batch, 0, ALL)]


@given(RECORDS, st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=200)
def test_damaged_batches_fail_alike(rows: Rows, damage: list[tuple[int, int]], headers: bool) -> None:
    data = bytearray(built(rows))
    for at, byte in damage:
        data[61 + at % (len(data) - 61)] = byte
    (batch,) = parse_batches(bytes(data), verify_crc=False)
    try:
        wanted: object = expected(batch, 0, ALL)
        if not headers:
            wanted = [(*record[:4], ()) for record in expected(batch, 0, ALL)]
    except CorruptRecordError as error:
        wanted = str(error)
    try:
        found: object = flat(table_records(table, batch, 0, ALL, headers=headers))
    except CorruptRecordError as error:
        found = str(error)
    assert found == wanted


def test_many_batches_in_one_table() -> None:
    collected = table.RecordTable(rows_max=100, size_max=1 << 20)
    for base in (0, 10, 50):
        batch = parsed(stored_batch([b"a", None, b"c"], base_offset=base, last_offset_delta=9, timestamp=NOW + base))
        assert table.TableReader(batch, 1, 51).read(collected)
    rows = records_of(collected.take())
    assert [row[0] for row in rows] == [1, 2, 10, 11, 12, 50]
    assert [row[3] for row in rows] == [None, b"c", b"a", None, b"c", b"a"]
    assert collected.rows == collected.size == 0
    assert records_of(collected.take()) == []


def test_some_records_at_a_time() -> None:
    collected = table.RecordTable(rows_max=100, size_max=1 << 20)
    reader = table.TableReader(parsed(stored_batch([b"%d" % number for number in range(7)])), 1, ALL)
    rows = []
    while not reader.read(collected, 3):
        rows.append(collected.rows)
    assert rows == [2, 5]
    assert collected.rows == 6


def test_what_was_taken_is_not_touched_again() -> None:
    collected = table.RecordTable(rows_max=10, size_max=1000)
    table.TableReader(parsed(stored_batch([b"first", None])), 0, ALL).read(collected)
    taken = collected.take()
    table.TableReader(parsed(stored_batch([b"other", b"more"])), 0, ALL).read(collected)
    collected.take()
    assert bytes_of(taken.values) == [b"first", None]
    assert taken.values.validity is not None
    assert taken.keys.nulls == 2


def test_one_record_may_be_larger_than_the_table() -> None:
    values = [b"x" * 50_000, b"y", b"z" * 200_000]
    found = table_records(table, parsed(stored_batch(values)), 0, ALL, size_max=100)
    assert [[len(row[3]) for row in rows if isinstance(row[3], bytes)] for rows in found] == [[50_000], [1, 200_000]]


def test_the_brokers_clock() -> None:
    data = make_batch(plain_record(0, 5) + plain_record(1, -(1 << 62)), 2, attributes=0x08, max_timestamp=NOW + 9)
    assert [row[1] for row in flat(table_records(table, parsed(data), 0, ALL))] == [NOW + 9, NOW + 9]


@pytest.mark.parametrize("size", [1, 100, 8190, 8200, 1_048_570, 1_048_580])
def test_sizes_around_the_lengths_of_their_numbers(size: int) -> None:
    batch = parsed(stored_batch([b"a" * size, b"b"], key=b"k" * (size % 9000)))
    assert flat(table_records(table, batch, 0, ALL)) == expected(batch, 0, ALL)


def test_headers_are_checked_even_where_nobody_wants_them() -> None:
    body = b"\x00" + varints(0, 0, -1, -1, 1, 2) + b"\xff\xfe" + varints(-1)
    batch = parsed(make_batch(make_record(body), 1))
    with pytest.raises(CorruptRecordError, match="UTF-8"):
        table_records(table, batch, 0, ALL, headers=False)
    with pytest.raises(CorruptRecordError, match="UTF-8"):
        list(batch.records())


def test_corrupt_records_outside_of_the_bounds_are_noticed() -> None:
    data = make_batch(plain_record(0) + plain_record(0), 2)
    with pytest.raises(CorruptRecordError, match="offset delta 0, between 0 and 1"):
        table_records(table, parsed(data), 0, 1)
    with pytest.raises(CorruptRecordError, match="1 bytes after its last record"):
        table_records(table, parsed(make_batch(plain_record(0) + b"\x00", 1)), 5, 6)


@pytest.mark.parametrize(("rows_max", "size_max"), [(0, 1), (1, 0), (1, (1 << 30) + 1)])
def test_impossible_tables(rows_max: int, size_max: int) -> None:
    with pytest.raises(ValueError, match="no table"):
        table.RecordTable(rows_max=rows_max, size_max=size_max)
