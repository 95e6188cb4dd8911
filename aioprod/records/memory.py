"""Raw memory moves, interpreted: the only module here that stays interpreted when its neighbours are compiled."""

from __future__ import annotations

import struct
from typing import Final

from aioprod.wire.buffer import Buffer

__all__ = ["clear_bit", "copy", "fill", "put_int32", "put_int64", "room", "span"]

_INT32: Final = struct.Struct("=i")
_INT64: Final = struct.Struct("=q")


def room(size: int) -> bytearray:
    """`size` bytes, which may hold anything."""
    return bytearray(size)


def copy(target: bytearray, at: int, source: Buffer, start: int, size: int) -> None:
    """Copy `size` bytes from `source[start:]` to `target[at:]`; both must have them, `target` is never resized."""
    target[at : at + size] = source[start : start + size]


def span(source: bytearray, start: int, end: int) -> memoryview:
    """A view of some of the bytes, which are there; for one call: the compiled form does not keep `source` alive."""
    return memoryview(source)[start:end]


def fill(target: bytearray, size: int, byte: int) -> None:
    """Set the first `size` bytes, which are there."""
    target[:size] = bytes([byte]) * size


def clear_bit(target: bytearray, index: int) -> None:
    """Clear one bit, counted from the lowest of the first byte on."""
    target[index >> 3] &= ~(1 << (index & 7))


def put_int32(target: bytearray, index: int, value: int) -> None:
    """Set an element of an array of integers in the order of this machine."""
    _INT32.pack_into(target, 4 * index, value)


def put_int64(target: bytearray, index: int, value: int) -> None:
    """Set an element of an array of long integers in the order of this machine."""
    _INT64.pack_into(target, 8 * index, value)
