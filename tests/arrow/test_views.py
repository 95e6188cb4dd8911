"""Views of columns say what pyarrow says of them: every layout, slices, nulls; and broken arrays are refused."""

from __future__ import annotations

import ctypes
from array import array
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.arrow.columns import BytesColumn, NumberColumn, Span
from aioprod.arrow.interface import ArrowArray, Field, open_source
from aioprod.arrow.memory import FIXED, OFFSETS
from aioprod.arrow.views import (
    bytes_column,
    has_null_rows,
    is_bytes,
    is_integer,
    is_pairs,
    is_text,
    is_timestamp,
    number_column,
    pairs_column,
    timestamp_column,
    type_name,
)
from aioprod.errors import InvalidRecordError
from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, HandMade, OnlyArray, column

VALUES = st.lists(st.none() | st.binary(max_size=40), max_size=30)
NUMBERS = st.lists(st.none() | st.integers(-128, 127), max_size=30)
PAIRS = st.lists(
    st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=20)), max_size=4), max_size=15
)
BOUNDS = st.tuples(st.integers(0, 30), st.integers(0, 30))


def opened(batch: Any) -> tuple[tuple[Field, ...], ArrowArray, object]:
    """Fields, array, and who holds the memory."""
    source = open_source(batch)
    chunk = source.next()
    assert chunk is not None
    return source.field.children, chunk.array, chunk


def read_bytes(values: pa.Array) -> list[bytes | None]:
    """All rows of a column, by its view."""
    (field,), array_, held = opened(pa.record_batch({"c": values}))
    assert is_bytes(field)
    view = bytes_column(field, array_, 0)
    found = []
    for row in range(array_.length):
        view.find(row)
        found.append(view.get())
    del held
    return found


def read_numbers(values: pa.Array) -> list[int | None]:
    """The same for integers."""
    (field,), array_, held = opened(pa.record_batch({"c": values}))
    assert is_integer(field)
    view = number_column(field, array_, 0)
    found = [view.value if view.find(row) else None for row in range(array_.length)]
    del held
    return found


@pytest.mark.parametrize("kind", BYTES_TYPES)
@settings(max_examples=60, deadline=None)
@given(values=VALUES, bounds=BOUNDS)
def test_bytes_of_every_layout(kind: str, values: list[bytes | None], bounds: tuple[int, int]) -> None:
    expected = values[slice(*bounds)]
    assert read_bytes(column(values, BYTES_TYPES[kind])[slice(*bounds)]) == expected


@pytest.mark.parametrize("kind", TEXT_TYPES)
@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.none() | st.text(max_size=20), max_size=30), bounds=BOUNDS)
def test_text_of_every_layout(kind: str, values: list[str | None], bounds: tuple[int, int]) -> None:
    expected = [None if value is None else value.encode() for value in values[slice(*bounds)]]
    assert read_bytes(column(values, TEXT_TYPES[kind])[slice(*bounds)]) == expected


def test_more_bytes_than_fit_in_one_buffer_of_views() -> None:
    values = [bytes([number]) * 40_000 for number in range(20)] + [b"", None, b"x" * 12, b"x" * 13]
    assert read_bytes(pa.array(values, pa.binary_view())) == values
    assert read_bytes(pa.concat_arrays([pa.array(values, pa.binary_view())] * 3)) == values * 3


def test_values_of_one_size() -> None:
    values = [b"abc", None, b"ghi", b"jkl"]
    assert read_bytes(pa.array(values, pa.binary(3))) == values
    assert read_bytes(pa.array(values, pa.binary(3))[1:3]) == values[1:3]
    assert read_bytes(pa.array([b"", None], pa.binary(0))) == [b"", None]


def test_nothing_but_nulls() -> None:
    assert read_bytes(pa.nulls(3)) == [None] * 3


def test_a_dictionary_with_nulls_and_slices() -> None:
    words = pa.array([b"zero", b"one", None, b"three"])[1:]
    coded = pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 1, 0], pa.int16())[1:], words)
    assert read_bytes(coded) == [b"one", None, None, b"one"]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@settings(max_examples=40, deadline=None)
@given(values=NUMBERS, bounds=BOUNDS)
def test_integers_of_every_width(width: int, values: list[int | None], bounds: tuple[int, int]) -> None:
    kind = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[width]
    assert read_numbers(pa.array(values, kind)[slice(*bounds)]) == values[slice(*bounds)]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint16(), pa.uint32()], ids=str)
def test_unsigned_integers(kind: pa.DataType) -> None:
    top = 2**kind.bit_width - 1
    assert read_numbers(pa.array([0, 1, top, None], kind)) == [0, 1, top, None]


