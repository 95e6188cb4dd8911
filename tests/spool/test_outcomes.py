"""Callers of a spooled producer get the outcomes of their records: each one, and the right one."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aioprod.errors import AioprodError, AuthorizationError, ErrorCode, MarkerError, SpoolError
from aioprod.messages import TxnOffsetCommitRequest
from aioprod.net.protocol.backoff import Backoff
from aioprod.relay import loop as relay_loop
from aioprod.relay.loop import Surroundings
from aioprod.spool import SpooledProducer, notes
from aioprod.spool.files import FolderFiles
from aioprod.spool.storage import Storage
from aioprod.testing import FakeCluster

_T = TypeVar("_T")


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_loop, "_BACKOFF", Backoff(0.001, 0.01))


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        yield cluster


def new_producer(brokers: FakeCluster, folder: Path, **options: Any) -> SpooledProducer:
    given: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0}
    return SpooledProducer(brokers.bootstrap, folder=folder, **(given | options))


class LateNews:
    """Calls everything at once; the loop is notified of the second write after a read that came behind it."""

    def __init__(self) -> None:
        self.is_armed = False
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self._writes = 0
        self._written, self._read = asyncio.Event(), asyncio.Event()

    def run(self, function: Callable[[], _T], *, writes: bool) -> Awaitable[_T]:
        if not self.is_armed:
            return self._now(function)
        return self._write(function) if writes else self._read_after(function)

    async def _now(self, function: Callable[[], _T]) -> _T:
        return function()

    async def _write(self, function: Callable[[], _T]) -> _T:
        self._writes += 1
        if self._writes == 1:
            self.begun.set()
            await self.go_on.wait()
            return function()
        result = function()
        self._written.set()
        await self._read.wait()
        return result

    async def _read_after(self, function: Callable[[], _T]) -> _T:
        await self._written.wait()
        result = function()
        self._read.set()
        return result

    def close(self) -> None:
        """There is none."""


async def test_a_record_that_is_read_before_its_caller_is_notified(brokers: FakeCluster, tmp_path: Path) -> None:
    producer, threads = new_producer(brokers, tmp_path), LateNews()
    await producer._start_in(Storage(FolderFiles(tmp_path), threads, os.urandom, "it"), Surroundings())
    await (await producer.send("t", b"0")).stored()
    threads.is_armed = True
    first = asyncio.create_task(producer.send("t", b"1"))
    await threads.begun.wait()
    second = asyncio.create_task(producer.send("t", b"2"))
    await asyncio.sleep(0)
    threads.go_on.set()
    places = [await (await call).stored() for call in (first, second)]
    found = {record.offset: record.value for record in brokers.records("t")}
    assert [found[place.offset] for place in places] == [b"1", b"2"]
    await producer.close(timeout=0)


async def test_a_note_that_can_not_be_written_after_the_delivery(
    brokers: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OSError(5, "Input/output error")]

    def write_note(*given: Any) -> None:
        if failures:
            raise failures.pop()
        notes.write_note(*given)

    monkeypatch.setattr("aioprod.spool.store.write_note", write_note)
    async with new_producer(brokers, tmp_path, delivery="at-least-once") as producer:
        kept = await producer.send("t", b"0")
        assert (await kept.stored()).offset == 0
        await producer.flush()
    assert [record.value for record in brokers.records("t")] == [b"0"]


async def test_a_missing_right_to_write_the_marker_is_no_fault_of_records(brokers: FakeCluster, tmp_path: Path) -> None:
    """A principal that may WRITE to a topic, and not READ it."""
    brokers.fault(TxnOffsetCommitRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=None)
    async with new_producer(brokers, tmp_path, poison="set-aside") as producer:
        await producer.send_many("t", [b"x"] * 10)
        with pytest.raises(AuthorizationError):
            await producer.flush()
        health = producer.health()
        assert (health.kept_records, producer.metrics()["spool_set_aside_records"]) == (10, 0)


async def test_a_marker_topic_that_can_not_be_is_no_fault_of_records(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path, poison="set-aside", marker_topic="no topic") as producer:
        await producer.send_many("t", [b"x"] * 10)
        with pytest.raises(MarkerError, match="'no topic', which is to have the marker"):
            await producer.flush()
        assert producer.metrics()["spool_set_aside_records"] == 0


async def test_only_the_first_of_many_failures_is_raised(
    brokers: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: FolderFiles, name: str) -> None:
        raise OSError(5, "Input/output error")

    async with new_producer(brokers, tmp_path) as producer:
        monkeypatch.setattr(FolderFiles, "sync", fail)
        with pytest.raises(SpoolError):
            await producer.send_many("t", [b"x" * 1000] * 10_000)
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_poison_of_one_topic_between_records_of_another(
    brokers: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("strict", max_message_bytes=1000)
    async with new_producer(brokers, tmp_path, poison="set-aside") as producer:
        calls = [producer.submit("t", b"x") if at % 3 else producer.submit("strict", b"x" * 2000) for at in range(30)]
        kept = await asyncio.gather(*calls)
        outcomes = await asyncio.gather(*(one.stored() for one in kept), return_exceptions=True)
    assert [isinstance(outcome, AioprodError) for outcome in outcomes] == [at % 3 == 0 for at in range(30)]
    assert len(brokers.records("t")) == 20
    assert "never looked at" not in caplog.text
