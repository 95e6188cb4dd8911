"""One process relays what others write: `SpoolDrain` beside producers that don't relay."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioprod import ProducerRecord
from aioprod.config import ProducerConfig
from aioprod.errors import BufferFullError, DeliveryError, MarkerError, SpoolError, UsageError
from aioprod.net.protocol.backoff import Backoff
from aioprod.relay import loop as relay_module
from aioprod.spool import Spool, SpooledProducer
from aioprod.spool.drain import SpoolDrain
from aioprod.spool.files import FolderFiles
from aioprod.spool.notes import read_id
from aioprod.spool.relaying import RelayTerms
from aioprod.spool.repair import drop_damaged, give_new_id
from aioprod.spool.storage import Storage
from aioprod.testing import FakeCluster
from tests.support.spool_folders import damage, fill, kept_values, segments
from tests.support.tasks import running_task


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.001, 0.01))


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t", max_message_bytes=100_000)
        yield cluster


async def new_drain(brokers: FakeCluster, folder: Path, **terms: Any) -> SpoolDrain:
    config = ProducerConfig.given(None, brokers.bootstrap, {"linger_ms": 0, "retry_backoff_ms": 1})
    return await SpoolDrain.open(await Storage.of_folder(folder), config, RelayTerms(**terms))


async def drain(brokers: FakeCluster, folder: Path, **terms: Any) -> None:
    """Relay a folder until it is empty."""
    one = await new_drain(brokers, folder, **terms)
    try:
        await one.run(until_empty=True)
    finally:
        await one.close()


def writer(folder: Path, **options: Any) -> SpooledProducer:
    return SpooledProducer("localhost:1", folder=folder, relays=False, **options)


def values(brokers: FakeCluster) -> list[bytes | None]:
    return [record.value for record in brokers.records("t")]


async def test_a_drain_beside_a_process_that_writes_and_begins_segments(brokers: FakeCluster, tmp_path: Path) -> None:
    async with writer(tmp_path, segment_bytes=2000) as producer:
        one = await new_drain(brokers, tmp_path)
        async with running_task(one.run()) as task:
            kept = await producer.send("t", b"0")
            for number in range(1, 300):
                await producer.send("t", b"%d" % number)
            with pytest.raises(UsageError, match="another process brings the records"):
                await kept.stored()
            async with asyncio.timeout(30):
                while len(values(brokers)) < 300 or not one.source.is_empty:
                    await asyncio.sleep(0.01)
            assert not task.done()
        await one.close()
        while producer.health().kept_records:
            await asyncio.sleep(0.01)
    assert values(brokers) == [b"%d" % number for number in range(300)]
    assert "00000000000000000001.spool" not in {path.name for path in segments(tmp_path)}
    async with writer(tmp_path) as producer:
        assert producer.health().kept_records == 0
        await producer.send("t", b"more")
    await drain(brokers, tmp_path)
    assert values(brokers)[300:] == [b"more"]


async def test_a_full_folder_takes_records_again_when_a_drain_has_freed_it(
    brokers: FakeCluster, tmp_path: Path
) -> None:
    record, last = bytes(5000), b"x" * 5000
    async with writer(tmp_path, max_bytes=65_536) as producer:
        for _ in range(12):
            await producer.send("t", record)
        with pytest.raises(BufferFullError, match="its max_bytes, 65536"):
            producer.send_nowait("t", record)
        waiting = asyncio.create_task(producer.send("t", record))
        await asyncio.sleep(0)
        assert not waiting.done()
        await drain(brokers, tmp_path)
        await asyncio.wait_for(waiting, 30)
        producer.send_nowait("t", last)
        assert producer.health().kept_bytes < 60_000
    await drain(brokers, tmp_path)
    assert values(brokers) == [record] * 13 + [last]


async def test_the_bytes_of_a_folder_are_those_of_its_files(brokers: FakeCluster, tmp_path: Path) -> None:
    async with SpooledProducer(brokers.bootstrap, folder=tmp_path, segment_bytes=1000, linger_ms=0) as producer:
        for number in range(50):
            await producer.send("t", b"%d" % number)
        await producer.flush()
        while len(segments(tmp_path)) > 1:
            await asyncio.sleep(0.001)
        assert producer.health().kept_bytes == segments(tmp_path)[0].stat().st_size


async def test_what_was_sent_before_a_drain_died_is_not_sent_again(brokers: FakeCluster, tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"])
    copy = tmp_path.with_name("copy")
    shutil.copytree(tmp_path, copy)
    await drain(brokers, tmp_path)
    await drain(brokers, copy)  # As if the folder had no note of it.
    assert values(brokers) == [b"one", b"two"]
    await fill(tmp_path, [b"three"])
    await fill(copy, [b"another three"], [b"four"])
    await drain(brokers, tmp_path)
    with pytest.raises(MarkerError, match="both were written to"):
        await drain(brokers, copy)
    assert values(brokers) == [b"one", b"two", b"three"]
    give_new_id(FolderFiles(copy), str(copy), lambda size: bytes(size))
    await drain(brokers, copy)
    assert values(brokers)[3:] == [b"one", b"two", b"another three", b"four"]


async def test_a_copy_whose_first_segments_are_gone_sends_what_it_has_under_a_new_id(
    brokers: FakeCluster, tmp_path: Path
) -> None:
    await fill(tmp_path, [b"one"], [b"two"], segment_bytes=1)
    await drain(brokers, tmp_path)
    await fill(tmp_path, [b"three"], [b"four"], segment_bytes=1)
    give_new_id(FolderFiles(tmp_path), str(tmp_path), lambda size: bytes(size))
    left = kept_values(tmp_path)
    assert read_id(FolderFiles(tmp_path), str(tmp_path)).begin > 1
    await drain(brokers, tmp_path)
    assert values(brokers) == [b"one", b"two", *left]
    assert left == [b"three", b"four"]
    async with SpooledProducer(brokers.bootstrap, folder=tmp_path, linger_ms=0) as producer:
        assert producer.health().kept_records == 0
        await (await producer.send("t", b"five")).stored()


async def test_records_behind_what_was_dropped_are_sent(brokers: FakeCluster, tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"])
    damage(segments(tmp_path)[0], b"two")
    with pytest.raises(SpoolError, match="is damaged"):
        await drain(brokers, tmp_path)
    list(drop_damaged(FolderFiles(tmp_path), str(tmp_path)))
    await drain(brokers, tmp_path)
    assert values(brokers) == [b"one", b"three"]


async def test_a_producer_does_not_wait_for_a_last_record_that_was_dropped(
    brokers: FakeCluster, tmp_path: Path
) -> None:
    await fill(tmp_path, [b"one"], [b"two"])
    damage(segments(tmp_path)[0], b"two")
    list(drop_damaged(FolderFiles(tmp_path), str(tmp_path)))
    async with SpooledProducer(brokers.bootstrap, folder=tmp_path, linger_ms=0) as producer:
        async with asyncio.timeout(30):
            await producer.flush()
        assert producer.health().kept_records == 0
        assert (await producer.close()).kept == 0
    assert values(brokers) == [b"one"]


async def test_a_record_that_brokers_never_take_ends_a_drain_or_is_set_aside(
    brokers: FakeCluster, tmp_path: Path
) -> None:
    await fill(tmp_path, [b"one", bytes(200_000), b"three"])
    with pytest.raises(DeliveryError):
        await drain(brokers, tmp_path)
    assert values(brokers) == []
    await drain(brokers, tmp_path, sets_aside=True)
    assert values(brokers) == [b"one", b"three"]
    assert (tmp_path / "set-aside.jsonl").read_bytes().count(b"\n") == 1
    await drain(brokers, tmp_path, sets_aside=True)
    assert values(brokers) == [b"one", b"three"]


async def test_a_last_record_that_is_set_aside_ends_a_drain_without_a_marker(
    brokers: FakeCluster, tmp_path: Path
) -> None:
    await fill(tmp_path, [b"0"], [b"x" * 200_000])
    await drain(brokers, tmp_path, is_exactly_once=False, sets_aside=True)
    assert set(values(brokers)) == {b"0"}


async def test_at_least_once_begins_where_the_folder_says(brokers: FakeCluster, tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], segment_bytes=1)
    await drain(brokers, tmp_path, is_exactly_once=False)
    await fill(tmp_path, [b"three"])
    await drain(brokers, tmp_path, is_exactly_once=False)
    assert values(brokers) == [b"one", b"two", b"three"]


async def test_two_drains_of_a_folder(brokers: FakeCluster, tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"])
    one = await new_drain(brokers, tmp_path)
    with pytest.raises(SpoolError, match="Another process"):
        await new_drain(brokers, tmp_path)
    await one.close()
    async with Spool(tmp_path) as spool:
        await spool.append(ProducerRecord("t", b"two"))
