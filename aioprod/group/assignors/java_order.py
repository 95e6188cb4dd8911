"""The order of Java's strings and of its HashMap, on which some results of its assignors depend."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioprod.types import TopicPartition

__all__ = ["HashOrdered", "hash_ordered", "text_order"]

_WORD: Final = 0xFFFF_FFFF
_TABLE_SIZE_MIN: Final = 16


def text_order(text: str) -> bytes:
    """Key for sorting as `String.compareTo` does: by UTF-16 units, not by characters."""
    return text.encode("utf-16-be", "surrogatepass")


def _text_hash(text: str) -> int:
    units = text_order(text)
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & _WORD
    return value


def _partition_hash(tp: TopicPartition) -> int:
    return (31 * (31 + tp.partition) + _text_hash(tp.topic)) & _WORD


def _table_size(entries: int) -> int:
    size = _TABLE_SIZE_MIN
    while entries > size * 3 // 4:
        size *= 2
    return size


def _bucket(value: int, size: int) -> int:
    return (value ^ (value >> 16)) & (size - 1)


def hash_ordered(names: Iterable[str]) -> list[str]:
    """Names in the iteration order of a `HashMap` to which they were added in the given order."""
    given = list(names)
    size = _table_size(len(given))
    return sorted(given, key=lambda name: _bucket(_text_hash(name), size))


class HashOrdered:
    """A set of partitions with the iteration order of a `HashSet`, whose table never shrinks."""

    def __init__(self) -> None:
        self._hashes: dict[TopicPartition, int] = {}
        self._size = _TABLE_SIZE_MIN

    def add(self, tp: TopicPartition) -> None:
        """Add a new partition."""
        self._hashes[tp] = _partition_hash(tp)
        self._size = max(self._size, _table_size(len(self._hashes)))

    def remove(self, tp: TopicPartition) -> None:
        """Remove a partition."""
        del self._hashes[tp]

    def first(self) -> TopicPartition:
        """The first in Java's order."""
        return min(self._hashes, key=lambda tp: _bucket(self._hashes[tp], self._size))

    def __len__(self) -> int:
        return len(self._hashes)
