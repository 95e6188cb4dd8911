from __future__ import annotations

from collections.abc import Callable

import pytest

from aioprod.wire import memory
from aioprod.wire.memory import short_varint


def test_copy_moves_only_the_named_bytes() -> None:
    target = bytearray(b"..........")
    memory.copy(target, 2, b"abcdef", 1, 3)
    assert target == b"..bcd....."


def test_copy_of_nothing_leaves_the_target_alone() -> None:
    target = bytearray(b"abc")
    memory.copy(target, 3, b"", 0, 0)
    assert target == b"abc"


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 9, 16, 17, 26])
def test_short_copies_move_only_the_named_bytes(size: int) -> None:
    letters = b"abcdefghijklmnopqrstuvwxyz"
    target = bytearray(b"." * 30)
    memory.copy_short(target, 2, b"__" + letters, 2, size)
    assert target == b".." + letters[:size] + b"." * (28 - size)


@pytest.mark.parametrize(("start", "end", "found"), [(0, 5, 1), (1, 5, 1), (2, 5, 3), (4, 5, 5), (2, 3, 3), (5, 5, 5)])
def test_a_byte_is_found_between_two_places(start: int, end: int, found: int) -> None:
    assert memory.find(b"a.b.c", ord("."), start, end) == found


def test_bits_are_cleared_one_by_one() -> None:
    target = memory.room(2)
    memory.fill(target, 2, 0xFF)
    memory.clear_bit(target, 0)
    memory.clear_bit(target, 10)
    assert target == bytes([0b1111_1110, 0b1111_1011])


@pytest.mark.parametrize("value", [0, 1, -1, 63, -64, 64, 8191, -8192, 8192, 1_048_575, -1_048_576])
def test_short_varints(value: int) -> None:
    data = bytearray(8)
    size = memory.put_varint(data, 1, value) - 1
    assert short_varint(memoryview(data), 1, 8) == value * 4 + size
    assert short_varint(memoryview(data), 1, size) == 0


def test_a_varint_that_is_not_short() -> None:
    data = bytearray(8)
    memory.put_varint(data, 0, 1_048_576)
    assert short_varint(memoryview(data), 0, 8) == 0


@pytest.mark.parametrize(
    ("size", "put"), [(2, memory.put_int16_be), (4, memory.put_int32_be), (8, memory.put_int64_be)]
)
def test_integers_with_the_highest_byte_first(size: int, put: Callable[[bytearray, int, int], None]) -> None:
    top = 1 << (8 * size - 1)
    for value in (-top, -1, 0, 1, top - 1):
        buffer = bytearray(b"\xaa" * (size + 2))
        put(buffer, 1, value)
        assert buffer == b"\xaa" + value.to_bytes(size, "big", signed=True) + b"\xaa"


def test_an_unsigned_integer_with_the_highest_byte_first() -> None:
    buffer = bytearray(4)
    memory.put_uint32_be(buffer, 0, 0xE3069283)
    assert buffer.hex() == "e3069283"
