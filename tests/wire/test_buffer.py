from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import ProtocolError
from aioprod.wire.buffer import Reader, Writer

Case = tuple[str, Any, str]

CASES: list[Case] = [
    ("int8", -2, "fe"),
    ("int16", 0x0102, "0102"),
    ("int32", -1, "ffffffff"),
    ("int64", 0x0102030405060708, "0102030405060708"),
    ("uuid", uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "00112233445566778899aabbccddeeff"),
    ("uvarint", 0, "00"),
    ("uvarint", 127, "7f"),
    ("uvarint", 128, "8001"),
    ("uvarint", 300, "ac02"),
    ("uvarint", 0xFFFF_FFFF, "ffffffff0f"),
    ("string", None, "ffff"),
    ("string", "", "0000"),
    ("string", "é", "0002c3a9"),
    ("compact_string", None, "00"),
    ("compact_string", "", "01"),
    ("compact_string", "é", "03c3a9"),
    ("bytes_", None, "ffffffff"),
    ("bytes_", b"", "00000000"),
    ("bytes_", b"ab", "000000026162"),
    ("compact_bytes", None, "00"),
    ("compact_bytes", b"", "01"),
    ("compact_bytes", b"ab", "036162"),
]


@pytest.mark.parametrize(("name", "value", "encoded"), CASES)
def test_each_primitive_in_both_directions(name: str, value: object, encoded: str) -> None:
    writer = Writer()
    getattr(writer, name)(value)
    assert writer.getvalue().hex() == encoded
    assert len(writer) == len(encoded) // 2

    reader = Reader(bytes.fromhex(encoded))
    assert getattr(reader, name)() == value
    assert reader.remaining == 0


@pytest.mark.parametrize(("name", "value", "encoded"), CASES)
def test_each_primitive_cut_short_is_refused(name: str, value: object, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    for end in range(len(data)):
        with pytest.raises(ProtocolError, match="announced at byte"):
            getattr(Reader(data, 0, end), name)()


@pytest.mark.parametrize(("name", "count", "encoded"), [("count", 2, "00000002"), ("compact_count", 2, "03")])
def test_a_count_is_bounded_by_the_bytes_that_are_left(name: str, count: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)
    writer = Writer()
    getattr(writer, name)(count)
    assert writer.getvalue() == data
    assert getattr(Reader(data + b"12"), name)() == count
    with pytest.raises(ProtocolError, match=r"2 bytes are announced at byte \d, and 1 are left"):
        getattr(Reader(data + b"1"), name)()


@pytest.mark.parametrize(("name", "encoded"), [("count", "ffffffff"), ("compact_count", "00")])
def test_a_null_array_has_the_count_minus_one(name: str, encoded: str) -> None:
    writer = Writer()
    getattr(writer, name)(None)
    assert writer.getvalue().hex() == encoded
    assert getattr(Reader(bytes.fromhex(encoded)), name)() == -1


@pytest.mark.parametrize(
    ("name", "encoded"), [("string", "fffe"), ("bytes_", "fffffffe"), ("bytes_", "80000000"), ("count", "fffffffe")]
)
def test_a_length_below_minus_one_is_refused(name: str, encoded: str) -> None:
    with pytest.raises(ProtocolError, match="is negative"):
        getattr(Reader(bytes.fromhex(encoded) + b"more"), name)()


@pytest.mark.parametrize(
    ("name", "encoded", "reason"),
    [
        ("uvarint", "ffffffff10", "more than"),
        ("uvarint", "8080808080", "no end"),
    ],
)
def test_a_varint_that_is_too_long_is_refused(name: str, encoded: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        getattr(Reader(bytes.fromhex(encoded) + b"\x00"), name)()


@pytest.mark.parametrize("encoded", ["0001ff", "0002c328", "0003eda080"])
def test_text_that_is_no_utf_8_is_refused(encoded: str) -> None:
    with pytest.raises(ProtocolError, match="not utf-8"):
        Reader(bytes.fromhex(encoded)).string()


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda writer: writer.int8(128), struct.error),
        (lambda writer: writer.int32(1 << 31), struct.error),
        (lambda writer: writer.uvarint(-1), ValueError),
        (lambda writer: writer.uvarint(1 << 32), ValueError),
        (lambda writer: writer.varint(1 << 31), ValueError),
        (lambda writer: writer.string("x" * 0x8000), ValueError),
    ],
)
def test_what_does_not_fit_is_not_written(write: Callable[[Writer], None], error: type[Exception]) -> None:
    writer = Writer()
    with pytest.raises(error):
        write(writer)
    assert writer.getvalue() == b""


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (0x7FFF_FFFF, "feffffff0f"), (-0x8000_0000, "ffffffff0f")],
)
def test_signed_varints_are_written_in_zigzag_form(value: int, encoded: str) -> None:
    writer = Writer()
    writer.varint(value)
    assert writer.getvalue().hex() == encoded


@pytest.mark.parametrize("size", range(1, 9))
def test_signed_numbers_of_any_size(size: int) -> None:
    for value in (0, 1, -1, -2, (1 << (8 * size - 1)) - 1, -(1 << (8 * size - 1))):
        reader = Reader(value.to_bytes(size, "big", signed=True))
        assert reader.integer(size) == value
        with pytest.raises(ProtocolError, match=f"{size} bytes are announced at byte {size}, and 0 are left"):
            reader.integer(size)


def test_several_values_at_once() -> None:
    writer = Writer()
    writer.pack(struct.Struct(">hi"), 1, 2)
    writer.write(b"tail")
    reader = Reader(writer.getvalue())
    assert (reader.int16(), reader.int32()) == (1, 2)
    assert bytes(reader.rest()) == b"tail"
    assert bytes(reader.rest()) == b""


def test_a_reader_stays_in_its_range() -> None:
    reader = Reader(bytearray(b"abcdef"), 2, 4)
    assert reader.remaining == 2
    assert bytes(reader.take(2)) == b"cd"
    with pytest.raises(ProtocolError):
        reader.take(1)
    with pytest.raises(ProtocolError):
        Reader(b"abc").take(-1)
    for start, end in ((-1, 2), (3, 2), (0, 7)):
        with pytest.raises(ValueError, match="no range"):
            Reader(b"abcdef", start, end)


def test_bytes_are_read_without_a_copy() -> None:
    data = bytes.fromhex("0361620000000263640001")
    reader = Reader(data)
    first, second = reader.compact_bytes(), reader.bytes_()
    assert first is not None
    assert second is not None
    assert first.obj is second.obj is data


@settings(deadline=None)
@given(st.integers(0, 0xFFFF_FFFF))
def test_varints_come_back(value: int) -> None:
    writer = Writer()
    writer.uvarint(value)
    reader = Reader(writer.getvalue())
    assert (reader.uvarint(), reader.remaining) == (value, 0)


@settings(deadline=None)
@given(st.binary(max_size=24))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    for name in {name for name, _, _ in CASES} | {"count", "compact_count"}:
        reader = Reader(data)
        try:
            getattr(reader, name)()
        except ProtocolError:
            continue
        assert 0 <= reader.position <= len(data)
