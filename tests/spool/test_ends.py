"""The ends of a spooled producer: no call waits for ever, and a folder is free again."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aioprod.errors import BufferFullError, ConfigError, ProducerClosedError, SpoolError, UsageError
from aioprod.spool import SpooledProducer
from aioprod.spool.aside import Aside
from aioprod.testing import FakeCluster
from tests.support.spool_folders import kept_values


@pytest.fixture
async def away() -> AsyncIterator[str]:
    """The address of brokers that do not answer."""
    async with FakeCluster(1) as brokers:
        brokers.freeze(1)
        yield brokers.bootstrap


async def test_calls_that_wait_for_room_fail_at_the_close(away: str, tmp_path: Path) -> None:
    producer = SpooledProducer(away, folder=tmp_path, max_bytes=1 << 16, segment_bytes=1 << 12)
    await producer.start()
    with suppress(BufferFullError):
        while True:
            producer.send_nowait("t", b"x" * 1000)
            await producer.drain()
    calls: list[asyncio.Task[Any]] = [asyncio.create_task(producer.send("t", b"y" * 1000)) for _ in range(3)]
    calls.append(asyncio.create_task(producer.send_many("t", [b"y" * 1000] * 2)))
    await asyncio.sleep(0)
    await producer.close(timeout=0)
    for call in calls:
        with pytest.raises(ProducerClosedError, match="was closed before the record was taken: it is not kept"):
            await call


async def test_a_serializer_that_is_awaited_beyond_the_close(away: str, tmp_path: Path) -> None:
    go = asyncio.Event()

    class Slow:
        async def serialize(self, *given: Any) -> bytes:
            await go.wait()
            return b"v"

    producer = SpooledProducer(away, folder=tmp_path, value_serializer=Slow())
    await producer.start()
    call = asyncio.create_task(producer.send("t", "v"))
    await asyncio.sleep(0)
    await producer.close(timeout=0)
    go.set()
    with pytest.raises(ProducerClosedError, match="it is not kept"):
        await call


async def test_a_flush_fails_at_the_close(away: str, tmp_path: Path) -> None:
    producer = SpooledProducer(away, folder=tmp_path)
    await producer.start()
    await producer.send("t", b"0")
    call = asyncio.create_task(producer.flush())
    await asyncio.sleep(0)
    assert (await producer.close(timeout=0)).kept == 1
    with pytest.raises(ProducerClosedError, match="leaves with the next start"):
        await call


def test_an_event_loop_that_ends_and_cancels_all_tasks(tmp_path: Path) -> None:
    """What was accepted is brought to the disk all the same."""

    async def serve(started: asyncio.Event) -> None:
        async with SpooledProducer("localhost:1", folder=tmp_path) as producer:
            producer.send_nowait("t", b"0")
            started.set()
            await asyncio.Event().wait()

    tasks = []  # asyncio itself holds no task that waits.

    async def main() -> None:
        started = asyncio.Event()
        tasks.append(asyncio.create_task(serve(started)))
        await started.wait()

    asyncio.run(main())
    assert kept_values(tmp_path) == [b"0"]


async def test_a_close_while_it_starts(away: str, tmp_path: Path) -> None:
    producer = SpooledProducer(away, folder=tmp_path)
    starting = asyncio.create_task(producer.start())
    await asyncio.sleep(0)
    await producer.close()
    with pytest.raises(ProducerClosedError, match="closed while it started"):
        await starting
    with pytest.raises(ProducerClosedError):
        await producer.send("t", b"0")
    async with SpooledProducer(away, folder=tmp_path) as other:  # The folder is free.
        await other.close(timeout=0)


async def test_a_start_that_fails_leaves_the_folder_free(
    away: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Aside) -> None:
        raise OSError(errno.EIO, "Input/output error")

    producer = SpooledProducer(away, folder=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Aside, "load", fail)
        with pytest.raises(SpoolError, match="can't be used as a spool: Input/output error"):
            await producer.start()
    await producer.start()
    await producer.close(timeout=0)


async def test_settings_without_transactions(tmp_path: Path) -> None:
    given: dict[str, Any] = {"folder": tmp_path, "acks": 1, "enable_idempotence": False}
    with pytest.raises(ConfigError, match="Transactions need"):
        SpooledProducer("localhost:1", **given)
    SpooledProducer("localhost:1", delivery="at-least-once", **given)
    SpooledProducer("localhost:1", relays=False, **given)


async def test_a_flush_where_another_process_relays(tmp_path: Path) -> None:
    async with SpooledProducer("localhost:1", folder=tmp_path, relays=False) as producer:
        await producer.send("t", b"0")
        with pytest.raises(UsageError, match=r"flush\(\) can't be awaited here: another process"):
            await producer.flush()


async def test_a_folder_that_is_removed_takes_no_records(tmp_path: Path) -> None:
    """The system would write to files that no start will find."""
    producer = SpooledProducer("localhost:1", folder=tmp_path, relays=False)
    await producer.start()
    await producer.send("t", b"0")
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(SpoolError, match="the file was removed"):
        await producer.send("t", b"1")
    await producer.close()
