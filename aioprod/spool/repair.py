"""Writing segments again: without what can't be read, or as those of another spool.

Both need the locks of the folder. A crash leaves each segment as it was, or as it will be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from aioprod.errors import SpoolError
from aioprod.spool.entries import reseeded
from aioprod.spool.files import TEMPORARY, Files, put, replace
from aioprod.spool.inspection import Kind, Part, SegmentFile, description_of, list_segments, parts_of
from aioprod.spool.layout import NO_NAME, Group, Segment, group_header, seed_of, segment_header
from aioprod.spool.notes import DELIVERED, ID, NEW_ID, Identity, identity_in, read_id

__all__ = ["drop_damaged", "give_new_id", "owners_of"]

_DAMAGED: Final = ".damaged"
"""The suffix of the file that a segment was before a part of it was dropped."""
_CHUNK: Final = 1 << 20


def owners_of(files: Files, folder: str) -> list[bytes]:
    """The ids that segments of a folder may have: its own, and the one that it is being given. Raises SpoolError."""
    if NEW_ID not in files.sizes():
        return [read_id(files, folder).spool_id]
    return [identity_in(files, name, folder).spool_id for name in (ID, NEW_ID)]


def drop_damaged(files: Files, folder: str) -> Iterator[tuple[SegmentFile, Part]]:
    """Write damaged segments again with the records that can be read; yields the parts that are dropped.

    Records keep their numbers and the names of their groups. What a segment was is kept beside it.
    """
    previous = NO_NAME
    for segment in list_segments(files, owners_of(files, folder)):
        parts = [part._replace(data=b"") for part in parts_of(files, segment)]
        damaged = [part for part in parts if part.kind is Kind.DAMAGED]
        if damaged:
            _keep_beside(files, segment.name)
            head = Segment(segment.head.base, previous) if segment.is_header_damaged else segment.head
            _write(files, segment, head, segment.owner, lambda data: data)
            yield from ((segment, part) for part in damaged)
        previous = next((part.name for part in reversed(parts) if part.records), segment.head.previous)


def _keep_beside(files: Files, name: str) -> None:
    """Copy a segment; copies of earlier repairs stay."""
    sizes = files.sizes()
    number, copy = 1, name + _DAMAGED
    while copy in sizes:
        number += 1
        copy = f"{name}{_DAMAGED}-{number}"
    temporary = copy + TEMPORARY
    files.remove(temporary)
    for at in range(0, sizes[name], _CHUNK):
        files.write(temporary, at, files.read(name, at, _CHUNK))
    put(files, temporary, copy)


def give_new_id(files: Files, folder: str, random_bytes: Callable[[int], bytes]) -> Identity:
    """Make a folder a spool of its own, whose records were not sent. Raises SpoolError for a damaged one.

    After a crash `read_id` raises, and a second call completes what the first one has begun.
    """
    segments = list_segments(files, owners_of(files, folder))
    _check_whole(files, segments)
    if NEW_ID not in files.sizes():
        begin = segments[0].head.base if segments else 1
        replace(files, NEW_ID, Identity(random_bytes(16), begin).to_bytes())
    identity = identity_in(files, NEW_ID, folder)
    if identity != identity_in(files, ID, folder):
        seed = seed_of(identity.spool_id)
        for segment in segments:
            if segment.owner != identity.spool_id:
                _write(files, segment, segment.head, identity.spool_id, lambda data: reseeded(data, seed))
        files.remove(DELIVERED)
        replace(files, ID, identity.to_bytes())
    files.remove(NEW_ID)
    files.sync_names()
    return identity


def _check_whole(files: Files, segments: Sequence[SegmentFile]) -> None:
    for segment in segments:
        for part in parts_of(files, segment):
            if part.kind is Kind.DAMAGED:
                raise SpoolError(
                    description_of(segment, part), hint="Drop what can't be read: --give-up-damaged --new-id."
                )


def _write(
    files: Files, segment: SegmentFile, head: Segment, spool_id: bytes, encoded: Callable[[bytes], bytes]
) -> None:
    """Write a segment again, as one of a spool; `encoded` makes its records those of that spool."""
    temporary = segment.name + TEMPORARY
    files.remove(temporary)
    at = 0
    for data in _contents(parts_of(files, segment), head, spool_id, encoded):
        files.write(temporary, at, data)
        at += len(data)
    put(files, temporary, segment.name)


def _contents(
    parts: Iterable[Part], head: Segment, spool_id: bytes, encoded: Callable[[bytes], bytes]
) -> Iterator[bytes]:
    seed = seed_of(spool_id)
    yield segment_header(spool_id, head)
    for part in parts:
        if part.kind is Kind.WHOLE or (part.kind is Kind.DAMAGED and part.records):
            data = encoded(part.data)
            yield group_header(Group(0, part.base, part.records, len(data), part.name), seed) + data
