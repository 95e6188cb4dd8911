"""Raw memory and raw objects, interpreted: it stays interpreted when its neighbours are compiled."""

from __future__ import annotations

import sys
from typing import Any, Final, TypeVar

__all__ = [
    "copied",
    "first_byte",
    "grown",
    "instance",
    "is_ascii",
    "is_unshared",
    "number",
    "set_field",
    "short_varint",
    "text",
    "tuple_as",
]

_HELD: Final = [bytearray()]
_OF_LIST: Final = sys.getrefcount(_HELD[0])
"""References to an object that only a list holds, where the argument is counted, too."""

NamedT = TypeVar("NamedT", bound=tuple[Any, ...])


def first_byte(view: memoryview) -> memoryview:
    """What `view`, whose items are bytes without gaps, is indexed by; the view must outlive it."""
    return view


def grown(data: bytearray, size: int) -> bytearray:
    """`size` bytes that begin with those of `data`, and then may hold anything.

    The compiled form lengthens `data` itself, unless it has views.
    """
    longer = bytearray(size)
    longer[: len(data)] = data
    return longer


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
