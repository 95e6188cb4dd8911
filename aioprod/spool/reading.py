"""Reading the records of a spool in their order."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Self

from aioprod._short_reprs import shown
from aioprod.errors import CorruptRecordError, MarkerError, SpoolError
from aioprod.relay.columns import ColumnRows
from aioprod.spool.entries import EntryReader
from aioprod.spool.files import Files
from aioprod.spool.layout import GROUP_BYTES, NAME_BYTES, SEGMENT_BYTES, Group, Segment, file_name, read_group
from aioprod.spool.segments import Segments, read_groups

__all__ = ["Position", "SpoolReader"]

_CHUNK: Final = 1 << 20
_BYTES_MAX: Final = 8 << 20
"""The bytes of files after which a read returns what it has."""
_POSITION: Final = re.compile(rb"([0-9]{1,20})\.([0-9a-f]{%d})" % (2 * NAME_BYTES))
_ANY: Final = 1 << 64
"""More than any number."""


class Position(NamedTuple):
    """The place of a record: its number, and the name of its group, which a copy that was written to has not."""

    number: int
    name: bytes

    def to_bytes(self) -> bytes:
        """As relays and markers have it."""
        return b"%d.%s" % (self.number, self.name.hex().encode())

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Read a position; raises MarkerError for what is none."""
        found = _POSITION.fullmatch(data)
        if found is None:
            raise MarkerError(f"The position {shown(data)} is none of a spool.")
        return cls(int(found[1]), bytes.fromhex(found[2].decode()))


class _Cursor(NamedTuple):
    """What is read next."""

    segment: Segment
    at: int
    """Where its group begins."""
    number: int
    name: bytes
    """The name of the group before it; b"" where it is not known."""
    entry_at: int = 0
    """Where its record begins; 0 for the first one of the group."""


