# cython: boundscheck=False, wraparound=False
"""The lines of a text as the values of a bulk call, encoded from where they lie, without an object for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, overload

from aioprod.records.builder import RecordBatchBuilder
from aioprod.wire import memory

__all__ = ["Lines", "lines_of"]

_END: Final = 10
"""The byte between two lines."""

_END_SIZE: Final = 1
_PLACE_SIZE: Final = 8
_SIZE_GUESSED: Final = 64
"""Room for the places of lines of so many bytes is taken first."""


class Lines:
    """Neighbouring lines of a text, without what ends them; a slice of them shares the text."""

    __slots__ = ("count", "data", "first", "places")

    def __init__(self, data: bytes, places: bytearray, first: int, count: int) -> None:
        self.data = data
        """The text."""
        self.places = places
        """Where each line of the text begins, and last where one behind it would: integers of `_PLACE_SIZE` bytes."""
        self.first = first
        """The number of the first line here among those of the text."""
        self.count = count
        """How many lines are here."""

    @property
    def size(self) -> int:
        """The bytes of all lines together."""
        start = memory.int_at(self.places, _PLACE_SIZE, self.first)
        return memory.int_at(self.places, _PLACE_SIZE, self.first + self.count) - start - self.count * _END_SIZE

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[bytes]:
        return iter([self[index] for index in range(self.count)])

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Lines: ...

    def __getitem__(self, index: int | slice) -> bytes | Lines:
        if isinstance(index, slice):
            some = range(self.count)[index]
            assert some.step == 1
            return Lines(self.data, self.places, self.first + some.start, len(some))
        at = self.first + range(self.count)[index]
        start = memory.int_at(self.places, _PLACE_SIZE, at)
        return self.data[start : memory.int_at(self.places, _PLACE_SIZE, at + 1) - _END_SIZE]

    def append_to(self, builder: RecordBatchBuilder, timestamp: int, start: int, size_max: int) -> int:
        """Encode the lines from number `start` on without headers, as `append_values` of the builder does; how many."""
        return builder.append_column(
            timestamp,
            self.data,
            len(self.data),
            self.places,
            _PLACE_SIZE,
            _END_SIZE,
            self.first + start,
            self.first + self.count,
            size_max,
        )


def lines_of(data: bytes) -> Lines:
    """The lines that `data` has between its line ends: at least one, which may be empty."""
    size = len(data)
    room = size // _SIZE_GUESSED + 2
    places = memory.room(_PLACE_SIZE * room)
    p = places
    memory.put_int64(p, 0, 0)
    count = 0
    at = 0
    while at <= size:
        at = memory.find(data, _END, at, size) + _END_SIZE
        count += 1
        if count == room:
            room *= 2
            larger = memory.room(_PLACE_SIZE * room)
            memory.copy(larger, 0, places, 0, _PLACE_SIZE * count)
            p = places = larger
        memory.put_int64(p, count, at)
    return Lines(data, places, 0, count)
