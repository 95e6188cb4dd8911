# cython: boundscheck=False, wraparound=False
"""Records as columns: the records of parsed batches, decoded into the buffers of Arrow arrays without an object each.

See Columnar.html of https://arrow.apache.org/docs/format/ for what these buffers hold. Nothing in the bytes is trusted.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aioprod.records.parser import ParsedBatch, RecordWalk
from aioprod.records.spare_buffers import SpareBuffers
from aioprod.wire import memory

__all__ = ["BytesBuffers", "HeaderBuffers", "RecordColumns", "RecordTable", "TableReader"]

_SIZE_MAX: Final = (1 << 31) - 1
_ALL: Final = (1 << 31) - 1
"""More records than a batch can have."""
_HEADER_SIZE: Final = 8
"""What a header takes beside its bytes: two places."""


class BytesBuffers(NamedTuple):
    """A column of byte strings."""

    rows: int
    """How many strings there are, nulls included."""
    nulls: int
    """How many of them are null."""
    validity: memoryview | None
    """None without nulls, else a bit of 0 for each null."""
    places: memoryview
    """Where each string begins in `data`, and last where the last one ends: int32."""
    data: memoryview
    """The bytes of all strings."""


class HeaderBuffers(NamedTuple):
    """A column of lists of headers."""

    places: memoryview
    """Where each list begins in `names` and `values`, and last where the last one ends: int32."""
    names: BytesBuffers
    values: BytesBuffers


class RecordColumns(NamedTuple):
    """The columns of some records; all numbers are in this machine's order."""

    rows: int
    """How many records there are."""
    keys: BytesBuffers
    values: BytesBuffers
    offsets: memoryview
    """int64."""
    timestamps: memoryview
    """int64, in ms."""
    headers: HeaderBuffers | None
    """None where the table takes no headers."""


def _room_for(size: int, room: int) -> int:
    """What to reserve where the records before took `size` bytes out of `room`: the next are probably like these.

    It is the same where that fits, so that buffers may be used again.
    """
    return room if size <= room <= 2 * size else size + (size >> 3) + 4096


class BytesColumn:
    """Takes byte strings one after the other, with room for `rows` of `size` bytes together until it must grow."""

    __slots__ = (
        "_bits",
        "_bits_at",
        "_data",
        "_data_at",
        "_places",
        "_places_at",
        "_room",
        "_rows_max",
        "_size_first",
        "_spares",
        "nulls",
        "rows",
        "size",
    )

    def __init__(self, rows: int, size: int, spares: SpareBuffers) -> None:
        self.rows = 0
        """How many strings were added."""
        self.size = 0
        """The bytes of these."""
        self.nulls = 0
        """How many of them are null."""
        self._rows_max = rows
        """For how many strings there is room."""
        self._room = 0
        """For how many bytes of theirs there is room.

        It is taken when the first string comes: by then the user of the rows before may have dropped theirs.
        """
        self._size_first = size
        """How much room is taken first."""
        self._spares = spares
        """The room comes from here, if there is a buffer to spare."""
        self._data = memory.room(0)
        self._data_at = self._data
        self._places = memory.room(4 * (rows + 1))
        self._places_at = self._places
        self._bits = memory.room((rows + 7) >> 3)
        self._bits_at = self._bits
        memory.put_int32(self._places_at, 0, 0)
        memory.fill(self._bits_at, (rows + 7) >> 3, 0xFF)

    def append(self, source: memoryview, start: int, size: int) -> None:
        """Add `size` bytes from `source[start:]`, which are there; null if that is negative."""
        if self.rows == self._rows_max:
            self._more_rows()
        if size > 0:
            if size > self._room - self.size:
                self._more_room(size)
            memory.copy(self._data_at, self.size, source, start, size)
            self.size += size
        elif size < 0:
            memory.clear_bit(self._bits_at, self.rows)
            self.nulls += 1
        self.rows += 1
        memory.put_int32(self._places_at, self.rows, self.size)

    def _more_rows(self) -> None:
        rows = 2 * self._rows_max + 64
        places = memory.room(4 * (rows + 1))
        memory.copy(places, 0, self._places_at, 0, 4 * (self.rows + 1))
        bits = memory.room((rows + 7) >> 3)
        memory.fill(bits, (rows + 7) >> 3, 0xFF)
        memory.copy(bits, 0, self._bits_at, 0, (self.rows + 7) >> 3)
        self._places = places
        self._places_at = places
        self._bits = bits
        self._bits_at = bits
        self._rows_max = rows

    def _more_room(self, size: int) -> None:
        if size > _SIZE_MAX - self.size:
            raise OverflowError(
                f"A column of {self.size} bytes has no room for {size} more: take its rows out earlier."
            )
        room = min(_SIZE_MAX, max(self._size_first, 2 * self._room, self.size + size))
        data = self._spares.longer(self._data, room)
        self._data = data
        self._data_at = data
        self._room = len(data)

    def buffers(self) -> BytesBuffers:
        """What was added; it must not be added to any more."""
        if self.size:
            self._spares.gave(self._data)
        return BytesBuffers(
            self.rows,
            self.nulls,
            memoryview(self._bits)[: (self.rows + 7) >> 3] if self.nulls else None,
            memoryview(self._places)[: 4 * (self.rows + 1)],
            memoryview(self._data)[: self.size],
        )


