from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import CorruptRecordError
from aioprod.records.fields import FieldReader
from aioprod.wire.buffer import Buffer
from aioprod.wire.memory import put_varint, varint_size

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    ((1 << 31) - 1, "feffffff0f"),
    (-(1 << 31), "ffffffff0f"),
    ((1 << 63) - 1, "feffffffffffffffff01"),
    (-(1 << 63), "ffffffffffffffffff01"),
]


def read_varint(data: Buffer, position: int, end: int, bits: int) -> tuple[int, int]:
    """A varint and the position after it."""
    reader = FieldReader(data, position, end)
    return reader.varint(bits), reader.position


def encoded(value: int) -> bytes:
    buffer = bytearray(12)
    end = put_varint(buffer, 1, value)
    assert buffer[0] == 0
    assert not any(buffer[end:])
    return bytes(buffer[1:end])


@pytest.mark.parametrize(("value", "hexadecimal"), KNOWN)
def test_known_varints(value: int, hexadecimal: str) -> None:
    data = bytes.fromhex(hexadecimal)
    assert encoded(value) == data
    assert varint_size(value) == len(data)
    assert read_varint(data, 0, len(data), 64) == (value, len(data))


@given(INT64)
@settings(max_examples=100)
def test_varlong_round_trip(value: int) -> None:
    data = encoded(value)
    assert varint_size(value) == len(data) <= 10
    assert read_varint(b"\xff" + data + b"\xff", 1, len(data) + 1, 64) == (value, len(data) + 1)


@given(INT32)
@settings(max_examples=100)
def test_varint_round_trip(value: int) -> None:
    data = encoded(value)
    assert len(data) <= 5
    assert read_varint(memoryview(data), 0, len(data), 32) == (value, len(data))


@pytest.mark.parametrize("bits", [32, 64])
def test_cut_off_at_every_byte(bits: int) -> None:
    data = encoded((1 << (bits - 1)) - 1)
    for end in range(len(data)):
        with pytest.raises(CorruptRecordError, match="cut off"):
            read_varint(data, 0, end, bits)


@pytest.mark.parametrize(
    ("data", "bits"),
    [
        (b"\xff\xff\xff\xff\x10", 32),
        (b"\xff\xff\xff\xff\x7f", 32),
        (b"\x80\x80\x80\x80\x80\x00", 32),
        (b"\xff" * 9 + b"\x02", 64),
        (b"\x80" * 10 + b"\x00", 64),
        (b"\xff" * 100, 64),
    ],
)
def test_more_bits_than_fit(data: bytes, bits: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"over {bits} bits"):
        read_varint(data, 0, len(data), bits)
