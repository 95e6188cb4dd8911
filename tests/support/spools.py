"""Spools on simulated disks, and on folders."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

from aioprod import ProducerRecord
from aioprod.spool import Spool
from tests.support.simulated_disk import Disk, SimulatedFiles, storage_of

__all__ = ["all_rows", "all_values", "filled", "numbered", "opened", "segments_of"]


@asynccontextmanager
async def opened(
    disk: Disk | SimulatedFiles, *, max_bytes: int = 1 << 20, segment_bytes: int | None = None
) -> AsyncIterator[Spool]:
    """An open spool on a disk; a process of its own has it unless files are given."""
    files = disk if isinstance(disk, SimulatedFiles) else SimulatedFiles(disk)
    spool = Spool("folder", max_bytes=max_bytes, segment_bytes=segment_bytes)
    await spool._start_in(storage_of(files))
    try:
        yield spool
    finally:
        await spool.close()


def numbered(count: int, first: int = 0) -> list[ProducerRecord]:
    """Records with numbers as values."""
    return [ProducerRecord("t", b"%d" % number) for number in range(first, first + count)]


async def filled(count: int, *, segment_bytes: int | None = None) -> Disk:
    """A disk with a spool that has so many records, in a group each, and was closed."""
    disk = Disk(Random(count))
    async with opened(disk, segment_bytes=segment_bytes) as spool:
        for record in numbered(count):
            await spool.append(record)
    return disk


async def all_rows(
    spool: Spool, after: bytes | None = None, limit: int = 100
) -> Sequence[tuple[ProducerRecord, bytes]]:
    """All that follow a position."""
    rows: list[tuple[ProducerRecord, bytes]] = []
    while found := await spool.read(rows[-1][1] if rows else after, limit):
        rows += found
    return rows


async def all_values(spool: Spool, after: bytes | None = None, limit: int = 100) -> list[object]:
    """The values of all that follow a position."""
    return [record.value for record, _ in await all_rows(spool, after, limit)]


def segments_of(disk: Disk) -> list[str]:
    """The names of the segments."""
    return sorted(name for name in disk.names if name.endswith(".spool"))
