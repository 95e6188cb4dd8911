"""A store that one process writes and another one reads, and callers that wait for room."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from aioprod.errors import AioprodError, BufferFullError, MarkerError, RecordTooLargeError, SpoolError
from aioprod.spool.entries import encode_entry
from aioprod.spool.layout import GROUP_BYTES
from aioprod.spool.reading import Position
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from tests.support.simulated import in_simulated_time
from tests.support.simulated_disk import Disk, SimulatedFiles, failing, run_process, storage_of
from tests.support.spools import filled, numbered, opened, segments_of

LIMITS = Limits(10_000, 1_000, 3_000)


class Outcome:
    """What became of some records."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self.error: AioprodError | None = None

    def kept(self, first: Position) -> None:
        self.position = first

    def failed(self, error: AioprodError) -> None:
        self.error = error


@asynccontextmanager
async def writer(disk: Disk | SimulatedFiles, *, reads: bool = False) -> AsyncIterator[Store]:
    files = disk if isinstance(disk, SimulatedFiles) else SimulatedFiles(disk)
    store = await Store.open(storage_of(files), LIMITS, reads=reads)
    yield store
    await store.close()


@asynccontextmanager
async def reader(disk: Disk | SimulatedFiles) -> AsyncIterator[Store]:
    files = disk if isinstance(disk, SimulatedFiles) else SimulatedFiles(disk)
    store = await Store.open(storage_of(files), LIMITS, writes=False)
    yield store
    await store.close()


def entry(store: Store, value: bytes) -> bytes:
    return bytes(encode_entry(b"t", None, value, b"\0", -1, 0, store._segments.seed))


async def put(store: Store, value: bytes) -> None:
    store.add(entry(store, value), 1, None)
    await store.drain()


async def values(store: Store, after: bytes | None = None) -> list[object]:
    found: list[object] = []
    while rows := await store.read(after, 3):
        found += [record.value for record, _ in rows]
        after = rows[-1][1]
    return found


# --- two processes


async def test_one_process_writes_and_another_reads() -> None:
    disk = Disk(Random(1))
    async with writer(disk) as one, reader(disk) as other:
        assert not await other.read(None, 10)
        for number in range(40):
            await put(one, b"%d" % number)
            if number % 7 == 0:
                assert await values(other) == [b"%d" % before for before in range(number + 1)]
        rows = await other.read(None, 30)
        await other.delivered(rows[-1][1])
        assert await values(other, rows[-1][1]) == [b"%d" % number for number in range(30, 40)]
        with pytest.raises(SpoolError, match="Another process has the spool folder open"):
            await Store.open(storage_of(SimulatedFiles(disk)), LIMITS, reads=False)
        with pytest.raises(SpoolError, match="Another process has the spool folder open"):
            await Store.open(storage_of(SimulatedFiles(disk)), LIMITS, writes=False)


async def test_what_was_read_is_on_the_disk() -> None:
    """The writer was killed when it had written a record, and before it has synced it."""
    disk = Disk(Random(1))
    files = SimulatedFiles(disk)

    async def write(storage: Storage) -> None:
        store = await Store.open(storage, LIMITS, reads=False)
        await put(store, b"0")
        files.crash_at = files.steps + 2
        await put(store, b"1")

    await run_process(files, write)
    disk.kill()
    async with reader(disk) as store:
        assert await values(store) == [b"0", b"1"]
    disk.cut_power()
    async with reader(disk) as store:
        assert await values(store) == [b"0", b"1"]


async def test_what_a_writer_has_failed_to_sync_is_not_read() -> None:
    disk = Disk(Random(1))
    files = SimulatedFiles(disk)
    async with writer(files) as one, reader(disk) as other:
        await put(one, b"0")
        files.before = failing("sync", errno.EIO)
        await put(one, b"1")
        assert one.failure is not None
        assert await values(other) == [b"0"]


async def test_a_reader_does_not_believe_a_second_sync() -> None:
    disk = await filled(3)
    files = SimulatedFiles(disk, before=failing("sync", errno.EIO))
    async with reader(files) as store:
        for _ in range(2):
            with pytest.raises(SpoolError, match="could not be brought to the disk: Input/output error"):
                await store.read(None, 10)


async def test_a_reader_of_a_folder_that_has_no_spool() -> None:
    with pytest.raises(SpoolError, match="has no file 'id'"):
        await Store.open(storage_of(SimulatedFiles(Disk(Random(1)))), LIMITS, writes=False)
    disk = await filled(1)
    del disk.names[segments_of(disk)[0]]
    with pytest.raises(SpoolError, match="ends with record number 0, and number 1 was on the disk"):
        await Store.open(storage_of(SimulatedFiles(disk)), LIMITS, writes=False)


