"""`Producer.resolve` for a record of a transaction: it has the transaction's fate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, StillUnknownError, UnknownOutcomeError
from aioprod.messages import ProduceRequest
from aioprod.records.parser import parse_batches
from aioprod.testing import FakeCluster
from aioprod.testing.fake.faults import Fault
from tests.support.producers import ShiftedClock, pass_time, running, turns, until
from tests.support.transactions import transactional

VERSIONS = pytest.mark.parametrize("version", [1, 2])


class Scene:
    """A transactional producer that has committed a record of partition 0."""

    def __init__(self, brokers: FakeCluster, producer: Producer, clock: ShiftedClock) -> None:
        self.brokers = brokers
        self.producer = producer
        self.clock = clock

    async def commit(self, value: bytes) -> None:
        async with self.producer.transaction():
            await self.producer.send("t", value, partition=0)

    def visible(self) -> list[bytes | None]:
        return [one.value for one in self.brokers.records("t", 0)]

    async def lost(self, *, is_member: bool = True, arrives: bool = False) -> tuple[UnknownOutcomeError, Fault]:
        """The error of a record whose deadline passes on its way, so that its transaction is aborted.

        `is_member`: its partition has joined the transaction before. `arrives`: it arrives before the abort.
        """
        producer = self.producer
        fault = self.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None, when=_has_lost)
        failures: list[BaseException | None] = []

        async def work() -> None:
            async with producer.transaction():
                if is_member:
                    await producer.send("t", b"with it", partition=0)
                future = producer.submit("t", b"lost", partition=0)
                await fault.reached.wait()
                pass_time(producer, self.clock, 121.0)
                await asyncio.wait([future])
                failures.append(future.exception())
                fault.end()
                if arrives:
                    fault.release()
                    await until(lambda: len(self.brokers.records("t", 0, "read_uncommitted")) == 3)

        with pytest.raises(AioprodError):
            await work()
        (error,) = failures
        assert isinstance(error, UnknownOutcomeError)
        return error, fault


def _has_lost(request: ProduceRequest) -> bool:
    return any(b"lost" in bytes(part.records or b"") for topic in request.topic_data for part in topic.partition_data)


@asynccontextmanager
async def scene(version: int) -> AsyncIterator[Scene]:
    clock = ShiftedClock()
    async with (
        transactional(1, version) as brokers,
        running(brokers, clock=clock, transactional_id="x", transaction_timeout_ms=900_000) as producer,
    ):
        played = Scene(brokers, producer, clock)
        await played.commit(b"before")
        yield played


@VERSIONS
@pytest.mark.parametrize("is_member", [True, False])
async def test_a_record_that_arrives_after_the_next_transaction_began(version: int, is_member: bool) -> None:
    async with scene(version) as played:
        error, fault = await played.lost(is_member=is_member)
        await played.commit(b"later")
        assert await played.producer.resolve(error, 20) is None
        fault.release()
        await turns(100)
        await played.commit(b"last")
        await until(lambda: len(played.visible()) == 3)
        assert played.visible() == [b"before", b"later", b"last"]
        assert await played.producer.resolve(error, 20) is None


@VERSIONS
async def test_a_record_that_arrives_before_the_abort_is_aborted(version: int) -> None:
    async with scene(version) as played:
        error, _ = await played.lost(arrives=True)
        await played.commit(b"later")
        assert await played.producer.resolve(error, 20) is None
        await until(lambda: len(played.visible()) == 2)
        assert played.visible() == [b"before", b"later"]


@pytest.mark.parametrize("is_member", [True, False])
async def test_an_abort_of_version_2_decides_without_a_later_record(is_member: bool) -> None:
    async with scene(2) as played:
        error, fault = await played.lost(is_member=is_member)
        assert await played.producer.resolve(error, 20) is None
        fault.release()
        await turns(100)
        await played.commit(b"last")
        await until(lambda: len(played.visible()) == 2)
        assert played.visible() == [b"before", b"last"]


async def test_before_version_2_a_partition_without_a_later_record_stays_unknown() -> None:
    async with scene(1) as played:
        error, _ = await played.lost()
        with pytest.raises(StillUnknownError) as still:
            await played.producer.resolve(error, 0.01)
        assert still.value.reason == "undecided"


async def test_a_late_record_that_an_old_broker_puts_into_the_next_transaction() -> None:
    """Brokers before 3.6 verify nothing: what arrives after the abort belongs to the next transaction there."""
    async with scene(1) as played:
        error, _ = await played.lost()
        late = next(request for request in played.brokers.seen_of(ProduceRequest) if _has_lost(request))
        data = bytes(late.topic_data[0].partition_data[0].records)
        (batch,) = parse_batches(data)
        offset = played.brokers.topics["t"].partitions[0].append(batch, data)
        async with played.producer.transaction():
            await played.producer.send("t", b"later", partition=0)
            with pytest.raises(StillUnknownError) as still:
                await played.producer.resolve(error, 20)
            assert still.value.reason == "not ended"
        await until(lambda: len(played.visible()) == 3)
        found = await played.producer.resolve(error, 20)
        assert found is not None
        assert found.offset == offset
        assert played.visible() == [b"before", b"lost", b"later"]