def test_unsigned_integers_over_63_bits_come_out_negative() -> None:
    assert read_numbers(pa.array([2**63 - 1, 2**63], pa.uint64())) == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize(
    ("kind", "given", "ms"),
    [
        (pa.int64(), [0, 1, None, 2**63 - 1], [0, 1, None, 2**63 - 1]),
        (pa.timestamp("s"), [0, 5, None], [0, 5000, None]),
        (pa.timestamp("ms", "UTC"), [0, 5, None], [0, 5, None]),
        (pa.timestamp("us", "Europe/Vienna"), [999, 1000, 1999, None], [0, 1, 1, None]),
        (pa.timestamp("ns"), [999_999, 1_000_000, None], [0, 1, None]),
    ],
    ids=str,
)
def test_times_in_milliseconds(kind: pa.DataType, given: list[int | None], ms: list[int | None]) -> None:
    (field,), array_, held = opened(pa.record_batch({"c": pa.array(given, kind)}))
    assert is_timestamp(field)
    view = timestamp_column(field, array_, 0)
    assert [view.ms if view.find(row) else None for row in range(len(given))] == ms
    del held


@pytest.mark.parametrize(
    ("kind", "wrong"), [(pa.int64(), -1), (pa.timestamp("s"), -1), (pa.timestamp("s"), 2**63 // 1000 + 1)], ids=str
)
def test_times_that_no_record_can_have(kind: pa.DataType, wrong: int) -> None:
    (field,), array_, held = opened(pa.record_batch({"c": pa.array([wrong], pa.int64()).cast(kind)}))
    view = timestamp_column(field, array_, 0)
    with pytest.raises(InvalidRecordError, match=rf"holds {wrong} units, of which a second has"):
        view.find(0)
    del held


PAIR_TYPES = {
    "map": pa.map_(pa.string(), pa.binary()),
    "list of name and value": pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()})),
    "large list of key and value": pa.large_list(pa.struct({"key": pa.large_string(), "value": pa.string_view()})),
}


@pytest.mark.parametrize("kind", PAIR_TYPES)
@settings(max_examples=60, deadline=None)
@given(rows=PAIRS, bounds=BOUNDS)
def test_pairs(kind: str, rows: list[Any], bounds: tuple[int, int]) -> None:
    type_ = PAIR_TYPES[kind]
    given_rows: list[Any] = rows
    if kind == "large list of key and value":
        given_rows = [row and [(name, value and value.hex()) for name, value in row if value != b""] for row in rows]
        rows = [row and [(name, value and value.encode()) for name, value in row] for row in given_rows]
    if kind != "map":
        names = [field.name for field in type_.value_type]
        given_rows = [row and [dict(zip(names, pair, strict=True)) for pair in row] for row in given_rows]
    (field,), array_, held = opened(pa.record_batch({"c": pa.array(given_rows, type_)[slice(*bounds)]}))
    assert is_pairs(field)
    view = pairs_column(field, array_, 0)
    assert [view.get(row) for row in range(array_.length)] == rows[slice(*bounds)]
    del held


def test_pairs_in_the_other_order() -> None:
    kind = pa.list_(pa.struct({"value": pa.binary(), "name": pa.string()}))
    rows = pa.array([[{"value": b"v", "name": "n"}], None], kind)
    (field,), array_, held = opened(pa.record_batch({"c": rows}))
    view = pairs_column(field, array_, 0)
    assert [view.get(row) for row in range(2)] == [[("n", b"v")], None]
    del held


def test_a_pair_without_name_and_a_null_pair() -> None:
    kind = pa.list_(pa.struct({"name": pa.string(), "value": pa.binary()}))
    rows = pa.array([[{"name": None, "value": b"v"}, None]], kind)
    (field,), array_, held = opened(pa.record_batch({"c": rows}))
    view = pairs_column(field, array_, 0)
    view.find(0)
    assert (view.find_pair(0), view.find_pair(1)) == (False, False)
    assert [name for name, _ in view.get(0) or ()] == [None, None]
    del held


# --- types


