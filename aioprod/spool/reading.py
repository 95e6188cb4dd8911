"""Reading the records of a spool in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from aioprod._short_reprs import shown
from aioprod.errors import AioprodError, CorruptRecordError, MarkerError, SpoolError
from aioprod.relay.columns import ColumnRows
from aioprod.spool.entries import EntryReader
from aioprod.spool.files import Files
from aioprod.spool.layout import (
    GROUP_BYTES,
    NAME_BYTES,
    NO_NAME,
    SEGMENT_BYTES,
    Group,
    Segment,
    file_name,
    find_groups,
    read_group,
)
from aioprod.spool.segments import Segments, end_of, read_groups

__all__ = ["Position", "SpoolReader", "number_of"]

_CHUNK: Final = 1 << 20
_BYTES_MAX: Final = 8 << 20
"""The bytes of files after which a read returns what it has."""
_POSITION: Final = re.compile(rb"([0-9]{1,20})\.([0-9a-f]{%d})" % (2 * NAME_BYTES))


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


def number_of(position: bytes) -> int:
    """The number of the record at a position, read in less time; raises ValueError for what is none."""
    return int(position.partition(b".")[0])


class _Cursor(NamedTuple):
    """What is read next."""

    segment: Segment
    at: int
    """Where its group begins."""
    number: int
    name: bytes
    """That of the group before it; NO_NAME where it is not known."""
    entry_at: int = 0
    """Where its record begins; 0 for the first one of the group."""


class SpoolReader:
    """Reads the groups of a folder one after the other.

    `delivered` says up to which number records are known to be delivered, and `begin` is the spool's first number.
    `end` says which number is not on the disk yet. It is None where another process writes: then what is found is
    synced by this one before it is returned, so that nothing is sent that a power cut could take back; and a last group
    that is not whole is one that is being written, or was cut off by a crash.
    """

    def __init__(
        self,
        files: Files,
        segments: Segments,
        end: Callable[[], int] | None,
        delivered: Callable[[], int],
        begin: int = 1,
    ) -> None:
        self._files = files
        self._segments = segments
        self._end = end
        self._delivered = delivered
        self._first = begin
        self._entries = EntryReader(segments.seed)
        self._after: bytes | None = None
        """The position behind which the cursor is, if `_is_placed`."""
        self._is_placed = False
        """Whether the next read may continue there."""
        self.known = 0
        """The highest number that was returned, or was found to be this spool's."""
        self._failure: SpoolError | None = None
        """Why nothing can be read until the spool is opened again."""
        self._cursor = _Cursor(Segment(0, b""), 0, 1, NO_NAME)
        self._data, self._begin = b"", 0
        """A part of the cursor's segment, and where it begins."""

    def read(self, after: bytes | None, limit: int) -> ColumnRows:
        """The records behind this position, `limit` at most; fewer where they have many bytes, or where there are none.

        Raises MarkerError where the position is none of this spool's, or where what follows it was removed; SpoolError
        where a file is damaged; OSError.
        """
        if self._failure is not None:
            raise self._failure.again()
        if after != self._after or not self._is_placed or not self._segments.heads:
            self._seek(after)
        self._is_placed = False  # Until all is well: what is raised below has the next call begin at its position.
        rows = ColumnRows()
        touched: set[str] = set()
        try:
            while len(rows) < limit and rows.size < _BYTES_MAX and self._take_next(limit - len(rows), rows):
                touched.add(file_name(self._cursor.segment.base))
        except SpoolError:
            if not rows:  # What is before the damage comes first.
                raise
        if self._end is None:
            self._sync(touched)
        self._after, self._is_placed = rows.position(-1) if rows else after, True
        self.known = max(self.known, self.passed)
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

    @property
    def passed(self) -> int:
        """The number up to which all records were returned, or can't be: an operator has dropped them."""
        return self._cursor.number - 1

    # --- groups

    def _take_next(self, limit: int, rows: ColumnRows) -> bool:
        """Add the next records of one group, `limit` at most; False where there are none yet."""
        before = len(rows)
        while self._segments.heads and (self._end is None or self._cursor.number < self._end()):
            following = self._segments.after(self._cursor.segment)
            try:
                is_there = self._take_here(limit, rows)
            except CorruptRecordError:
                if following is None and self._end is None and not self._is_followed():
                    self._data = b""
                    return False
                is_there = self._take_again(limit, rows)
            if len(rows) > before:
                return True
            if not is_there and not self._leave(following):
                return False
        return False

    def _leave(self, following: Segment | None) -> bool:
        """At the end of a segment, which is complete if another one followed before it was looked at: enter that."""
        if following is None:
            self._segments.list()
            if self._is_last():
                if self._end is None:
                    return False
                raise self._damaged(f"it ends at byte {self._cursor.at}")
        elif following.base != self._cursor.number:
            raise self._damaged(f"it ends at byte {self._cursor.at}, and the next one begins with {following.base}")
        elif NO_NAME not in (self._cursor.name, following.previous) and self._cursor.name != following.previous:
            raise self._damaged(f"or {file_name(following.base)}, which was not written after it")
        else:
            self._files.done(file_name(self._cursor.segment.base))
            self._enter(following)
        return True

    def _take_here(self, limit: int, rows: ColumnRows) -> bool:
        """Add records of the group here, and go behind them; False at the end of the file; or CorruptRecordError."""
        segment, at, number, previous, entry_at = self._cursor
        name = file_name(segment.base)
        if not self._has(at, GROUP_BYTES):
            self._load(name, at, _CHUNK)
        group = read_group(self._data, at - self._begin, self._segments.seed, self._begin)
        if group is None or not self._has(at, group.end - at):
            size = _CHUNK if group is None else group.end - at
            self._load(name, at, max(size, _CHUNK))
            group = read_group(self._data, 0, self._segments.seed, at)
        if group is None or not self._has(at, group.end - at):
            if not self._data:
                return False
            raise CorruptRecordError(f"its group at byte {at} is not whole")
        if group.base != number and not entry_at:
            raise CorruptRecordError(f"its group at byte {at} begins with number {group.base}")
        if group.size:
            self._take(group, limit, rows)
        else:
            # Of records that were dropped the name may not be known.
            self._cursor = _Cursor(segment, group.end, group.next, NO_NAME if group.records else previous)
        return True

    def _take(self, group: Group, limit: int, rows: ColumnRows) -> None:
        """Add the next records of a group that has some, and move the cursor behind them."""
        segment, at, number, previous, entry_at = self._cursor
        before = len(rows)
        begin = (entry_at or at + GROUP_BYTES) - self._begin
        end = group.end - self._begin
        following = min(number + limit, group.next)
        try:
            if self._end is None and following < group.next and not entry_at:
                self._entries.read_all(self._data, begin, end, group.records)  # It may be torn behind these records.
            stop = self._entries.read(self._data, begin, end, following - number, rows)
            if following == group.next and stop != end:
                raise CorruptRecordError(f"{end - stop} bytes follow the last record")
        except CorruptRecordError as error:
            rows.cut(before)
            raise CorruptRecordError(f"in its group at byte {at} {error.message}") from None
        if following < group.next:
            self._cursor = _Cursor(segment, at, following, previous, self._begin + stop)
        else:
            self._cursor = _Cursor(segment, group.end, following, group.name)
        rows.numbers.extend(range(number, following))
        rows.names.extend([b"." + group.name.hex().encode()] * (following - number))
        rows.size += stop - begin

    def _take_again(self, limit: int, rows: ColumnRows) -> bool:
        """The same, of a group that is complete by now: it was being written when it was read before, or is damaged."""
        self._data = b""
        try:
            return self._take_here(limit, rows)
        except CorruptRecordError as error:
            raise self._damaged(error.message) from None

    def _is_followed(self) -> bool:
        """Whether something was written behind the group here, as is done when it is on the disk."""
        self._segments.list()
        if not self._is_last():
            return True
        segment, at, number = self._cursor[:3]
        name = file_name(segment.base)
        rest = self._files.read(name, at, self._files.sizes().get(name, at) - at)
        return any(group.base > number for group in find_groups(rest, self._segments.seed))

    def _has(self, at: int, size: int) -> bool:
        return self._begin <= at and at + size <= self._begin + len(self._data)

    def _load(self, name: str, at: int, size: int) -> None:
        try:
            self._data = self._files.read(name, at, size)
        except FileNotFoundError:  # It was read to its end, and removed.
            self._data = b""
        self._begin = at

    def _is_last(self) -> bool:
        return self._segments.after(self._cursor.segment) is None

    def _damaged(self, how: str) -> SpoolError:
        return SpoolError(
            f"The segment {file_name(self._cursor.segment.base)} is damaged, {how}: the records from number "
            f"{self._cursor.number} on can't be read.",
            hint="See which records these are with aioprod spool verify FOLDER; nothing behind them was sent.",
        )

    # --- places

    def _enter(self, segment: Segment) -> None:
        self._cursor = _Cursor(segment, SEGMENT_BYTES, segment.base, segment.previous)
        self._data, self._begin = b"", 0

    def _seek(self, after: bytes | None) -> None:
        """Continue behind this position."""
        self._segments.list()
        heads = self._segments.heads
        if after is None:
            delivered = max(heads[0].base - 1 if heads else 0, self._delivered())
            if delivered >= self._first:
                raise MarkerError(
                    f"The records of this spool up to number {delivered} were delivered, and the marker in Kafka that "
                    "says so is gone.",
                    hint="See which record was sent last, and set the marker; or give the folder a new id with aioprod "
                    "spool verify FOLDER --new-id, which sends what it still has.",
                )
            if heads:
                self._enter(heads[0])
        else:
            self._seek_record(Position.of(after))

    def _seek_record(self, position: Position) -> None:
        number = position.number
        heads = self._segments.heads
        if not heads or number < heads[0].base - 1:
            begins = f"begins with number {heads[0].base}: those between were removed" if heads else "has no segment"
            raise MarkerError(
                f"Records up to number {number} are in Kafka, and this spool {begins}.",
                hint="Was the marker set to an earlier position, or is this the folder of another one?",
            )
        following = self._segments.of(number + 1)
        if following.base == number + 1:  # The segment before it may be gone, also where a crash has left earlier ones.
            self._check_name(position, following.previous)
            self._enter(following)
            return
        segment = self._segments.of(number)
        groups = read_groups(self._files, file_name(segment.base), segment, self._segments.seed)
        group = next((group for group in groups if group.base <= number < group.next), None)
        if group is None or (self._end is not None and number >= self._end()):
            raise self._gone(position, segment, groups)
        self._check_name(position, group.name)
        self._enter(segment)
        if number + 1 == group.next:  # What is delivered need not be readable.
            self._cursor = _Cursor(segment, group.end, group.next, group.name if group.size else NO_NAME)
        else:
            self._cursor = _Cursor(segment, group.at, group.base, NO_NAME)
            self._take_again(number - group.base + 1, ColumnRows())

    def _gone(self, position: Position, segment: Segment, groups: Sequence[Group]) -> AioprodError:
        """Why a record that is in Kafka is not in the segment that should have it."""
        end, number = end_of(segment, groups)
        self._cursor = _Cursor(segment, end, number, NO_NAME)
        if self._is_followed():
            return self._damaged(f"its group at byte {end} is not whole")
        return MarkerError(
            f"Records up to number {position.number} are in Kafka, and this spool ends with number {number - 1}: it is "
            "an older copy of a folder that was used on.",
            hint="Use the newer folder. To send what only this one has, give it a new id with aioprod spool verify "
            "FOLDER --new-id.",
        )

    def _check_name(self, position: Position, name: bytes) -> None:
        if name not in (position.name, NO_NAME):  # NO_NAME: an operator has dropped the group that had it.
            raise MarkerError(
                f"Record number {position.number} of this spool is not the one that is in Kafka: this is a copy of a "
                "folder, and both were written to.",
                hint="To send what only this one has, give it a new id with aioprod spool verify FOLDER --new-id.",
            )
