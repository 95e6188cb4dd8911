"""The segments of a folder: which there are, what a crash has left of the last one, and which may go."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.errors import CorruptRecordError, SpoolError
from aioprod.relay.columns import ColumnRows
from aioprod.spool.entries import EntryReader
from aioprod.spool.files import TEMPORARY, Files, replace
from aioprod.spool.layout import (
    GROUP_BYTES,
    NO_NAME,
    SEGMENT_BYTES,
    SUFFIX,
    Group,
    Segment,
    file_name,
    find_groups,
    read_group,
    read_segment,
    seed_of,
    segment_header,
)

__all__ = ["Segments", "Tail", "create_segment", "read_groups"]

_logger = Logger("aioprod.spool")


class Tail(NamedTuple):
    """Where the next group goes."""

    name: str
    """The file."""
    at: int
    number: int
    """That of the next record."""
    previous: bytes
    """The name of the last group with records."""


class Segments:
    """The segments that a folder has, the first one first; `sizes` is what they had when they were listed."""

    def __init__(self, files: Files, spool_id: bytes) -> None:
        self._files = files
        self.spool_id: Final = spool_id
        self.seed: Final = seed_of(spool_id)
        self.heads: list[Segment] = []

    def list(self) -> None:
        """Read the headers of segments that are new, and forget those that are gone. Raises SpoolError, OSError."""
        known = {file_name(head.base): head for head in self.heads}
        self.heads = [
            known.get(name) or read_segment(name, self._files.read(name, 0, SEGMENT_BYTES), self.spool_id)
            for name in sorted(self._files.sizes())
            if name.endswith(SUFFIX)
        ]

    def of(self, number: int) -> Segment:
        """The segment in which this number would be."""
        at = bisect_right(self.heads, number, key=lambda head: head.base)
        return self.heads[max(at - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """The segment behind this one."""
        at = bisect_right(self.heads, segment.base, key=lambda head: head.base)
        return self.heads[at] if at < len(self.heads) else None

    def trim(self, number: int) -> int:
        """Remove the segments that have only records up to this number, but for the last one; returns their bytes."""
        freed = 0
        sizes = self._files.sizes()
        while len(self.heads) > 1 and self.heads[1].base <= number + 1:
            name = file_name(self.heads.pop(0).base)
            self._files.remove(name)
            freed += sizes.get(name, 0)
        return freed

    def check(self, known: int) -> None:
        """Raise SpoolError unless there are segments, the last of which ends with this number or a later one."""
        if not self.heads:
            raise SpoolError(
                "The folder of the spool has no segments.",
                hint="Was it copied in part? What writes to a new one has to be started first.",
            )
        segment = self.heads[-1]
        groups = read_groups(self._files, file_name(segment.base), segment, self.seed)
        last = (groups[-1].next if groups else segment.base) - 1
        if last < known:
            raise _cut_short(last, known)

    def recover(self, known: int) -> Tail:
        """Cut what a crash has left of a group, and find the end. Creates the first segment.

        The last whole group is written again: the system may have failed to write it, and show it all the same (as
        PostgreSQL learned of Linux in 2018). Raises SpoolError where a group is damaged, not torn, and where the spool
        does not have the number `known`.
        """
        for name in self._files.sizes():
            if name.endswith(SUFFIX + TEMPORARY):
                self._files.remove(name)
        if not self.heads:
            if known:
                raise _cut_short(0, known)
            self.heads.append(create_segment(self._files, self.spool_id, Segment(1, NO_NAME)))
        segment = self.heads[-1]
        name = file_name(segment.base)
        size = self._files.sizes()[name]
        groups = read_groups(self._files, name, segment, self.seed)
        end = groups[-1].end if groups else SEGMENT_BYTES
        last = groups[-1] if groups else None
        if last is not None and self._rewritten(name, last) is None:
            groups.pop()
            end = last.at
        number = groups[-1].next if groups else segment.base
        if end < size:
            self._cut(name, end, size, number, known)
        if number <= known:
            raise _cut_short(number - 1, known)
        if not groups:  # As for the last group: its name may not be on the disk.
            create_segment(self._files, self.spool_id, segment)
        names = [group.name for group in groups if group.records]
        return Tail(name, end, number, names[-1] if names else segment.previous)

    def _rewritten(self, name: str, group: Group) -> Group | None:
        """Write the last group again; None if it is not whole."""
        data = self._files.read(name, group.at, GROUP_BYTES + group.size)
        try:
            end = EntryReader(self.seed).read(
                data, GROUP_BYTES, len(data), group.records if group.size else 0, ColumnRows()
            )
        except CorruptRecordError:
            return None
        if end != len(data):
            return None
        self._files.write(name, group.at, data)
        self._files.sync(name)
        return group

    def _cut(self, name: str, end: int, size: int, number: int, known: int) -> None:
        rest = self._files.read(name, end, size - end)
        later = next((group for group in find_groups(rest, self.seed) if group.base > number), None)
        if later is not None:
            raise SpoolError(
                f"The segment {name} is damaged at byte {end}: the records from number {number} on can't be read, and "
                f"number {later.base} follows at byte {end + later.at}.",
                hint="See which records these are with aioprod spool verify FOLDER; nothing was changed.",
            )
        if number <= known:
            raise _cut_short(number - 1, known)
        _logger.warning(
            "The segment %s ends within a write that was cut off by a crash: %s from byte %d on are dropped. No call "
            "has been answered for their records; the next one is number %d.",
            name,
            counted(size - end, "byte"),
            end,
            number,
        )
        self._files.truncate(name, end)
        self._files.sync(name)


def _cut_short(last: int, known: int) -> SpoolError:
    return SpoolError(
        f"The spool ends with record number {last}, and number {known} was on the disk: a segment was cut or damaged, "
        "or is missing.",
        hint="Was the folder copied in part? Nothing was changed.",
    )


def create_segment(files: Files, spool_id: bytes, segment: Segment) -> Segment:
    """Create a segment without groups."""
    replace(files, file_name(segment.base), segment_header(spool_id, segment))
    return segment


def read_groups(files: Files, name: str, segment: Segment, seed: int) -> list[Group]:
    """The groups of a segment up to the first one whose header is not what has to follow, without their records."""
    found: list[Group] = []
    at, number = SEGMENT_BYTES, segment.base
    size = files.sizes()[name]
    data, begin = b"", at
    while at + GROUP_BYTES <= size:
        if at + GROUP_BYTES > begin + len(data):
            data, begin = files.read(name, at, _CHUNK), at
        group = read_group(data, at - begin, seed, begin)
        if group is None or group.base != number or group.end > size:
            break
        found.append(group)
        at, number = group.end, group.next
    return found


_CHUNK: Final = 1 << 16
