"""Threads and failures between the parts of an opened spool."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioprod import ProducerRecord
from aioprod.errors import AioprodError, BufferFullError
from aioprod.producer.preparation import Preparation
from aioprod.spool import Spool
from aioprod.spool.files import FolderFiles
from aioprod.spool.layout import Segment, seed_of
from aioprod.spool.reading import number_of
from aioprod.spool.receipts import KeptWaiter
from aioprod.spool.segments import Segments
from aioprod.spool.spool import encoded
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from tests.support.spool_folders import fill

ID = bytes(16)


class HookedFiles(FolderFiles):
    """Calls `before(call, file)` before each call that changes something."""

    before: Callable[[str, str], None] = staticmethod(lambda call, name: None)

    def write(self, name: str, at: int, data: bytes) -> None:
        self.before("write", name)
        super().write(name, at, data)

    def sync_names(self) -> None:
        self.before("sync_names", "")
        super().sync_names()


def in_thread(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_segments_that_are_listed_while_one_is_begun_are_there_once(tmp_path: Path) -> None:
    files = HookedFiles(tmp_path)
    segments = Segments(files, ID)
    segments.begin(Segment(1, bytes(8)))
    listing: list[threading.Thread] = []

    def list_meanwhile(call: str, name: str) -> None:
        if call == "sync_names":  # The file has its name.
            listing.append(in_thread(segments.list))
            listing[0].join(0.05)

    files.before = list_meanwhile
    segments.begin(Segment(5, bytes(8)))
    listing[0].join()
    assert [head.base for head in segments.heads] == [1, 5]
    # With the last one in it twice, this would remove its file.
    segments.trim(4, None)
    assert list(files.sizes()) == ["00000000000000000005.spool"]


async def storage_of(folder: Path, files: FolderFiles) -> Storage:
    real = await Storage.of_folder(folder)
    return Storage(files, real._threads, real.random_bytes, str(folder))


def data_of(value: bytes, store: Store) -> bytes:
    preparation = Preparation(Spool("x")._preparation._interceptors, None, None)
    return bytes(encoded(preparation.prepare(ProducerRecord("t", value)), 1_700_000_000_000, seed_of(store.spool_id)))


async def append(store: Store, value: bytes) -> int:
    waiter = KeptWaiter(1, None)
    store.add(data_of(value, store), 1, waiter)
    return number_of((await waiter.future).position)


async def test_nothing_goes_into_a_segment_that_one_was_begun_behind(tmp_path: Path) -> None:
    """The disk is full when the name of a new segment is brought to it: the next record may fit into the old one."""
    files = HookedFiles(tmp_path)
    store = await Store.open(await storage_of(tmp_path, files), Limits(1 << 20, 300, 1 << 20), reads=False)
    assert await append(store, bytes(100)) == 1

    def fail(call: str, name: str) -> None:
        if call == "sync_names":
            raise OSError(errno.ENOSPC, "No space left on device")

    files.before = fail
    with pytest.raises(BufferFullError, match="no room"):
        await append(store, bytes(200))
    files.before = HookedFiles.before
    assert await append(store, b"small") == 2
    assert await append(store, bytes(200)) == 3
    await store.close()
    async with Spool(tmp_path) as spool:
        assert [number_of(position) for _, position in await spool.read(None, 10)] == [1, 2, 3]


async def test_who_waits_for_memory_gets_it_when_a_write_has_failed(tmp_path: Path) -> None:
    files = HookedFiles(tmp_path)
    failed: list[AioprodError] = []
    store = await Store.open(
        await storage_of(tmp_path, files),
        Limits(1 << 20, 1 << 18, 1000),
        on_failed=lambda forming, error: failed.append(error),
    )

    def fail_once(call: str, name: str) -> None:
        files.before = HookedFiles.before
        raise OSError(errno.ENOSPC, "No space left on device")

    files.before = fail_once
    store.add(data_of(bytes(900), store), 1, None)
    waiter = KeptWaiter(1, None)
    await asyncio.wait_for(store.add_in_turn(data_of(bytes(900), store), 1, waiter, 3600), 30)
    assert number_of((await waiter.future).position) == 1
    assert [type(error) for error in failed] == [BufferFullError]
    await store.close()


async def test_a_writer_opens_a_folder_whose_first_segments_are_removed_meanwhile(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], segment_bytes=1)
    files = FolderFiles(tmp_path)

    class Gone(FolderFiles):
        def read(self, name: str, at: int, size: int) -> bytes:
            if name.startswith("0" * 19 + "1"):
                files.remove(name)
            return super().read(name, at, size)

    store = await Store.open(await storage_of(tmp_path, Gone(tmp_path)), Limits(1 << 20, 1, 1 << 20), reads=False)
    assert await append(store, b"three") == 3
    await store.close()


async def test_a_read_that_was_cancelled_does_not_run_beside_the_next_one(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"], segment_bytes=1)
    begun, may_end = threading.Event(), threading.Event()

    class Slow(FolderFiles):
        def read(self, name: str, at: int, size: int) -> bytes:
            if threading.current_thread().name.startswith("aioprod spool") and at:
                begun.set()
                may_end.wait(10)
            return super().read(name, at, size)

    may_end.set()
    store = await Store.open(await storage_of(tmp_path, Slow(tmp_path)), Limits(1 << 20, 1, 1 << 20))
    begun.clear()
    may_end.clear()
    first = asyncio.ensure_future(store.read(None, 100))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    second = asyncio.ensure_future(store.read(None, 100))
    await asyncio.sleep(0.01)
    may_end.set()
    assert [record.value for record, _ in await second] == [b"one", b"two", b"three"]
    await store.close()
