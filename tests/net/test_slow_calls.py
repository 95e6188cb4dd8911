"""What the log is told of a start that takes long, in made-up time: why, and for how much longer it is tried."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from aioprod import Producer
from aioprod.admin import Admin
from aioprod.errors import MetadataTimeoutError
from aioprod.group import Member
from aioprod.messages import ApiVersionsRequest, InitProducerIdRequest, MetadataRequest
from aioprod.reader import Reader
from aioprod.testing import FakeCluster, simulation
from aioprod.testing.simulation import SimulatedLoop
from tests.support.clients import Listener, new_client

NOWHERE = "localhost:1"


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of a level that is on by default."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_start_that_gets_nowhere_is_warned_of_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> None:
        loop = asyncio.get_running_loop()
        client = new_client(("localhost", 1), clock=loop.time, listener=Listener())
        with pytest.raises(MetadataTimeoutError):
            await client.start(25.0)
        await client.close()
        await asyncio.sleep(60.0)

    with SimulatedLoop() as loop:
        loop.run(start())
    assert [text.rpartition("; ")[2] for text in told(caplog)] == [f"trying for {left} s more" for left in (24, 14, 4)]
    assert told(caplog)[0].startswith("Kafka is not reachable yet: localhost:1 can't be reached (")
    assert {record.name for record in caplog.records} == {"aioprod.net"}


def test_a_broker_that_does_not_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def start() -> None:
        async with FakeCluster(1) as cluster:
            cluster.fault(ApiVersionsRequest, hold=True, times=None)
            client = new_client(cluster[1].address, clock=asyncio.get_running_loop().time, listener=Listener())
            with pytest.raises(MetadataTimeoutError):
                await client.start(5.0)
            await client.close()

    with SimulatedLoop() as loop:
        loop.run(start())
    (text,) = told(caplog)
    assert "has not answered ApiVersions for 1.0 s; trying for 4 s more" in text


def test_a_start_in_less_than_a_second_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def start() -> None:
        async with FakeCluster(1) as cluster:
            cluster.fault(MetadataRequest, delay_s=0.9)
            client = new_client(cluster[1].address, clock=asyncio.get_running_loop().time, listener=Listener())
            await client.start(5.0)
            await asyncio.sleep(60.0)
            await client.close()

    with SimulatedLoop() as loop:
        loop.run(start())
    assert told(caplog) == []


STARTS: list[Callable[[], Awaitable[object]]] = [
    lambda: Producer(NOWHERE).start(),
    lambda: Reader(NOWHERE).start(),
    lambda: Member(NOWHERE, group_id="g", topics="t").start(),
    lambda: Admin(NOWHERE).start(),
]


@pytest.mark.parametrize("start", STARTS, ids=["Producer", "Reader", "Member", "Admin"])
def test_a_cancelled_start_ends_at_once_and_says_why_it_had_not_started(
    start: Callable[[], Awaitable[object]], caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(start())
        await asyncio.sleep(0.5)
        starting.cancel()
        begun = loop.time()
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert loop.time() - begun < 0.1, "in made-up time"

    with SimulatedLoop() as loop:
        loop.run(main())
    (text,) = told(caplog)
    assert text.startswith("The start was cancelled after 0.5 s: Kafka is not reachable yet: localhost:1 can't be ")


@pytest.mark.parametrize("transactional_id", [None, "till"])
def test_a_producer_that_gets_no_id_says_so(transactional_id: str | None, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with FakeCluster(1) as cluster:
            cluster.fault(InitProducerIdRequest, hold=True, times=None)
            producer = Producer(cluster.bootstrap, transactional_id=transactional_id)
            starting = asyncio.ensure_future(simulation.start(producer, loop))
            await asyncio.sleep(5.0)
            starting.cancel()
            await asyncio.wait([starting])

    with SimulatedLoop() as loop:
        loop.run(main())
    first, last = told(caplog)
    what = "No broker has given the producer an id yet: Broker 1 at "
    if transactional_id is not None:
        what = "The coordinator of transactional.id 'till' has not answered yet: Broker 1 at "
    assert first.startswith(what)
    assert last.startswith(f"The start was cancelled after 5.0 s: {what}")