@pytest.mark.parametrize(
    ("kind", "name", "fits"),
    [
        (pa.binary(), "binary", "b"),
        (pa.string_view(), "string_view", "tb"),
        (pa.binary(7), "fixed_size_binary", "b"),
        (pa.dictionary(pa.int8(), pa.string()), "dictionary of string", "tb"),
        (pa.dictionary(pa.int8(), pa.int64()), "dictionary of int64", ""),
        (pa.bool_(), "bool", ""),
        (pa.float16(), "float16", ""),
        (pa.decimal128(5, 2), "decimal", ""),
        (pa.date32(), "date32", ""),
        (pa.duration("s"), "duration", ""),
        (pa.timestamp("us", "UTC"), "timestamp", "m"),
        (pa.int64(), "int64", "im"),
        (pa.uint8(), "uint8", "i"),
        (pa.list_(pa.string()), "list<item: string>", ""),
        (pa.list_(pa.struct({"a": pa.string(), "b": pa.binary()})), "list<item: struct<a: string, b: binary>>", ""),
        (pa.map_(pa.string(), pa.int8()), "map<entries: struct<key: string, value: int8>>", ""),
        (pa.map_(pa.string(), pa.string()), "map<entries: struct<key: string, value: string>>", "p"),
        (pa.run_end_encoded(pa.int32(), pa.string()), "run_end_encoded<run_ends: int32, values: string>", ""),
    ],
    ids=str,
)
def test_what_a_type_can_be_read_as(kind: pa.DataType, name: str, fits: str) -> None:
    source = open_source(OnlyArray(pa.record_batch([pa.array([], kind)], names=["c"])))
    (field,) = source.field.children
    assert type_name(field) == name
    tests = {"t": is_text, "b": is_bytes, "i": is_integer, "m": is_timestamp, "p": is_pairs}
    assert "".join(letter for letter, test in tests.items() if test(field)) == fits


# --- what pyarrow never exports


def made(batch: pa.RecordBatch) -> tuple[tuple[Field, ...], ArrowArray, HandMade]:
    """A batch in structures that can be changed."""
    hand_made = HandMade(batch)
    return open_source(hand_made.as_array()).field.children, hand_made.arrays[0], hand_made


def test_the_rows_of_a_batch_that_is_itself_a_slice() -> None:
    batch = pa.record_batch({
        "a": [b"0", None, b"2", b"3"],
        "m": pa.array([[("k", b"0")], [], None, [("k", b"3")]], pa.map_(pa.string(), pa.binary())),
    })  # fmt: skip
    fields, array_, _held = made(batch)
    array_.offset, array_.length = 1, 2
    assert not has_null_rows(array_)
    view = bytes_column(fields[0], array_, 0)
    found = []
    for row in range(2):
        view.find(row)
        found.append(view.get())
    assert found == [None, b"2"]
    pairs = pairs_column(fields[1], array_, 1)
    assert [pairs.get(row) for row in range(2)] == [[], None]


@pytest.mark.parametrize(
    ("bits", "null_count", "expected"), [(0b0110, -1, False), (0b0100, -1, True), (0b0100, 0, False)]
)
def test_rows_that_are_null_as_a_whole(bits: int, null_count: int, expected: bool) -> None:
    _, array_, _held = made(pa.record_batch({"a": [b"0", b"1", b"2", b"3"]}))
    array_.offset, array_.length, array_.null_count = 1, 2, null_count
    bitmap = ctypes.create_string_buffer(bytes([bits]))
    array_.buffers[0] = ctypes.addressof(bitmap)
    assert has_null_rows(array_) is expected
    array_.buffers[0] = None


def test_a_null_count_that_is_not_known() -> None:
    fields, array_, _held = made(pa.record_batch({"a": [b"0", None]}))
    array_.children[0].contents.null_count = -1
    view = bytes_column(fields[0], array_, 0)
    view.find(1)
    assert view.get() is None


BROKEN = "An Arrow array contradicts itself"


@pytest.mark.parametrize(("name", "value"), [("length", -1), ("offset", -1)])
def test_a_batch_of_less_than_nothing(name: str, value: int) -> None:
    _, array_, _held = made(pa.record_batch({"a": [b"0"]}))
    setattr(array_, name, value)
    with pytest.raises(InvalidRecordError, match=BROKEN):
        has_null_rows(array_)


@pytest.mark.parametrize(
    ("name", "value"), [("length", 1), ("offset", -1), ("n_buffers", 2), ("n_buffers", 4)], ids=str
)
def test_a_column_that_does_not_fit_its_batch(name: str, value: int) -> None:
    fields, array_, _held = made(pa.record_batch({"a": [b"0", b"1"]}))
    setattr(array_.children[0].contents, name, value)
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 0)


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary_view(), pa.binary(1), pa.dictionary(pa.int8(), pa.binary())])
def test_a_column_without_its_buffers(kind: pa.DataType) -> None:
    fields, array_, _held = made(pa.record_batch({"a": column([b"0", b"1"], kind)}))
    child = array_.children[0].contents
    kept, child.buffers[1] = child.buffers[1], None
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 0)
    child.buffers[1] = kept


def test_columns_that_are_missing() -> None:
    fields, array_, _held = made(pa.record_batch({"a": [b"0"]}))
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 1)


