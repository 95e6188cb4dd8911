"""What the segments of a folder have, part by part: whole groups, and what can't be read between them.

It locks nothing and changes nothing, so it also works while processes have the folder open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from aioprod._words import counted
from aioprod.errors import CorruptRecordError, SpoolError
from aioprod.spool.entries import EntryReader, entry_end
from aioprod.spool.files import Files
from aioprod.spool.layout import (
    GROUP_BYTES,
    NO_NAME,
    SEGMENT_BYTES,
    SUFFIX,
    Group,
    Segment,
    file_name,
    find_groups,
    of_another_spool,
    read_group,
    read_header,
    seed_of,
)
from aioprod.spool.notes import END, noted_number

__all__ = ["Kind", "Part", "SegmentFile", "description_of", "list_segments", "parts_of", "walk"]


class Kind(Enum):
    """What a part of a segment is."""

    WHOLE = "whole"
    """A group, or those of its records that can be read."""
    DAMAGED = "damaged"
    TORN = "torn"
    """What a write has left that is not complete, or was cut off by a crash: no call was answered for it."""


class Part(NamedTuple):
    """A part of a segment."""

    kind: Kind
    at: int
    """Where it begins."""
    end: int
    """Where the next one does."""
    base: int
    """The number of its first record."""
    records: int
    name: bytes
    """That of the group."""
    data: bytes = b""
    """The encoded records; none for those that an operator has dropped."""
    why: str = ""
    """What is wrong with it."""

    @property
    def next(self) -> int:
        """The number of the record after it."""
        return self.base + self.records


class SegmentFile(NamedTuple):
    """A segment as it was found."""

    name: str
    owner: bytes
    """The id of its spool."""
    head: Segment
    is_header_damaged: bool
    following: int | None
    """The first number of the next segment; None for the last one."""
    known: int
    """The last number that was on the disk when the folder was closed, 0 where that is not known."""


def list_segments(files: Files, owners: Sequence[bytes]) -> list[SegmentFile]:
    """The segments of a folder, which belong to one of these spools.

    Raises SpoolError for one of another spool, of a later version, or with a name that no segment has.
    """
    names = sorted(name for name in files.sizes() if name.endswith(SUFFIX))
    bases = []
    for name in names:
        number = name.removesuffix(SUFFIX)
        if not (number.isascii() and number.isdigit() and name == file_name(int(number))):
            raise SpoolError(f"The file {name!r} has not the name of a segment.", hint="Move it out of the folder.")
        bases.append(int(number))
    found = []
    known = noted_number(files, END)
    for name, base, following in zip(names, bases, [*bases[1:], None], strict=True):
        header = read_header(name, files.read(name, 0, SEGMENT_BYTES))
        if header is None:
            owner = _owner_by_groups(files, name, owners)
            found.append(SegmentFile(name, owner, Segment(base, NO_NAME), True, following, known))
            continue
        owner, head = header
        if owner not in owners:
            raise of_another_spool(name, owner, owners[0])
        found.append(SegmentFile(name, owner, head, False, following, known))
    return found


def _owner_by_groups(files: Files, name: str, owners: Sequence[bytes]) -> bytes:
    """Whose checksums a segment has that does not say it."""
    data = files.read(name, 0, files.sizes()[name])
    return next((owner for owner in owners if any(find_groups(data, seed_of(owner)))), owners[0])


def walk(files: Files, segments: Sequence[SegmentFile], after: int = 0) -> Iterator[tuple[SegmentFile, Part]]:
    """The parts of segments, in order; segments that were delivered and removed meanwhile are passed over."""
    for segment in segments:
        try:
            for part in parts_of(files, segment, after):
                yield segment, part
        except FileNotFoundError:
            continue


def parts_of(files: Files, segment: SegmentFile, after: int = 0) -> Iterator[Part]:
    """The parts of a segment, without groups up to the number `after`, whose records are not read.

    Raises SpoolError where its numbers are also those of the next one, and OSError.
    """
    name, _, head, is_header_damaged, following, known = segment
    seed = seed_of(segment.owner)
    size = _size_of(files, name)
    at, number = min(SEGMENT_BYTES, size), head.base
    if is_header_damaged:
        yield Part(Kind.DAMAGED, 0, at, number, 0, NO_NAME, why="its header is not whole")
    while at < size:
        group = read_group(files.read(name, at, GROUP_BYTES), 0, seed, at)
        if group is not None and group.base == number and group.end <= size:
            if group.next <= after + 1:
                at, number = group.end, group.next
                continue
            parts = _parts_of_group(files, name, group, size, seed, is_last=following is None and group.base > known)
        else:
            parts = [_unreadable(files, segment, at, number, size)]
        yield from parts
        at, number = parts[-1].end, parts[-1].next
        if parts[-1].kind is Kind.TORN:
            return
        if following is not None and number > following:
            raise SpoolError(
                f"The segment {name} has records up to number {number - 1}, and the next one begins with number "
                f"{following}: the files of two copies of a folder were mixed.",
                hint="Take all files from one of them.",
            )
    if following is not None and number < following:
        why = "the records that follow are in no file"
        yield Part(Kind.DAMAGED, size, size, number, following - number, NO_NAME, why=why)
    elif following is None and number <= known:
        why = "what follows was on the disk when the folder was closed"
        yield Part(Kind.DAMAGED, size, size, number, known + 1 - number, NO_NAME, why=why)


def _size_of(files: Files, name: str) -> int:
    """The bytes of a file; raises FileNotFoundError where it is gone."""
    size = files.sizes().get(name)
    if size is None:
        raise FileNotFoundError(name)
    return size


def _unreadable(files: Files, segment: SegmentFile, at: int, number: int, size: int) -> Part:
    """What is here up to the next group that is whole."""
    rest = files.read(segment.name, at, size - at)
    for group in find_groups(rest, seed_of(segment.owner)):
        if group.base >= number and group.end <= len(rest) and (group.at or group.base > number):
            why = "there is no whole group"
            return Part(Kind.DAMAGED, at, at + group.at, number, group.base - number, NO_NAME, why=why)
    following = segment.following
    if following is None:
        if number > segment.known:
            return Part(Kind.TORN, at, size, number, 0, NO_NAME)
        following = segment.known + 1
    why = "no whole group follows in this file"
    return Part(Kind.DAMAGED, at, size, number, max(following - number, 0), NO_NAME, why=why)


def _parts_of_group(files: Files, name: str, group: Group, size: int, seed: int, *, is_last: bool) -> list[Part]:
    """A group, whole or in parts."""
    data = files.read(name, group.at + GROUP_BYTES, group.size)
    if not group.size:
        return [Part(Kind.WHOLE, group.at, group.end, group.base, group.records, group.name)]
    try:
        EntryReader(seed).read_all(data, 0, len(data), group.records)
    except CorruptRecordError as error:
        why = error.message
    else:
        return [Part(Kind.WHOLE, group.at, group.end, group.base, group.records, group.name, data)]
    if is_last and not any(find_groups(files.read(name, group.end, size - group.end), seed)):
        return [Part(Kind.TORN, group.at, size, group.base, 0, NO_NAME)]
    first, first_end = _whole_records(data, 0, seed)
    last, last_begin = _last_records(data, first_end + 1, seed)
    if first + last >= group.records:  # Its header counts them, so these are not what they seem.
        last, last_begin = 0, len(data)
        first, first_end = (first, first_end) if first < group.records else (0, 0)
    begin = group.at + GROUP_BYTES
    lost = Part(
        Kind.DAMAGED,
        begin + first_end,
        begin + last_begin,
        group.base + first,
        group.records - first - last,
        group.name,
        why=why,
    )
    before = Part(Kind.WHOLE, group.at, lost.at, group.base, first, group.name, data[:first_end])
    after = Part(Kind.WHOLE, lost.end, group.end, lost.next, last, group.name, data[last_begin:])
    return [part for part in (before, lost, after) if part.records or part is lost]


def _whole_records(data: bytes, at: int, seed: int) -> tuple[int, int]:
    """How many whole records begin here, one behind the other, and where the last of them ends."""
    count = 0
    while (end := entry_end(data, at, seed)) is not None:
        at, count = end, count + 1
    return count, at


def _last_records(data: bytes, at: int, seed: int) -> tuple[int, int]:
    """The whole records behind a damaged one up to the end of the group: how many, and where the first begins."""
    while at < len(data):
        count, end = _whole_records(data, at, seed)
        if end == len(data):
            return count, at
        at = end + 1
    return 0, len(data)


def description_of(segment: SegmentFile, part: Part) -> str:
    """What is wrong with a part, in a sentence."""
    if part.kind is Kind.TORN:
        return (
            f"The segment {segment.name} ends with {counted(part.end - part.at, 'byte')} from byte {part.at} on of a "
            "write that is not complete, or was cut off by a crash; no call was answered for its records."
        )
    where = f"The segment {segment.name} is damaged at byte {part.at}, {part.why}"
    if not part.records:
        return f"{where}: no record is lost by that."
    lost = f"number {part.base}" if part.records == 1 else f"numbers {part.base} to {part.next - 1}"
    follows = f"; number {part.next} follows" if part.next == segment.following else ""
    if not follows and part.next != segment.known + 1:
        follows = f"; number {part.next} follows at byte {part.end}"
    return f"{where}: {counted(part.records, 'record')} can't be read, {lost}{follows}."
