"""How many bytes a record can take, before it is known in which place of which batch."""

from __future__ import annotations

from aioprod.records.headers import NO_HEADERS
from aioprod.records.varint import varint_size

__all__ = ["RECORD_OVERHEAD_MAX", "record_size_bound", "size_bound"]

RECORD_OVERHEAD_MAX = 5 + 1 + 10 + 5
"""The most that length, attributes, timestamp and offset delta of one record take; `DefaultRecord` counts so too."""


def record_size_bound(key: bytes | None, value: bytes | None, headers: bytes = NO_HEADERS) -> int:
    """The most bytes that the record can take in any batch; `headers` are encoded ones.

    What Java compares with `max.request.size` is this plus the `HEADER` of a batch of one.
    """
    return size_bound(-1 if key is None else len(key), -1 if value is None else len(value), len(headers))


def size_bound(key_size: int, value_size: int, headers_size: int) -> int:
    """`record_size_bound` of sizes in bytes, -1 for null."""
    size = RECORD_OVERHEAD_MAX
    size += varint_size(key_size) + varint_size(value_size) + headers_size
    if key_size > 0:
        size += key_size
    if value_size > 0:
        size += value_size
    return size
