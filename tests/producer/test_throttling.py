"""A broker that throttles is left in peace until the time is over, and nobody else waits for it (KIP-219)."""

from __future__ import annotations

import asyncio

import pytest

from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, pass_time, running, turns, until


async def test_the_other_brokers_continue(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        for index in range(3):
            await producer.send("t", b"0", partition=index)
        brokers.fault(ProduceRequest, node=1, throttle_ms=60_000)
        await producer.send("t", b"1", partition=0)
        waiting = producer.submit("t", b"2", partition=0)
        asked = len([one for one in brokers.seen if one.node == 1])
        async with asyncio.timeout(10):
            for n in range(20):
                await producer.send("t", b"%d" % n, partition=1 + n % 2)
            # Neither does a new topic, nor anything else that any broker could answer.
            assert len(await producer.partitions_for("another")) == 1
        assert len([one for one in brokers.seen if one.node == 1]) == asked
        pass_time(producer, clock, 59.0)
        await turns()
        assert len([one for one in brokers.seen if one.node == 1]) == asked
        pass_time(producer, clock, 2.0)
        assert (await waiting).offset == 2


async def test_a_throttle_in_any_answer_counts(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers.create_topic("another")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.send("t", b"0")
        throttled = brokers.fault(MetadataRequest, throttle_ms=60_000)
        await producer.partitions_for("another")
        assert throttled.hits == 1
        asked = len(brokers.seen)
        waiting = producer.submit("t", b"1")
        pass_time(producer, clock, 59.0)
        await turns()
        assert (len(brokers.seen), waiting.done()) == (asked, False)
        pass_time(producer, clock, 2.0)
        assert (await waiting).offset == 1


async def test_what_is_in_flight_is_answered_meanwhile(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, batch_size=0) as producer:
        for index in range(2):
            await producer.send("t", b"0", partition=index)
        throttling = brokers.fault(ProduceRequest, throttle_ms=60_000, hold=True)
        held = brokers.fault(ProduceRequest, hold=True)
        first = producer.submit("t", b"1", partition=0)
        await throttling.reached.wait()
        second = producer.submit("t", b"1", partition=1)
        await turns()
        throttling.release()
        await first
        await held.reached.wait()
        third = producer.submit("t", b"2", partition=0)
        held.release()
        assert (await second).offset == 1
        await turns()
        assert not third.done()
        pass_time(producer, clock, 61.0)
        assert (await third).offset == 2


@pytest.mark.parametrize("version", range(3, 14))
async def test_which_versions_leave_the_waiting_to_us(brokers: FakeCluster, version: int) -> None:
    brokers.create_topic("t")
    brokers[1].versions[ProduceRequest] = (0, version)
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        brokers.fault(ProduceRequest, throttle_ms=60_000)
        await producer.send("t", b"0")
        waiting = producer.submit("t", b"1")
        if version >= 6:
            await turns()
            assert not waiting.done()
            pass_time(producer, clock, 61.0)
        async with asyncio.timeout(10):
            assert (await waiting).offset == 1


async def test_a_new_connection_is_not_throttled(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, delivery_timeout_ms=10**7) as producer:
        brokers.fault(ProduceRequest, throttle_ms=3_600_000)
        await producer.send("t", b"0")
        waiting = producer.submit("t", b"1")
        await until(lambda: producer.metrics()["produce_throttle_time_max"] > 0)
        await brokers[1].cut()
        async with asyncio.timeout(10):
            assert (await waiting).offset == 1
