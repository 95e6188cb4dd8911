"""Brokers, and loops: asyncio's debug mode for the files of `DEBUGGED`, uvloop, too, for `test_end_to_end.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

import pytest
import uvloop

from aioprod.errors import ErrorCode
from aioprod.messages import InitProducerIdRequest, TxnOffsetCommitRequest
from aioprod.testing import FakeCluster
from tests.support.transactions import transactional

DEBUGGED: Final = {
    "test_any_error.py",
    "test_cancellation.py",
    "test_close.py",
    "test_compressor.py",
    "test_end_to_end.py",
}
"""Files of tests about threads, and about tasks that end at any time. Debug mode finds calls of the loop from other
threads and coroutines that nobody awaits, and takes a traceback for each task and handle."""


def debugging(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Callable[[], asyncio.AbstractEventLoop]:
    """A loop factory that turns asyncio's debug mode on."""

    def new_debugging_loop() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        loop.set_debug(True)
        return loop

    return new_debugging_loop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    is_debugged = item.path.name in DEBUGGED
    loops = {"asyncio": debugging(asyncio.new_event_loop) if is_debugged else asyncio.new_event_loop}
    if item.path.name == "test_end_to_end.py":
        loops["uvloop"] = debugging(uvloop.new_event_loop)
    return loops


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    """One broker."""
    async with FakeCluster(1) as brokers:
        yield brokers


@pytest.fixture
async def three_brokers() -> AsyncIterator[FakeCluster]:
    """A cluster."""
    async with FakeCluster(3) as brokers:
        yield brokers


@pytest.fixture(params=[2, 1], ids=["implicit", "explicit"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[FakeCluster]:
    """Three brokers and a topic "t" of three partitions."""
    async with transactional(3, request.param) as cluster:
        yield cluster


@pytest.fixture
async def implicit() -> AsyncIterator[FakeCluster]:
    """One broker of transaction version 2."""
    async with transactional(1, 2) as cluster:
        yield cluster


@pytest.fixture
async def explicit() -> AsyncIterator[FakeCluster]:
    """One broker of transaction version 1."""
    async with transactional(1, 1) as cluster:
        yield cluster


@pytest.fixture
async def old(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeCluster]:
    """Three brokers of Kafka 2.4, which ask no coordinator whether a record belongs to a transaction (KIP-890)."""
    monkeypatch.setattr("aioprod.testing.fake.handlers.produce._add_or_verify", lambda *_: ErrorCode.NONE)
    async with transactional(3, 0) as cluster:
        for broker in cluster.brokers.values():
            broker.versions[InitProducerIdRequest] = (0, 2)
            broker.versions[TxnOffsetCommitRequest] = (0, 2)
        yield cluster
