# cython: boundscheck=False, wraparound=False
"""Buffers that were given away, to be used again: the memory of a fresh one comes page by page from the kernel."""

from __future__ import annotations

from typing import Final

from aioprod.wire import memory

__all__ = ["SpareBuffers"]

_KEPT: Final = 4
"""So many buffers are kept: keys and values of two tables. The user has one of these, and drops the other when the next
one comes."""


class SpareBuffers:
    """Keeps the last buffers that were given away, and fills those again to which nothing else refers any more.

    All that reads a buffer (a memoryview, a buffer of Arrow and all that is made of it) holds a reference to it.
    """

    __slots__ = ("_given", "_size_max")

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        """A larger buffer is not kept: the memory of one large record would stay for good."""
        self._given: list[bytearray] = []
        """The last buffers that were given away, the oldest first."""

    def longer(self, buffer: bytearray, size: int) -> bytearray:
        """At least `size` bytes, which begin with those of `buffer` and then may hold anything.

        For an empty one they may be twice as many: a spare buffer. Nothing else refers to `buffer`.
        """
        if not buffer:
            for index in range(len(self._given)):
                if memory.is_unshared(self._given, index) and size <= len(self._given[index]) <= 2 * size:
                    return self._given.pop(index)
        return memory.grown(buffer, size)

    def gave(self, buffer: bytearray) -> None:
        """A buffer was given away, and will not be written to until it is spare."""
        if len(buffer) > self._size_max:
            return
        self._given.append(buffer)
        if len(self._given) > _KEPT:
            del self._given[0]
