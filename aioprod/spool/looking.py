"""What a folder has, looked at from outside: nothing is locked or changed, and processes may have it open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from aioprod.errors import SpoolError
from aioprod.spool.aside import aside_lines, positions_in
from aioprod.spool.entries import EntryReader
from aioprod.spool.files import READER, WRITER, Files, FolderFiles, is_locked
from aioprod.spool.inspection import Kind, description_of, list_segments, walk
from aioprod.spool.layout import SUFFIX, file_name, seed_of
from aioprod.spool.notes import DELIVERED, noted_number, read_id
from aioprod.spool.reading import Position, number_of
from aioprod.spool.segments import Segments, end_of, read_groups
from aioprod.spool.storage import unusable
from aioprod.types import ProducerRecord

__all__ = ["Status", "files_of", "records_of", "status_of"]


class Status(NamedTuple):
    """A folder as it is now, as far as it knows itself."""

    spool_id: str
    kept_records: int
    """Those that are not known to be in Kafka, without what was set aside. What leaves is noted now and then."""
    first_number: int | None
    """That of the oldest of them; None without one."""
    last_number: int
    """That of the last record that was written, 0 without one."""
    oldest_timestamp: int | None
    """The timestamp of the oldest one, in milliseconds; None where there is none, or it can't be read."""
    segments: int
    bytes: int
    """The size of all segments."""
    set_aside_records: int
    is_written: bool
    """Whether a process has it open to write."""
    is_relayed: bool
    """Whether a process has it open to bring its records to Kafka."""


def files_of(folder: Path) -> FolderFiles:
    """The files of a folder that is there; raises SpoolError."""
    try:
        if not folder.is_dir():
            raise SpoolError(f"There is no folder {folder}.", hint="Give the folder of a spool.")
        return FolderFiles(folder)
    except OSError as error:
        raise unusable(str(folder), error) from error


def status_of(files: Files, folder: Path) -> Status:
    """Look at a folder; raises SpoolError where it is no spool, or its last segment can't be read."""
    identity = read_id(files, str(folder))
    segments = Segments(files, identity.spool_id)
    segments.list()
    last = delivered = noted_number(files, DELIVERED, identity.begin - 1)
    dropped = 0
    if segments.heads:
        tail = segments.heads[-1]
        groups = read_groups(files, file_name(tail.base), tail, segments.seed)
        last = end_of(tail, groups)[1] - 1
        dropped = sum(group.records for group in groups if not group.size and group.base > delivered)
    aside = positions_in(aside_lines(files))
    waiting = sum(delivered < number_of(position) <= last for position in aside)
    kept = max(last - delivered - waiting - dropped, 0)
    first = None
    with suppress(SpoolError):  # What it has is known all the same; `verify` says what is damaged.
        first = next(records_of(files, str(folder)), None) if kept else None
    sizes = [size for name, size in files.sizes().items() if name.endswith(SUFFIX)]
    return Status(
        identity.spool_id.hex(),
        kept,
        None if first is None else number_of(first[1]),
        last,
        None if first is None or not isinstance(first[0].timestamp, int) else first[0].timestamp,
        len(sizes),
        sum(sizes),
        len(aside),
        is_locked(folder, WRITER),
        is_locked(folder, READER),
    )


def records_of(files: Files, folder: str, *, is_all: bool = False) -> Iterator[tuple[ProducerRecord, bytes]]:
    """The kept records and their positions, in order; `is_all`: also what is there of others.

    Raises SpoolError at a part that is damaged.
    """
    identity = read_id(files, folder)
    reader = EntryReader(seed_of(identity.spool_id))
    delivered = 0 if is_all else noted_number(files, DELIVERED, identity.begin - 1)
    aside = set() if is_all else positions_in(aside_lines(files))
    segments = list_segments(files, [identity.spool_id])
    kept_in = [one for one in segments if one.following is None or one.following > delivered + 1]
    for segment, part in walk(files, kept_in, delivered):
        if part.kind is Kind.DAMAGED and part.next > delivered:
            raise SpoolError(
                description_of(segment, part),
                hint="aioprod spool verify FOLDER says what else is damaged, and what to do.",
            )
        if part.kind is not Kind.WHOLE or not part.data:
            continue
        rows = reader.read_all(part.data, 0, len(part.data), part.records)
        for index in range(part.records):
            number = part.base + index
            position = Position(number, part.name).to_bytes()
            if number > delivered and position not in aside:
                yield rows.record(index), position
