"""When a batch leaves: at once if the connection is idle, in company if a request is outstanding, after linger.ms."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from aioprod.messages import ProduceRequest
from aioprod.routing.partitioners import UniformStickyPartitioner
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, pass_time, produced, running, turns, until

FIXED: dict[str, Any] = {"adaptive_linger": False}


async def test_an_idle_connection_sends_at_once(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers, linger_ms=1_000_000, delivery_timeout_ms=2_000_000) as producer:
        await producer.partitions_for("t")
        async with asyncio.timeout(10):
            for n in range(10):
                await producer.send("t", b"%d" % n, partition=n % 2)
    assert len(topic.records()) == 10
    assert len(produced(brokers)) == 10


async def test_what_is_submitted_in_one_turn_shares_a_request(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"%d" % n, partition=n % 2) for n in range(10)]
        for future in futures:
            await future
    (request,) = produced(brokers)
    assert [values for _, _, values in request] == [
        [b"0", b"2", b"4", b"6", b"8"],
        [b"1", b"3", b"5", b"7", b"9"],
    ]


async def test_small_batches_wait_for_an_outstanding_request_and_share_the_next(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    async with running(brokers, linger_ms=1_000_000, delivery_timeout_ms=2_000_000) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"first", partition=0)]
        await hold.reached.wait()
        for n in range(6):
            futures.append(producer.submit("t", b"%d" % n, partition=n % 3))
            await turns(3)
        assert producer.metrics()["requests_in_flight"] == 1
        hold.release()
        async with asyncio.timeout(10):
            for future in futures:
                await future
    first, second = produced(brokers)
    assert len(first) == 1
    assert sorted(values for _, _, values in second) == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


async def test_a_full_batch_does_not_wait(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    options: dict[str, Any] = {"linger_ms": 1_000_000, "delivery_timeout_ms": 2_000_000, "batch_size": 200}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        first = producer.submit("t", b"first", partition=0)
        await hold.reached.wait()
        full = producer.submit("t", b"x" * 300, partition=1)
        await until(lambda: producer.metrics()["requests_in_flight"] == 2)
        hold.release()
        assert [(await future).partition for future in (first, full)] == [0, 1]


async def test_linger_ms_is_the_upper_bound_beside_an_outstanding_request(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, linger_ms=10_000) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"first", partition=0)]
        await hold.reached.wait()
        futures.append(producer.submit("t", b"second", partition=1))
        pass_time(producer, clock, 9.0)
        await turns()
        assert producer.metrics()["requests_in_flight"] == 1
        pass_time(producer, clock, 2.0)
        await until(lambda: producer.metrics()["requests_in_flight"] == 2)
        hold.release()
        for future in futures:
            await future


async def test_a_timer_ends_the_linger(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers, linger_ms=20) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"first", partition=0)]
        await hold.reached.wait()
        futures.append(producer.submit("t", b"second", partition=1))
        await until(lambda: producer.metrics()["requests_in_flight"] == 2)
        hold.release()
        assert [(await future).partition for future in futures] == [0, 1]


async def test_a_fixed_linger_waits_on_an_idle_connection_too(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, linger_ms=10_000, **FIXED) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"0", partition=0)]
        pass_time(producer, clock, 6.0)
        futures.append(producer.submit("t", b"1", partition=0))
        futures.append(producer.submit("t", b"2", partition=1))
        await turns()
        assert produced(brokers) == []
        pass_time(producer, clock, 5.0)
        async with asyncio.timeout(10):
            assert [(await future).offset for future in futures[:2]] == [0, 1]
        assert not futures[2].done(), "its own ten seconds are not over"
        pass_time(producer, clock, 6.0)
        await futures[2]
    assert [[values for _, _, values in request] for request in produced(brokers)] == [[[b"0", b"1"]], [[b"2"]]]


async def test_a_fixed_linger_by_the_timer(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, linger_ms=30, **FIXED) as producer:
        futures = [producer.submit("t", b"%d" % n) for n in range(3)]
        for future in futures:
            await future
        # An earlier deadline than the one that is slept for.
        await asyncio.sleep(0.01)
        await producer.send("t", b"4")
    assert [len(request[0][2]) for request in produced(brokers)] == [3, 1]


async def test_a_fixed_linger_of_0_waits_for_nothing(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    async with running(brokers, linger_ms=0, **FIXED) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"v", partition=0)]
        await hold.reached.wait()
        futures.append(producer.submit("t", b"v", partition=1))
        await until(lambda: producer.metrics()["requests_in_flight"] == 2)
        hold.release()
        assert [(await future).partition for future in futures] == [0, 1]


@pytest.mark.parametrize("grows", [False, True])
async def test_a_sticky_partitioner_leaves_no_batch_behind_that_lingers(brokers: FakeCluster, grows: bool) -> None:
    topic = brokers.create_topic("t", partitions=3)
    options: dict[str, Any] = {"linger_ms": 1_000_000, "delivery_timeout_ms": 2_000_000, **FIXED}
    options |= {"batch_size": 1000, "batch_size_max": 8000 if grows else 1000}
    async with running(brokers, partitioner=UniformStickyPartitioner(Random(1)), **options) as producer:
        await producer.partitions_for("t")
        for _ in range(31):
            producer.send_nowait("t", b"x" * 290)
        # The last record may linger, in a batch of its own.
        await until(lambda: len(topic.records()) >= 30)
    sizes = [len(values) for request in produced(brokers) for _, _, values in request]
    assert sum(sizes) == 31
    assert len(sizes) <= 4 if grows else sorted(sizes) == [1, *[3] * 10]


@pytest.mark.parametrize("adaptive", [True, False])
async def test_close_cuts_every_linger(brokers: FakeCluster, adaptive: bool) -> None:
    topic = brokers.create_topic("t", partitions=2)
    options: dict[str, Any] = {"linger_ms": 1_000_000, "delivery_timeout_ms": 2_000_000, "adaptive_linger": adaptive}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        for n in range(4):
            producer.send_nowait("t", b"%d" % n, partition=n % 2)
        async with asyncio.timeout(10):
            report = await producer.close()
    assert report.delivered == 4
    assert len(topic.records()) == 4


async def test_a_partition_that_was_muted_lingers_no_longer_than_its_own_time(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, linger_ms=10_000, **FIXED) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        first = producer.submit("t", b"first")
        pass_time(producer, clock, 11.0)
        await hold.reached.wait()
        second = producer.submit("t", b"second")
        pass_time(producer, clock, 11.0)
        hold.release()
        async with asyncio.timeout(10):
            assert [(await future).offset for future in (first, second)] == [0, 1]
