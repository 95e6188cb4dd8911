from __future__ import annotations

import pytest

from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import encode_headers
from aioprod.records.layout import HEADER, PREFIX

NOW = 1_700_000_000_000


def build(count: int) -> RecordBatchBuilder:
    builder = RecordBatchBuilder(bytearray(100_000))
    for index in range(count):
        key = None if index % 3 == 0 else b"k" * (index - 1)
        value = None if index % 5 == 4 else b"v" * (index * 7)
        builder.append(NOW + (index - 50) * 1000, key, value, encode_headers([("name", b"value")] * (index % 2)))
    return builder


def fields(cursor: RecordCursor) -> tuple[int, int, int, int]:
    return cursor.index, cursor.timestamp, cursor.key_size, cursor.value_size


def expected(index: int) -> tuple[int, int, int, int]:
    return (
        index,
        NOW + (index - 50) * 1000,
        -1 if index % 3 == 0 else index - 1,
        -1 if index % 5 == 4 else index * 7,
    )


def test_next_visits_every_record() -> None:
    cursor = RecordCursor(build(150))
    for index in range(150):
        assert cursor.next()
        assert fields(cursor) == expected(index)
    assert not cursor.next()
    assert not cursor.next()


def test_skip_and_next_mixed() -> None:
    cursor = RecordCursor(build(150))
    assert cursor.skip(0)
    assert cursor.skip(3)
    assert cursor.index == 2
    assert cursor.next()
    assert fields(cursor) == expected(3)
    assert cursor.skip(100)
    assert cursor.next()
    assert fields(cursor) == expected(104)


def test_skip_past_the_end() -> None:
    cursor = RecordCursor(build(10))
    assert cursor.skip(10)
    assert not cursor.skip(1)
    assert not RecordCursor(build(10)).skip(11)
    assert cursor.index == 9


def test_positions_are_in_the_builders_buffer() -> None:
    builder = build(20)
    cursor = RecordCursor(builder)
    end = PREFIX + HEADER
    while cursor.next():
        assert cursor.start == end
        end = cursor.end
        assert builder.buffer[cursor.value_start : cursor.value_start + 1] in (
            b"v",
            builder.buffer[cursor.headers_start : cursor.headers_start + 1],
        )
        assert bytes(builder.buffer[cursor.headers_start : end]) == encode_headers(
            [("name", b"value")] * (cursor.index % 2)
        )
    assert end == builder.position


def test_an_empty_builder_has_no_record() -> None:
    builder = RecordBatchBuilder(bytearray(100))
    assert not RecordCursor(builder).next()
    assert not RecordCursor(builder).skip(1)


# Where the number of bytes changes that a signed varint takes.
EDGES = [-1, 0, 1, 63, 64, 8191, 8192, 1_048_575, 1_048_576]


@pytest.mark.parametrize("key_size", EDGES)
@pytest.mark.parametrize("value_size", EDGES)
def test_sizes_at_which_a_number_grows_by_a_byte(key_size: int, value_size: int) -> None:
    key = None if key_size < 0 else b"k" * key_size
    value = None if value_size < 0 else b"v" * value_size
    builder = RecordBatchBuilder(bytearray(2_200_000))
    assert builder.append(NOW, key, value) == builder.position - PREFIX - HEADER
    cursor = RecordCursor(builder)
    assert cursor.next()
    assert cursor.record() == (NOW, key, value, b"\0")
    assert cursor.end == builder.position


@pytest.mark.parametrize("delta", [-8193, -8192, -65, -64, -1, 0, 1, 63, 64, 8191, 8192, 1 << 40])
def test_times_at_which_a_number_grows_by_a_byte(delta: int) -> None:
    builder = RecordBatchBuilder(bytearray(200))
    builder.append(NOW, None, b"v")
    builder.append(NOW + delta, b"k", None)
    assert [record.timestamp for record in builder.records()] == [NOW, NOW + delta]
    cursor = RecordCursor(builder)
    assert cursor.skip(2)
    assert cursor.end == builder.position


def test_so_many_records_that_their_numbers_grow() -> None:
    builder = RecordBatchBuilder(bytearray(100_000))
    sizes = [builder.append(NOW, None, b"v") for _ in range(8200)]
    assert [sizes[index] for index in (0, 63, 64, 8191, 8192)] == [8, 8, 9, 9, 10]
    cursor = RecordCursor(builder)
    for index in range(8200):
        assert cursor.next()
        assert (cursor.index, cursor.end - cursor.start, cursor.value_size) == (index, sizes[index], 1)
    assert not cursor.next()