class SpoolReader:
    """Reads the groups of a folder one after the other.

    `delivered` says up to which number records are known to be delivered, 0 for none. `end` says which number is not on
    the disk yet. It is None where another process writes: then what is found is
    synced by this one before it is returned, so that nothing is sent that a power cut could take back.
    """

    def __init__(
        self, files: Files, segments: Segments, end: Callable[[], int] | None, delivered: Callable[[], int]
    ) -> None:
        self._files = files
        self._segments = segments
        self._end = end
        self._delivered = delivered
        self._entries = EntryReader(segments.seed)
        self._after: bytes | None = None
        """The position behind which the cursor is, if `_is_placed`."""
        self._is_placed = False
        """Whether the next read may continue there."""
        self.known = 0
        """The highest number that was returned, or was found to be this spool's."""
        self._cursor = _Cursor(Segment(0, b""), 0, 0, b"")
        self._data, self._begin = b"", 0
        """Some bytes of the cursor's segment, and where they begin."""
        self._whole = 0
        """The number that was not on the disk yet when they were read: from it on they may have been overwritten."""
        self._failure: SpoolError | None = None

    def read(self, after: bytes | None, limit: int) -> ColumnRows:
        """The records behind this position, `limit` at most; fewer where they have many bytes, or where there are none.

        Raises MarkerError where the position is none of this spool's, or where what follows it was removed; SpoolError
        where a file is damaged; OSError.
        """
        if self._failure is not None:
            raise self._failure.again()
        if after != self._after or not self._is_placed:
            self._seek(after)
        self._is_placed = False  # Until all is well: what is raised below has the next call begin at its position.
        rows = ColumnRows()
        touched: set[str] = set()
        while len(rows) < limit and rows.size < _BYTES_MAX:
            try:
                group = self._next_group()
                if group is None:
                    break
                touched.add(file_name(self._cursor.segment.base))
                self._take(group, limit - len(rows), rows)
            except SpoolError:
                rows.drop_parts()
                if rows:  # What is before the damage comes first.
                    break
                raise
        if self._end is None:
            self._sync(touched)
        self._after, self._is_placed = rows.position(-1) if rows else after, True
        self.known = max(self.known, self._cursor.number - 1)
        return rows

    def _sync(self, names: set[str]) -> None:
        """Bring what was found to the disk. After an error the next call might say that all is well: there is none."""
        try:
            for name in names:
                self._files.sync(name)
        except OSError as error:
            self._failure = SpoolError(
                f"The spool could not be brought to the disk: {error.strerror or error}.",
                hint="Start this process and the one that writes again when the disk is well.",
            )
            raise self._failure.again() from error

    # --- groups

    def _next_group(self) -> Group | None:
        """The next group with records; None where there is none yet."""
        while True:
            end = None if self._end is None else self._end()
            if end is not None and self._cursor.number >= end:
                return None
            group = self._group_here()
            if group is None and not self._enter_next_segment():
                if end is not None:
                    raise self._damaged(f"its group at byte {self._cursor.at} is not whole")
                return None
            if group is not None:
                if group.size:
                    return group
                self._pass(group)

    def _pass(self, group: Group) -> None:
        name = group.name if group.size else b""  # Where records were removed, it may not be the name that they had.
        if not group.records:
            name = self._cursor.name
        self._cursor = _Cursor(self._cursor.segment, group.end, group.next, name)

    def _group_here(self) -> Group | None:
        segment, at, number = self._cursor[:3]
        name = file_name(segment.base)
        if number >= self._whole or not self._has(at, GROUP_BYTES):
            self._load(name, at, _CHUNK)
        group = read_group(self._data, at - self._begin, self._segments.seed, self._begin)
        if group is None or not self._has(at, GROUP_BYTES + group.size):
            size = _CHUNK if group is None else GROUP_BYTES + group.size
            self._load(name, at, max(size, _CHUNK))
            group = read_group(self._data, 0, self._segments.seed, at)
        if group is None or not self._has(at, GROUP_BYTES + group.size):
            return None
        if group.base != number and not self._cursor.entry_at:
            raise self._damaged(f"the group at byte {at} begins with number {group.base}")
        return group

    def _has(self, at: int, size: int) -> bool:
        return self._begin <= at and at + size <= self._begin + len(self._data)

    def _load(self, name: str, at: int, size: int) -> None:
        self._whole = _ANY if self._end is None else self._end()
        try:
            self._data = self._files.read(name, at, size)
        except FileNotFoundError:  # It was read to its end, and all of it is delivered.
            self._data = b""
        self._begin = at

    def _take(self, group: Group, limit: int, rows: ColumnRows) -> None:
        """Add the next records of a group, and move the cursor behind them."""
        cursor = self._cursor
        begin = (cursor.entry_at or group.at + GROUP_BYTES) - self._begin
        end = group.end - self._begin
        count = min(limit, group.next - cursor.number)
        try:
            stop = self._entries.read(self._data, begin, end, count, rows)
        except CorruptRecordError as error:
            raise self._damaged(f"in its group at byte {group.at} {error.message}") from None
        number = cursor.number + count
        if number < group.next:
            self._cursor = cursor._replace(number=number, entry_at=self._begin + stop)
        elif stop != end:
            raise self._damaged(f"{end - stop} bytes follow the last record of its group at byte {group.at}")
        else:
            self._pass(group)
        rows.numbers.extend(range(cursor.number, number))
        rows.names.extend([b"." + group.name.hex().encode()] * count)
        rows.size += stop - begin

    def _damaged(self, how: str) -> SpoolError:
        return SpoolError(
            f"The segment {file_name(self._cursor.segment.base)} is damaged, {how}: the records from number "
            f"{self._cursor.number} on can't be read.",
            hint="See which records these are with aioprod spool verify FOLDER; nothing behind them was sent.",
        )

    # --- places

    def _enter_next_segment(self) -> bool:
        """Continue in the segment behind; False if there is none."""
        segment = self._segments.after(self._cursor.segment)
        if segment is None:
            self._segments.list()
            segment = self._segments.after(self._cursor.segment)
        if segment is None:
            return False
        size = self._files.sizes().get(file_name(self._cursor.segment.base), 0)
        if segment.base != self._cursor.number or self._cursor.at < size:
            # The other process may have completed the last group between two looks at it.
            self._data = b""
            if self._group_here() is not None:
                return True
            raise self._damaged(f"its group at byte {self._cursor.at} is not whole")
        if self._cursor.name not in (segment.previous, b""):
            raise self._damaged(f"or {file_name(segment.base)} was not written after it")
        self._files.done(file_name(self._cursor.segment.base))
        self._enter(segment)
        return True

    def _enter(self, segment: Segment) -> None:
        self._cursor = _Cursor(segment, SEGMENT_BYTES, segment.base, segment.previous)
        self._data, self._begin, self._whole = b"", 0, 0

    def _seek(self, after: bytes | None) -> None:
        """Continue behind this position."""
        self._segments.list()
        first = self._segments.heads[0]
        if after is None:
            delivered = max(first.base - 1, self._delivered())
            if delivered:
                raise MarkerError(
                    f"The records of this spool up to number {delivered} were delivered, and the marker in Kafka that "
                    "says so is gone.",
                    hint="See which record was sent last, and set the marker; or give the folder a new id with aioprod "
                    "spool verify FOLDER --new-id, which sends what it still has.",
                )
            self._enter(first)
        else:
            self._seek_record(Position.of(after))

    def _seek_record(self, position: Position) -> None:
        number = position.number
        first = self._segments.heads[0]
        if number < first.base - 1:
            raise MarkerError(
                f"Records up to number {number} are in Kafka, and this spool begins with number {first.base}: those "
                "between were removed.",
                hint="Was the marker set to an earlier position, or is this the folder of another one?",
            )
        segment = self._segments.of(number)
        self._enter(segment)
        if number < segment.base:
            self._check_name(position, segment.previous)
            return
        groups = read_groups(self._files, file_name(segment.base), segment, self._segments.seed)
        group = next((group for group in groups if group.base <= number < group.next), None)
        if group is None or (self._end is not None and number >= self._end()):
            last = groups[-1].next - 1 if groups else segment.base - 1
            if self._segments.after(segment) is not None:
                raise self._damaged(f"it ends with number {last}, and number {number} is in Kafka")
            raise MarkerError(
                f"Records up to number {number} are in Kafka, and this spool ends with number {last}: it is an older "
                "copy of a folder that was used on.",
                hint="Use the newer folder. To send what only this one has, give it a new id with aioprod spool verify "
                "FOLDER --new-id.",
            )
        self._check_name(position, group.name)
        self._cursor = _Cursor(segment, group.at, group.base, b"")
        if group.size and number + 1 < group.next:
            whole = self._group_here()
            if whole is None:
                raise self._damaged(f"its group at byte {group.at} is not whole")
            self._take(whole, number + 1 - group.base, ColumnRows())
        else:
            self._pass(group)

    def _check_name(self, position: Position, name: bytes) -> None:
        if position.name != name:
            raise MarkerError(
                f"Record number {position.number} of this spool is not the one that is in Kafka: this is a copy of a "
                "folder, and both were written to.",
                hint="To send what only this one has, give it a new id with aioprod spool verify FOLDER --new-id.",
            )
