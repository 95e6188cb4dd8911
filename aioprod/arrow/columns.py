# cython: boundscheck=False, wraparound=False
"""Typed views of Arrow columns: where the bytes of a row are, its number, its list. No object is made per row.

A view is put on a row by `find`, and says then what is there. It does not hold the memory: the chunk that it was made
from must be kept meanwhile.

Where buffers are, how long a column is, and how large its blocks of data are come from the library that exported them,
and are trusted: the interface has no more. What the buffers hold may come from a peer, for which that library has
not looked at each row. So every offset, index and view of a row is compared with what it points into.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

from aioprod.arrow import memory
from aioprod.errors import InvalidRecordError

__all__ = ["BytesColumn", "NumberColumn", "PairsColumn", "Span", "TimestampColumn"]

_MS_PER_S: Final = 1000
_SECONDS_MAX: Final = (2**63 - 1) // _MS_PER_S
"""The most seconds whose milliseconds fit into 64 bits."""


class Span:
    """The rows of a column: which of the rows in its buffers, and which of them are null.

    `validity` is the address of the bitmap, 0 for none: then no row is null, and the span is not `nullable`.
    """

    __slots__ = ("_bits", "first", "length", "nullable")

    def __init__(self, first: int, length: int, validity: int) -> None:
        self.first = first
        self.length = length
        self.nullable = validity != 0
        self._bits = memory.at(validity, (first + length + 7) // 8 if validity else 0)

    def is_null(self, row: int) -> bool:
        """Whether a row, counted from the first of the span, is null."""
        at = self.first + row
        return self.nullable and not (self._bits[at >> 3] >> (at & 7)) & 1


class NumberColumn:
    """Integers of `width` bytes.

    Unsigned ones of eight bytes that are over 2**63 - 1 come out negative.
    """

    __slots__ = ("_mask", "_numbers", "_span", "_width", "value")

    def __init__(self, span: Span, numbers: int, width: int, unsigned: bool) -> None:
        self._span = span
        self._width = width
        self._numbers = memory.at(numbers, width * (span.first + span.length))
        self._mask = (1 << 8 * width) - 1 if unsigned and width < 8 else -1
        self.value = 0
        """The number of the row found, if that is not null."""

    def find(self, row: int) -> bool:
        """Go to a row; False when it is null."""
        span = self._span
        if span.is_null(row):
            return False
        self.value = memory.number(self._numbers, self._width, span.first + row) & self._mask
        return True


class TimestampColumn:
    """Times since the epoch, in units of which a second has `per_second`."""

    __slots__ = ("_numbers", "_per_second", "ms")

    def __init__(self, numbers: NumberColumn, per_second: int) -> None:
        self._numbers = numbers
        self._per_second = per_second
        self.ms = 0
        """The time of the row found."""

    def find(self, row: int) -> bool:
        """Go to a row; False when it is null. Raises InvalidRecordError for a time before the epoch."""
        if not self._numbers.find(row):
            return False
        given = self._numbers.value
        per_second = self._per_second
        if given < 0 or (per_second == 1 and given > _SECONDS_MAX):
            raise InvalidRecordError(
                f"The timestamp of a record is not between 0 and 2**63 - 1 milliseconds since the epoch: its column "
                f"holds {given} units, of which a second has {per_second}."
            )
        if per_second == 1:
            self.ms = given * _MS_PER_S
        else:
            self.ms = given // (per_second // _MS_PER_S)
        return True


class BytesColumn:
    """Strings or byte strings.

    `layout` is one of the layouts in `memory`. `width` is that of an offset or of a value in bytes, `places` the
    address of offsets, views or values. `blocks` are (address, size) of the buffers with the bytes themselves, and
    `data_size` is the size of the `data` of offsets.
    """

    __slots__ = (
        "_blocks",
        "_held",
        "_indices",
        "_layout",
        "_span",
        "_values",
        "block_count",
        "data",
        "data_size",
        "first",
        "is_plain",
        "places",
        "size",
        "start",
        "width",
    )

    def __init__(
        self,
        span: Span,
        layout: int,
        width: int = 0,
        places: int = 0,
        blocks: Sequence[tuple[int, int]] = (),
        indices: NumberColumn | None = None,
        values: BytesColumn | None = None,
    ) -> None:
        self._span = span
        self._layout = layout
        self.first = span.first
        self.is_plain = layout == memory.OFFSETS and not span.nullable
        """No row is null, and each has the bytes between two offsets of `width` bytes; the first offset is at `first`
        in `places`."""
        self.width = width
        self._indices = indices
        self._values = values
        # One more: offsets have an end.
        self.places = memory.at(places, width * (span.first + span.length + (layout == memory.OFFSETS)))
        self.block_count = len(blocks)
        self._held = array("q", [number for block in blocks for number in block])
        self._blocks = memory.at(self._held.buffer_info()[0], 16 * len(blocks))
        self.data = self.places
        self.data_size = 0
        if layout == memory.OFFSETS:
            address, self.data_size = blocks[0]
            self.data = memory.at(address, self.data_size)
        self.start = 0
        self.size = -1
        """How many bytes of `data` from `start` on the row found has; -1 for null."""

    def find(self, row: int) -> bool:
        """Go to a row; False when it is null. Raises InvalidRecordError when it does not say where its bytes are."""
        at = self.first + row
        if not self.is_plain:
            self.size = -1
            if self._layout != memory.OFFSETS or self._span.is_null(row):
                return self._find_other(row, at)
        start = memory.number(self.places, self.width, at)
        end = memory.number(self.places, self.width, at + 1)
        if not 0 <= start <= end <= self.data_size:
            return self._raise_broken()
        self.start = start
        self.size = end - start
        return True

    def _raise_broken(self) -> bool:
        """Raise InvalidRecordError, out of line: `find` runs for each row, and takes fewer steps without."""
        self.size = -1
        raise InvalidRecordError("The offsets of an Arrow column descend, or point out of its data.")

    def _find_other(self, row: int, at: int) -> bool:
        """Go to a row that is null, or that has no offsets."""
        if self._layout == memory.NULLS or self._span.is_null(row):
            return False
        if self._layout == memory.VIEWS:
            self._find_view(at)
        elif self._layout == memory.INDEXED:
            return self._find_value(row)
        else:
            self.start = at * self.width
            self.size = self.width
        return True

    def _find_view(self, at: int) -> None:
        size = memory.number(self.places, 4, 4 * at)
        if 0 <= size <= memory.INLINE_MAX:
            self.data = self.places
            self.start = memory.VIEW_SIZE * at + 4
        else:
            block = memory.number(self.places, 4, 4 * at + 2)
            start = memory.number(self.places, 4, 4 * at + 3)
            if size < 0 or not 0 <= block < self.block_count:
                raise InvalidRecordError("A view of an Arrow column points to no buffer.")
            block_size = memory.number(self._blocks, 8, 2 * block + 1)
            if start < 0 or start + size > block_size:
                raise InvalidRecordError("A view of an Arrow column points out of its buffer.")
            self.data = memory.at(memory.number(self._blocks, 8, 2 * block), block_size)
            self.start = start
        self.size = size

    def _find_value(self, row: int) -> bool:
        indices = self._indices
        values = self._values
        assert indices is not None
        assert values is not None
        if not indices.find(row):
            return False
        if not 0 <= indices.value < values._span.length:
            raise InvalidRecordError("An index of a dictionary-encoded Arrow column is out of its dictionary.")
        if not values.find(indices.value):
            return False
        self.data = values.data
        self.start = values.start
        self.size = values.size
        return True

    def get(self) -> bytes | None:
        """A copy of the row found."""
        if self.size < 0:
            return None
        return bytes(self.data[self.start : self.start + self.size])


class PairsColumn:
    """Lists of pairs of strings.

    `offsets` is the address of integers of `width` bytes, `pairs` the span of all pairs, in which none may be null.
    """

    __slots__ = ("_offsets", "_pairs", "_span", "_width", "count", "first", "names", "values")

    def __init__(
        self, span: Span, offsets: int, width: int, pairs: Span, names: BytesColumn, values: BytesColumn
    ) -> None:
        self._span = span
        self._width = width
        self._offsets = memory.at(offsets, width * (span.first + span.length + 1))
        self._pairs = pairs
        self.names = names
        self.values = values
        self.first = 0
        self.count = -1
        """How many pairs from `first` on in `names` and `values` the row found has; -1 for null."""

    def find(self, row: int) -> bool:
        """Go to a row; False when it is null. Raises InvalidRecordError when it does not say where its pairs are."""
        span = self._span
        self.count = -1
        if span.is_null(row):
            return False
        at = span.first + row
        self.first = memory.number(self._offsets, self._width, at)
        end = memory.number(self._offsets, self._width, at + 1)
        if not 0 <= self.first <= end <= self._pairs.length:
            raise InvalidRecordError("The offsets of an Arrow list column descend, or point out of its values.")
        self.count = end - self.first
        return True

    def find_pair(self, pair: int) -> bool:
        """Go to a pair in `names` and `values`; False when the pair itself or its name is null."""
        named = self.names.find(pair)
        self.values.find(pair)
        return named and not self._pairs.is_null(pair)

    def get(self, row: int) -> list[tuple[Any, bytes | None]] | None:
        """A copy of the pairs of a row, with None for a name, or a pair, that is null."""
        self.find(row)
        if self.count < 0:
            return None
        copied = []
        for pair in range(self.first, self.first + self.count):
            name = self.names.get() if self.find_pair(pair) else None
            copied.append((None if name is None else name.decode(errors="replace"), self.values.get()))
        return copied