async def test_a_reader_notices_what_is_missing_at_the_end() -> None:
    disk = await filled(3)
    (name,) = segments_of(disk)
    disk.put(name, disk.content(name)[:-105])
    with pytest.raises(SpoolError, match="ends with record number 1, and number 3 was on the disk"):
        await Store.open(storage_of(SimulatedFiles(disk)), LIMITS, writes=False)


async def test_a_reader_takes_nothing_of_a_group_that_is_torn_at_its_end() -> None:
    disk = Disk(Random(1))
    async with opened(disk) as spool:
        first = await spool.append(numbered(1))
        await spool.append(numbered(5, 1))
    (name,) = segments_of(disk)
    data = disk.content(name)
    del disk.names["end"]
    disk.put(name, data[: -GROUP_BYTES - 20] + bytes(20))  # Without the seal.
    async with reader(disk) as store:
        assert len(await store.read(None, 2)) == 1
        assert not await store.read(first, 2)


async def test_a_reader_does_not_take_a_group_that_is_not_whole() -> None:
    disk = await filled(3)
    (name,) = segments_of(disk)
    whole = disk.content(name)
    async with reader(disk) as store:
        rows = await store.read(None, 10)
        async with opened(await _grown(disk)) as spool:
            await spool.append(numbered(1, 3))
        longer = disk.content(name)
        assert len(longer) > len(whole)
        for size in range(len(whole), len(longer) - GROUP_BYTES):  # The seal is the last group.
            disk.put(name, longer[:size])
            assert not await store.read(rows[-1][1], 10)
        disk.put(name, longer)
        assert await values(store, rows[-1][1]) == [b"3"]


async def _grown(disk: Disk) -> SimulatedFiles:
    """The files of another process, which does not want the reader's lock."""
    disk.locks.clear()
    return SimulatedFiles(disk)


# --- room


@in_simulated_time
async def test_callers_wait_for_room_in_their_order() -> None:
    disk = Disk(Random(1))
    async with writer(disk, reads=True) as store:
        while True:
            try:
                await put(store, bytes(400))
            except BufferFullError:
                break
        outcomes = [Outcome() for _ in range(3)]
        size = len(entry(store, bytes(400)))
        waiting = [
            asyncio.ensure_future(store.add_in_turn(entry(store, bytes(400)), 1, outcome, 10.0)) for outcome in outcomes
        ]
        await asyncio.sleep(1.0)
        with pytest.raises(BufferFullError):
            store.add(entry(store, b""), 1, None)
        assert not any(task.done() for task in waiting)
        rows = await store.read(None, 4)
        await store.delivered(rows[-1][1])
        await asyncio.wait(waiting, timeout=1.0)
        await store.drain()
        places = [outcome.position.number for outcome in outcomes if outcome.position is not None]
        assert places == sorted(places)
        assert len(places) in range(1, 4)
        assert store.size <= LIMITS.max_bytes
        assert size * len(places) <= LIMITS.max_bytes
        with pytest.raises(RecordTooLargeError, match=r"of 90\d\d bytes may never have room .*: 8\d\d\d is"):
            await store.add_in_turn(entry(store, bytes(9_000)), 1, None, 10.0)
        await asyncio.sleep(10.0)
        for task in waiting:
            assert task.done()
            assert task.exception() is None or isinstance(task.exception(), BufferFullError)


@in_simulated_time
async def test_a_writer_alone_sees_what_the_reader_has_removed() -> None:
    disk = Disk(Random(1))
    async with writer(disk) as store, reader(disk) as other:
        for _ in range(20):
            await put(store, bytes(400))
        with pytest.raises(BufferFullError):
            await store.add_in_turn(entry(store, bytes(400)), 1, None, 0.5)
        waiting = asyncio.ensure_future(store.add_in_turn(entry(store, b"last"), 1, None, 5.0))
        rows = await other.read(None, 10)
        await other.delivered(rows[-1][1])
        await waiting
        await store.drain()
        assert (await values(other, rows[-1][1]))[-1] == b"last"


@in_simulated_time
async def test_memory_for_what_waits_for_the_disk_is_bounded() -> None:
    disk = Disk(Random(1))
    store = await Store.open(storage_of(SimulatedFiles(disk), slow_s=1.0), LIMITS)
    data = entry(store, bytes(100))
    for _ in range(LIMITS.pending_bytes // len(data)):
        store.add(data, 1, None)
    with pytest.raises(BufferFullError, match="3000 bytes of records wait for the disk of the spool folder"):
        store.add(data, 1, None)
    await store.drain()
    store.add(data, 1, None)
    await store.close()


async def test_a_position_that_was_not_read() -> None:
    disk = await filled(5, segment_bytes=250)
    async with writer(disk, reads=True) as store:
        for position in (b"9.0011223344556677", b"4.0011223344556677"):
            with pytest.raises(MarkerError):
                await store.delivered(position)
        assert len(segments_of(disk)) == 2
