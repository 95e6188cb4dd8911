"""Memory by address, and numbers in it."""

from __future__ import annotations

import struct
from array import array

import pytest

from aioprod.arrow import memory


def test_memory_at_an_address_is_not_copied() -> None:
    owner = array("B", b"abcdef")
    seen = memory.at(owner.buffer_info()[0] + 1, 4)
    assert bytes(seen) == b"bcde"
    owner[1] = ord("B")
    assert bytes(seen) == b"Bcde"


@pytest.mark.parametrize(("address", "size"), [(0, 0), (0, 10), (1, 0), (1, -1)])
def test_memory_that_is_not_there_is_empty(address: int, size: int) -> None:
    assert bytes(memory.at(address, size)) == b""


@pytest.mark.parametrize(("width", "code"), [(1, "b"), (2, "h"), (4, "i"), (8, "q")])
def test_numbers_of_each_width(width: int, code: str) -> None:
    top = (1 << 8 * width - 1) - 1
    numbers = [0, 1, -1, top, -top - 1]
    data = memoryview(struct.pack(f"=5{code}", *numbers))
    assert [memory.number(data, width, index) for index in range(5)] == numbers
