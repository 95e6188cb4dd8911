"""The most bytes that a record can take in a batch, before it is encoded."""

from __future__ import annotations

from typing import Final

from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import NO_HEADERS
from aioprod.wire import memory

__all__ = ["LOOSE_OVERHEAD", "RECORD_OVERHEAD_MAX", "bound_of", "loose_bound", "record_size_bound", "size_bound"]

RECORD_OVERHEAD_MAX: Final = 5 + 1 + 10 + 5
"""The most that length, attributes, timestamp and offset delta of one record take; `DefaultRecord` counts so too."""

LOOSE_OVERHEAD: Final = RECORD_OVERHEAD_MAX + 2 * (1 + 5)
"""With the sizes of key, value (-1 for null) and headers this is at least `size_bound`, and takes no look at them."""

_LOOSE: Final = LOOSE_OVERHEAD
"""The same as a number of C, where this is compiled: other modules can't import that."""


def record_size_bound(key: bytes | None, value: bytes | None, headers: bytes = NO_HEADERS) -> int:
    """The most bytes that the record can take in any batch; `headers` are encoded ones.

    What Java compares with `max.request.size` is this plus the `HEADER` of a batch of one.
    """
    return size_bound(-1 if key is None else len(key), -1 if value is None else len(value), len(headers))


def size_bound(key_size: int, value_size: int, headers_size: int) -> int:
    """`record_size_bound` of sizes in bytes, -1 for null."""
    size = RECORD_OVERHEAD_MAX
    size += memory.varint_size(key_size) + memory.varint_size(value_size) + headers_size
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    return size


def bound_of(cursor: RecordCursor) -> int:
    """The most bytes that the record on which a cursor stands can take in any batch."""
    return size_bound(cursor.key_size, cursor.value_size, cursor.end - cursor.headers_start)


def loose_bound(key: bytes | None, value: bytes | None, headers: bytes) -> int:
    """At least `record_size_bound`, without a look at how long the numbers of the record are."""
    bound = _LOOSE + len(headers)
    bound += -1 if key is None else len(key)
    bound += -1 if value is None else len(value)
    return bound