@pytest.mark.parametrize("places", [(0, 4, 2), (0, 4, 5), (0, 4, -1), (0, 4, 2**31 - 1)])
def test_offsets_that_descend_or_point_out_of_the_data(places: tuple[int, ...]) -> None:
    offsets = array("i", places)
    data = array("B", b"abcd")
    blocks = [(data.buffer_info()[0], 4)]
    view = BytesColumn(Span(0, 2, 0), OFFSETS, 4, offsets.buffer_info()[0], blocks)
    view.find(0)
    assert view.get() == b"abcd"
    with pytest.raises(InvalidRecordError, match="descend, or point out of its data"):
        view.find(1)
    assert view.get() is None


def test_offsets_that_begin_before_the_data() -> None:
    offsets = array("i", [-4, 0])
    view = BytesColumn(Span(0, 1, 0), OFFSETS, 4, offsets.buffer_info()[0], [(offsets.buffer_info()[0], 0)])
    with pytest.raises(InvalidRecordError, match="descend, or point out of its data"):
        view.find(0)


def test_data_of_less_than_nothing() -> None:
    fields, array_, _held = made(pa.record_batch({"a": [b"0"]}))
    offsets = array("i", [0, -1])
    child = array_.children[0].contents
    kept, child.buffers[1] = child.buffers[1], offsets.buffer_info()[0]
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 0)
    child.buffers[1] = kept


def test_views_into_a_block_that_is_missing() -> None:
    fields, array_, _held = made(pa.record_batch({"a": pa.array([b"0123456789012"], pa.binary_view())}))
    child = array_.children[0].contents
    kept, child.buffers[2] = child.buffers[2], None
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 0)
    child.buffers[2] = kept


@pytest.mark.parametrize("format_", ["w:", "w:-1", "w:x", f"w:{2**60}"])
def test_values_of_a_size_that_none_can_have(format_: str) -> None:
    _, array_, _held = made(pa.record_batch({"a": pa.array([b"0"], pa.binary(1))}))
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(Field("a", format_, (), None), array_, 0)


def test_indices_that_are_no_integers() -> None:
    fields, array_, _held = made(pa.record_batch({"a": column([b"0"], pa.dictionary(pa.int8(), pa.binary()))}))
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(Field("a", "b", (), fields[0].dictionary), array_, 0)


@pytest.mark.parametrize(("name", "value"), [("length", -1), ("offset", -1)])
def test_a_dictionary_of_less_than_nothing(name: str, value: int) -> None:
    fields, array_, _held = made(pa.record_batch({"a": column([b"0"], pa.dictionary(pa.int8(), pa.binary()))}))
    setattr(array_.children[0].contents.dictionary.contents, name, value)
    with pytest.raises(InvalidRecordError, match=BROKEN):
        bytes_column(fields[0], array_, 0)


def test_pairs_are_structs() -> None:
    pair = (Field("name", "u", (), None), Field("value", "z", (), None))
    assert not is_pairs(Field("c", "+l", (Field("item", "+us:0,1", pair, None),), None))


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_its_dictionary(index: int) -> None:
    coded = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int8()), pa.array([b"a", b"b"]), safe=False)
    with pytest.raises(InvalidRecordError, match="out of its dictionary"):
        read_bytes(coded)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((-1, 0, 0, 0), "points to no buffer"),
        ((13, 0, 1, 0), "points to no buffer"),
        ((13, 0, -1, 0), "points to no buffer"),
        ((13, 0, 0, 1), "points out of its buffer"),
        ((13, 0, 0, -1), "points out of its buffer"),
    ],
)
def test_views_that_point_nowhere(words: tuple[int, ...], said: str) -> None:
    view = pa.py_buffer(array("i", words).tobytes())
    with pytest.raises(InvalidRecordError, match=said):
        read_bytes(pa.Array.from_buffers(pa.binary_view(), 1, [None, view, pa.py_buffer(b"0123456789012")]))


@pytest.mark.parametrize("offsets", [(0, 2, 1), (0, 1, 3), (-1, 0, 0)])
def test_lists_that_point_nowhere(offsets: tuple[int, ...]) -> None:
    fields, array_, _held = made(pa.record_batch({"c": pa.array([[("a", b"1")], [("b", b"2")]], PAIR_TYPES["map"])}))
    places = array("i", offsets)
    child = array_.children[0].contents
    kept, child.buffers[1] = child.buffers[1], places.buffer_info()[0]
    view = pairs_column(fields[0], array_, 0)
    with pytest.raises(InvalidRecordError, match="descend, or point out"):
        [view.get(row) for row in range(2)]
    child.buffers[1] = kept


def test_a_view_of_values_of_one_size_has_no_offsets() -> None:
    data = array("B", b"abcdef")
    view = BytesColumn(Span(1, 1, 0), FIXED, 3, data.buffer_info()[0])
    view.find(0)
    assert view.get() == b"def"
    assert NumberColumn(Span(0, 1, 0), data.buffer_info()[0], 1, False).find(0)
