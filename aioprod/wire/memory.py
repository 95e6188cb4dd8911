"""Raw memory and raw objects, interpreted: it stays interpreted when its neighbours are compiled."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from aioprod.wire.buffer import Buffer

__all__ = [
    "clear_bit",
    "copied",
    "copy",
    "copy_short",
    "fill",
    "find",
    "first_byte",
    "grown",
    "instance",
    "int_at",
    "is_ascii",
    "is_unshared",
    "number",
    "put_head",
    "put_int16_be",
    "put_int32",
    "put_int32_be",
    "put_int64",
    "put_int64_be",
    "put_uint32_be",
    "put_varint",
    "room",
    "set_field",
    "short_varint",
    "shortened",
    "span",
    "text",
    "tuple_as",
    "varint_size",
]

_HELD: Final = [bytearray()]
_OF_LIST: Final = sys.getrefcount(_HELD[0])
"""How many references an object has that only a list holds; the argument of the call is one of them."""

_INT32: Final = struct.Struct("=i")
_INT64: Final = struct.Struct("=q")

NamedT = TypeVar("NamedT", bound=tuple[Any, ...])


first_byte = memoryview
"""What a view whose items are bytes without gaps is indexed by; the view must outlive it."""


def grown(data: bytearray, size: int) -> bytearray:
    """`size` bytes that begin with those of `data`, and then may hold anything.

    The compiled form lengthens `data` itself, unless it has views.
    """
    longer = bytearray(size)
    longer[: len(data)] = data
    return longer


def shortened(data: bytearray, size: int) -> bytearray:
    """The first `size` bytes of `data`, which has no views: the rest is returned where it is worth it."""
    del data[size:]
    return data


def is_unshared(buffers: list[bytearray], index: int) -> bool:
    """Whether nothing but the list holds this buffer."""
    return sys.getrefcount(buffers[index]) == _OF_LIST


def number(data: memoryview, position: int, size: int) -> int:
    """The big-endian signed integer in the `size` bytes at `position`, which are there."""
    return int.from_bytes(data[position : position + size], "big", signed=True)


def is_ascii(data: memoryview, position: int, size: int) -> bool:
    """Whether the `size` bytes at `position`, which are there, are all below 128."""
    return bytes(data[position : position + size]).isascii()


def short_varint(data: memoryview, at: int, end: int) -> int:
    """The signed varint at `at`, times 4, plus the number of its bytes; 0 if it has over 3, or ends at `end` or later.

    One number, because the compiled form takes it apart for nothing.
    """
    zigzag = 0
    for count in range(min(3, end - at)):
        byte = data[at + count]
        zigzag |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return ((zigzag >> 1) ^ -(zigzag & 1)) * 4 + count + 1
    return 0


def text(data: memoryview, position: int, size: int) -> str:
    """The utf-8 in the `size` bytes at `position`, which are there; raises UnicodeDecodeError."""
    return str(data[position : position + size], "utf-8")


def copied(data: bytes | memoryview, position: int, size: int) -> bytes:
    """The `size` bytes at `position`, which are there."""
    return bytes(data[position : position + size])


def instance(kind: type) -> Any:
    """An instance of a struct, whose fields are not set yet."""
    return object.__new__(kind)


def set_field(instance: object, name: str, value: object) -> None:
    """Set a field of an instance, although structs are frozen."""
    object.__setattr__(instance, name, value)


def tuple_as(kind: type[NamedT], values: tuple[Any, ...]) -> NamedT:
    """A named tuple of all its values."""
    return tuple.__new__(kind, values)


room = bytearray
"""So many bytes, which may hold anything."""


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


put_int16_be = struct.Struct(">h").pack_into
put_int32_be = struct.Struct(">i").pack_into
put_uint32_be = struct.Struct(">I").pack_into
put_int64_be = struct.Struct(">q").pack_into
"""`put_int64_be(target, at, value)` writes `value` at `at`, the highest byte first, as Kafka has all its numbers."""


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
