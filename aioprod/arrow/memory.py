"""Memory of other libraries, and the layouts of strings in it: never compiled, also when its users are."""

from __future__ import annotations

import ctypes
import sys
from typing import Final

__all__ = ["FIXED", "INDEXED", "INLINE_MAX", "NULLS", "OFFSETS", "VIEWS", "VIEW_SIZE", "at", "number"]

OFFSETS: Final = 0
"""Binary and string: offsets into one buffer."""
FIXED: Final = 1
"""Values of one size in a row."""
VIEWS: Final = 2
"""Binary view and string view: short values in place, long ones somewhere in several buffers."""
INDEXED: Final = 3
"""Dictionary-encoded: indices of the values of another column."""
NULLS: Final = 4
"""Nothing but nulls."""

VIEW_SIZE: Final = 16
INLINE_MAX: Final = 12
"""A view of more bytes than this has their position in place of the bytes."""


def at(address: int, size: int) -> memoryview:
    """The `size` bytes at an address, 0 for none, without a copy; their owner must keep them while they are used."""
    if not address or size <= 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


def number(data: memoryview, width: int, index: int) -> int:
    """The signed integer at `index` of an array of integers of 1, 2, 4 or 8 bytes, in the order of this machine."""
    return int.from_bytes(data[index * width : (index + 1) * width], sys.byteorder, signed=True)
