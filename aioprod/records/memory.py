"""Raw memory moves, interpreted: the only module here that stays interpreted when its neighbours are compiled."""

from __future__ import annotations

import struct
from typing import Final

from aioprod.wire.buffer import Buffer

__all__ = [
    "clear_bit",
    "copy",
    "copy_short",
    "fill",
    "find",
    "int_at",
    "put_head",
    "put_int32",
    "put_int64",
    "put_varint",
    "room",
    "span",
    "varint_size",
]

_INT32: Final = struct.Struct("=i")
_INT64: Final = struct.Struct("=q")


def room(size: int) -> bytearray:
    """`size` bytes, which may hold anything."""
    return bytearray(size)


def copy(target: bytearray, at: int, source: Buffer, start: int, size: int) -> None:
    """Copy `size` bytes from `source[start:]` to `target[at:]`; both must have them, `target` is never resized."""
    target[at : at + size] = source[start : start + size]


def copy_short(target: bytearray, at: int, source: Buffer, start: int, size: int) -> None:
    """The same, for less where there are 4 to 16 bytes, as most keys have."""
    target[at : at + size] = source[start : start + size]


def span(source: bytearray, start: int, end: int) -> memoryview:
    """A view of some of the bytes, which are there; for one call: the compiled form does not keep `source` alive."""
    return memoryview(source)[start:end]


def fill(target: bytearray, size: int, byte: int) -> None:
    """Set the first `size` bytes, which are there."""
    target[:size] = bytes([byte]) * size


def find(source: bytes, byte: int, start: int, end: int) -> int:
    """Where `byte` comes first in `source[start:end]`, which is there; `end` where it does not."""
    found = source.find(byte, start, end)
    return found if found >= 0 else end


def clear_bit(target: bytearray, index: int) -> None:
    """Clear one bit, counted from the lowest of the first byte on."""
    target[index >> 3] &= ~(1 << (index & 7))


def int_at(data: Buffer, width: int, index: int) -> int:
    """An element of an array of integers of 4 or 8 bytes in the order of this machine."""
    found: int = (_INT32 if width == 4 else _INT64).unpack_from(data, width * index)[0]
    return found


def put_int32(target: bytearray, index: int, value: int) -> None:
    """Set an element of an array of integers in the order of this machine."""
    _INT32.pack_into(target, 4 * index, value)


def put_int64(target: bytearray, index: int, value: int) -> None:
    """Set an element of an array of long integers in the order of this machine."""
    _INT64.pack_into(target, 8 * index, value)


def varint_size(value: int) -> int:
    """Bytes that `put_varint` takes for `value`, a signed 64-bit integer: 1 to 10."""
    if -64 <= value < 64:
        return 1
    zigzag = (value << 1) ^ (value >> 63)
    return (zigzag.bit_length() + 6) // 7


def put_varint(target: bytearray, at: int, value: int) -> int:
    """Write `value`, a signed 64-bit integer, at `at`; the position after it."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag >= 0x80:
        target[at] = (zigzag & 0x7F) | 0x80
        zigzag >>= 7
        at += 1
    target[at] = zigzag
    return at + 1


def put_head(target: bytearray, at: int, limit: int, count: int, delta: int, fixed_size: int, value_size: int) -> int:
    """Put what stands before the value of record `count` without key; where that begins, 0 without room up to `limit`.

    `delta` is the distance from the batch's first timestamp, and `fixed_size` all that is in the record besides its
    number and its value with the size.
    """
    body = fixed_size + varint_size(count) + varint_size(value_size) + value_size
    if at + varint_size(body) + body > limit:
        return 0
    at = put_varint(target, at, body)
    target[at] = 0  # attributes
    at = put_varint(target, at + 1, delta)
    at = put_varint(target, at, count)
    at = put_varint(target, at, -1)  # no key
    return put_varint(target, at, value_size)