class RecordTable:
    """Collects records of one partition until there are enough rows or bytes; one record may have more bytes."""

    __slots__ = (
        "_header_count",
        "_header_places",
        "_header_places_at",
        "_key_room",
        "_keys",
        "_name_values",
        "_names",
        "_no_spares",
        "_offsets",
        "_offsets_at",
        "_room_max",
        "_spares",
        "_timestamps",
        "_timestamps_at",
        "_value_room",
        "_values",
        "_with_headers",
        "rows",
        "rows_max",
        "size_max",
    )

    def __init__(self, *, rows_max: int, size_max: int, headers: bool = False) -> None:
        if rows_max < 1 or not 1 <= size_max <= 1 << 30:
            raise ValueError(f"There is no table for {rows_max} rows or {size_max} bytes.")
        self.rows_max = rows_max
        """The most records."""
        self.size_max = size_max
        """The most bytes of keys, values and headers: at most 1 GiB."""
        self._with_headers = headers
        """Whether there is a column of headers."""
        self._key_room = 1024
        # Memory that is not written to costs nothing, where this is compiled.
        self._room_max = self._value_room = _room_for(size_max, 0)
        self._spares = SpareBuffers(self._room_max)
        self._no_spares = SpareBuffers(0)
        self._clear()

    def _clear(self) -> None:
        self.rows = 0
        self._keys = BytesColumn(self.rows_max, self._key_room, self._spares)
        self._values = BytesColumn(self.rows_max, self._value_room, self._spares)
        self._offsets = memory.room(8 * self.rows_max)
        self._offsets_at = self._offsets
        self._timestamps = memory.room(8 * self.rows_max)
        self._timestamps_at = self._timestamps
        self._header_count = 0
        self._header_places = memory.room(4 * (self.rows_max + 1) if self._with_headers else 4)
        self._header_places_at = self._header_places
        memory.put_int32(self._header_places_at, 0, 0)
        self._names = BytesColumn(0, 0, self._no_spares)
        self._name_values = BytesColumn(0, 0, self._no_spares)

    @property
    def size(self) -> int:
        """The bytes of its records."""
        return self._size()

    def _size(self) -> int:
        size = self._keys.size + self._values.size
        if self._header_count:
            size += self._names.size + self._name_values.size + _HEADER_SIZE * self._header_count
        return size

    def is_full(self) -> bool:
        """Whether there is no room for another record."""
        return self.rows >= self.rows_max or self._size() >= self.size_max

    def take(self) -> RecordColumns:
        """What was collected, in buffers of its own; the table is empty then."""
        headers = None
        if self._with_headers:
            headers = HeaderBuffers(
                memoryview(self._header_places)[: 4 * (self.rows + 1)],
                self._names.buffers(),
                self._name_values.buffers(),
            )
        columns = RecordColumns(
            self.rows,
            self._keys.buffers(),
            self._values.buffers(),
            memoryview(self._offsets)[: 8 * self.rows],
            memoryview(self._timestamps)[: 8 * self.rows],
            headers,
        )
        self._key_room = min(self._room_max, _room_for(self._keys.size, self._key_room))
        self._value_room = min(self._room_max, _room_for(self._values.size, self._value_room))
        self._clear()
        return columns


class TableReader(RecordWalk):
    """Reads the records of one batch whose offsets are from `start` on, up to but not including `end`, into tables.

    Raises CorruptRecordError as `ParsedBatch.records` does, also for records outside of these bounds.
    """

    __slots__ = (
        "_end_offset",
        "_header_count",
        "_headers_start",
        "_left",
        "_start_offset",
    )

    def __init__(self, batch: ParsedBatch, start: int, end: int) -> None:
        RecordWalk.__init__(self, batch)
        self._left = batch.count
        self._start_offset = start
        self._end_offset = end
        self._headers_start = 0
        self._header_count = 0

    def read(self, table: RecordTable, records: int = _ALL) -> bool:
        """Read up to so many records, those out of bounds counted, until the table is full; True at the batch's end."""
        while self._left:
            if records <= 0 or table.is_full():
                return False
            records -= 1
            if self._step_quickly():
                self._header_count = 0
            else:
                self._step()
            self._left -= 1
            if self._start_offset <= self.offset < self._end_offset:
                table._keys.append(self._bytes, self._key_start, self._key_size)
                table._values.append(self._bytes, self._value_start, self._value_size)
                memory.put_int64(table._offsets_at, table.rows, self.offset)
                memory.put_int64(table._timestamps_at, table.rows, self.timestamp)
                table.rows += 1
                if table._with_headers:
                    if self._header_count:
                        self._copy_headers(table)
                    memory.put_int32(table._header_places_at, table.rows, table._header_count)
        self.finish()
        return True

    def _step(self) -> None:
        """Go to the next record; raises CorruptRecordError."""
        self.begin()
        self._key_size = self.nullable_size()
        self._key_start = self.position
        if self._key_size > 0:
            self.position += self._key_size
        self._value_size = self.nullable_size()
        self._value_start = self.position
        if self._value_size > 0:
            self.position += self._value_size
        self._headers_start = self.position
        self._header_count = self.skip_headers()
        self.complete()

    def _copy_headers(self, table: RecordTable) -> None:
        """Read the headers of a record once more, and keep them now."""
        end = self.position
        self.position = self._headers_start
        left = self.header_count()
        table._header_count += left
        while left:
            size = self.header_name_size()
            start = self.position
            table._names.append(self._bytes, start, size)
            self.position += size
            size = self.header_value_size(start, size)
            table._name_values.append(self._bytes, self.position, size)
            if size > 0:
                self.position += size
            left -= 1
        self.position = end
