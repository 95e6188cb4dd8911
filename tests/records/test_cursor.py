from __future__ import annotations

from aioprod.records.builder import HEADER, PREFIX, RecordBatchBuilder
from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import encode_headers

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
