"""Reading the records of a spool in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Self

from aioprod._short_reprs import shown
from aioprod.errors import CorruptRecordError, MarkerError, SpoolError
from aioprod.relay.columns import ColumnRows
from aioprod.spool.entries import EntryReader
from aioprod.spool.files import Files
from aioprod.spool.layout import GROUP_BYTES, SEGMENT_BYTES, Group, Segment, file_name, read_group
from aioprod.spool.segments import Segments, read_groups

__all__ = ["Position", "SpoolReader"]

_CHUNK: Final = 1 << 20
_BYTES_MAX: Final = 8 << 20
"""The bytes of files after which a read returns what it has."""


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
        number, _, name = data.partition(b".")
        try:
            return cls(int(number), bytes.fromhex(name.decode()))
        except ValueError as error:
            raise MarkerError(f"The position {shown(data)} is none of a spool.") from error


class _Cursor(NamedTuple):
    """What is read next."""

    segment: Segment
    at: int
    """Where its group begins."""
    number: int
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
        self._after: bytes | None = b""
        """The position behind which the cursor is; b"" where it is nowhere."""
        self._cursor = _Cursor(Segment(0, b""), 0, 0)
        self._data, self._begin = b"", 0
        """Some bytes of the cursor's segment, and where it begins."""

    def read(self, after: bytes | None, limit: int) -> ColumnRows:
        """The records behind this position, `limit` at most; fewer where they have many bytes, or where there are none.

        Raises MarkerError where the position is none of this spool's, or where what follows it was removed; SpoolError
        where a file is damaged; OSError.
        """
        if after != self._after:
            self._seek(after)
        self._after = b""  # Until all is well: what is raised below has the next call begin at its position.
        rows = ColumnRows()
        touched: set[str] = set()
        while len(rows) < limit and rows.size < _BYTES_MAX:
            group = self._next_group()
            if group is None:
                break
            touched.add(file_name(self._cursor.segment.base))
            self._take(group, limit - len(rows), rows)
        if self._end is None:
            for name in touched:
                self._files.sync(name)
        self._after = rows.position(-1) if rows else after
        return rows

    # --- groups

    def _next_group(self) -> Group | None:
        """The next group with records; None where there is none yet."""
        while True:
            if self._end is not None and self._cursor.number >= self._end():
                return None
            group = self._group_here()
            if group is None and not self._enter_next_segment():
                return None
            if group is not None:
                if group.size:
                    return group
                self._cursor = self._cursor._replace(at=group.end, number=group.next)

    def _group_here(self) -> Group | None:
        segment, at, number, _ = self._cursor
        name = file_name(segment.base)
        if not self._has(at, GROUP_BYTES):
            self._load(name, at, _CHUNK)
        group = read_group(self._data, at - self._begin, self._segments.seed, self._begin)
        if group is None or not self._has(at, GROUP_BYTES + group.size):
            size = _CHUNK if group is None else GROUP_BYTES + group.size
            self._load(name, at, max(size, _CHUNK))
            group = read_group(self._data, 0, self._segments.seed, at)
        if group is None or not self._has(at, GROUP_BYTES + group.size):
            if self._end is not None and number < self._end() and (self._data or self._is_last()):
                raise self._damaged(f"its header at byte {at} is not whole")
            return None
        if group.base != number and not self._cursor.entry_at:
            raise self._damaged(f"the group at byte {at} begins with number {group.base}")
        return group

    def _has(self, at: int, size: int) -> bool:
        return self._begin <= at and at + size <= self._begin + len(self._data)

    def _load(self, name: str, at: int, size: int) -> None:
        self._data, self._begin = self._files.read(name, at, size), at

    def _is_last(self) -> bool:
        return self._segments.after(self._cursor.segment) is None

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
            self._cursor = _Cursor(cursor.segment, group.end, number)
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
            raise self._damaged(f"the group at byte {self._cursor.at} is not whole")
        self._files.done(file_name(self._cursor.segment.base))
        self._enter(segment)
        return True

    def _enter(self, segment: Segment) -> None:
        self._cursor = _Cursor(segment, SEGMENT_BYTES, segment.base)
        self._data, self._begin = b"", 0

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
        if number < segment.base:
            self._check_name(position, segment.previous)
            self._enter(segment)
            return
        groups = read_groups(self._files, file_name(segment.base), segment, self._segments.seed)
        group = next((group for group in groups if group.base <= number < group.next), None)
        if group is None or (self._end is not None and number >= self._end()):
            last = groups[-1].next - 1 if groups else segment.base - 1
            raise MarkerError(
                f"Records up to number {number} are in Kafka, and this spool ends with number {last}: it is an older "
                "copy of a folder that was used on.",
                hint="Use the newer folder. To send what only this one has, give it a new id with aioprod spool verify "
                "FOLDER --new-id.",
            )
        self._check_name(position, group.name)
        self._enter(segment)
        self._cursor = _Cursor(segment, group.at, group.base)
        whole = self._group_here()
        if whole is not None and whole.size:
            self._take(whole, number - group.base + 1, ColumnRows())
        else:
            self._cursor = _Cursor(segment, group.end, group.next)

    def _check_name(self, position: Position, name: bytes) -> None:
        if position.name != name:
            raise MarkerError(
                f"Record number {position.number} of this spool is not the one that is in Kafka: this is a copy of a "
                "folder, and both were written to.",
                hint="To send what only this one has, give it a new id with aioprod spool verify FOLDER --new-id.",
            )
