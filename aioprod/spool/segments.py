"""The segments of a folder: which there are, what a crash has left of the last one, and which may go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.errors import CorruptRecordError, SpoolError
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

__all__ = ["Segments", "Tail", "end_of", "read_groups"]

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

    @property
    def has_records(self) -> bool:
        """Whether the file has any: one that has only a seal would be followed by one of the same name."""
        return self.name != file_name(self.number)


class Segments:
    """The segments that a folder has, the first one first."""

    def __init__(self, files: Files, spool_id: bytes) -> None:
        self._files = files
        self.spool_id: Final = spool_id
        self.seed: Final = seed_of(spool_id)
        self.heads: list[Segment] = []
        """A new list with each change: a thread may look while another one lists, begins or removes segments."""
        self._changing = Lock()

    def list(self) -> None:
        """Read the headers of segments that are new, and forget those that are gone. Raises SpoolError, OSError."""
        with self._changing:
            known = {file_name(head.base): head for head in self.heads}
            found = []
            for name in sorted(self._files.sizes()):
                if name.endswith(SUFFIX):
                    head = known.get(name)
                    with suppress(FileNotFoundError):  # The process that relays has removed it.
                        head = head or read_segment(name, self._files.read(name, 0, SEGMENT_BYTES), self.spool_id)
                        found.append(head)
            self.heads = found

    def begin(self, segment: Segment) -> None:
        """Create a segment behind the last one."""
        with self._changing:
            self._create(segment)
            self.heads = [*self.heads, segment]

    def _create(self, segment: Segment) -> None:
        replace(self._files, file_name(segment.base), segment_header(self.spool_id, segment))

    def of(self, number: int) -> Segment:
        """The segment in which this number would be."""
        heads = self.heads
        at = bisect_right(heads, number, key=lambda head: head.base)
        return heads[max(at - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """The segment behind this one."""
        heads = self.heads
        at = bisect_right(heads, segment.base, key=lambda head: head.base)
        return heads[at] if at < len(heads) else None

    def trim(self, number: int, last: str | None) -> None:
        """Remove the segments that have only records up to this number, but for the last one.

        `last` is the file of the last one whose name is on the disk: one behind it may not be there after a power cut.
        None where another process writes, which is not known here.
        """
        with self._changing:
            while len(self.heads) > 1 and self.heads[1].base <= number + 1:
                if last is not None and file_name(self.heads[1].base) > last:
                    break
                self._files.remove(file_name(self.heads[0].base))
                self.heads = self.heads[1:]

    def check(self, known: int) -> None:
        """Raise SpoolError unless there is the number `known`, if the last segment can say it."""
        if self.heads:
            segment = self.heads[-1]
            _, number = end_of(segment, read_groups(self._files, file_name(segment.base), segment, self.seed))
            _check_end(number, known)
        else:
            _check_end(1, known)

    def recover(self, known: int) -> Tail:
        """Cut what a crash has left of a group, and find the end. Creates the first segment.

        The last whole group is written again: the system may have failed to write it, and show it all the same (as
        PostgreSQL learned of Linux in 2018). Raises SpoolError where a group is damaged, not torn, and where the number
        `known`, which was on the disk once, is not there.
        """
        for name in self._files.sizes():
            if name.endswith(SUFFIX + TEMPORARY):
                self._files.remove(name)
        if not self.heads:
            _check_end(1, known)
            self.begin(Segment(1, NO_NAME))
        segment = self.heads[-1]
        name = file_name(segment.base)
        size = self._files.sizes()[name]
        groups = read_groups(self._files, name, segment, self.seed)
        if groups and not self._is_rewritten(name, groups[-1]):
            groups.pop()
        end, number = end_of(segment, groups)
        if end < size:
            self._check_rest(name, end, size, number)
        _check_end(number, known)
        if end < size:
            self._cut(name, end, size, number)
        if not groups:  # As for the last group: its name may not be on the disk.
            self._create(segment)
        names = [group.name for group in groups if group.records]
        return Tail(name, end, number, names[-1] if names else segment.previous)

    def _is_rewritten(self, name: str, group: Group) -> bool:
        """Write the last group again; False if it is not whole."""
        data = self._files.read(name, group.at, GROUP_BYTES + group.size)
        try:
            EntryReader(self.seed).read_all(data, GROUP_BYTES, len(data), group.records if group.size else 0)
        except CorruptRecordError:
            return False
        self._files.write(name, group.at, data)
        self._files.sync(name)
        return True

    def _check_rest(self, name: str, end: int, size: int, number: int) -> None:
        """Raise SpoolError where a group follows what is not whole."""
        rest = self._files.read(name, end, size - end)
        later = next((group for group in find_groups(rest, self.seed) if group.base > number), None)
        if later is not None:
            raise SpoolError(
                f"The segment {name} is damaged at byte {end}: the records from number {number} on can't be read, and "
                f"number {later.base} follows at byte {end + later.at}.",
                hint="See which records these are with aioprod spool verify FOLDER; nothing was changed.",
            )

    def _cut(self, name: str, end: int, size: int, number: int) -> None:
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


def _check_end(number: int, known: int) -> None:
    if number <= known:
        raise SpoolError(
            f"The spool ends with record number {number - 1}, and number {known} was on the disk: a segment was cut or "
            "damaged, or is missing.",
            hint="Was the folder copied in part? See what is missing with aioprod spool verify FOLDER; nothing was "
            "changed.",
        )


def end_of(segment: Segment, groups: Sequence[Group]) -> tuple[int, int]:
    """Where a segment with these groups ends, and the number of the record that would follow."""
    return (groups[-1].end, groups[-1].next) if groups else (SEGMENT_BYTES, segment.base)


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
