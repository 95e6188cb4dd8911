"""flush(): cuts the linger, waits for what was accepted before it and for nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import AioprodError, ErrorCode, FlushTimeoutError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import Outcomes, produced, running, turns

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False, "delivery_timeout_ms": 2_000_000}


async def test_flush_cuts_the_linger(three_brokers: FakeCluster) -> None:
    topic = three_brokers.create_topic("t", partitions=3)
    async with running(three_brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"v", partition=n) for n in range(3)]
        async with asyncio.timeout(5):
            await producer.flush()
        assert all(future.done() for future in futures)
    assert len(topic.records()) == 3


async def test_flush_cuts_the_linger_of_what_was_parked(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        future = producer.submit("t", b"v")
        async with asyncio.timeout(5):
            await producer.flush()
        assert future.done()


async def test_flush_cuts_the_linger_of_what_waits_behind_a_batch_in_flight(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"0")
        first = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        producer.send_nowait("t", b"1")
        second = asyncio.create_task(producer.flush())
        await turns()
        hold.release()
        async with asyncio.timeout(5):
            await first
            await second
    assert [record.value for record in topic.records()] == [b"0", b"1"]


async def test_flush_waits_only_for_what_was_accepted_before(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        before = producer.submit("t", b"0")
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        after = producer.submit("t", b"1")
        hold.release()
        await flushing
        assert before.done()
        assert not after.done()
        await turns()
        assert len(produced(brokers)) == 1, "the linger of what came later is not cut"


async def test_flush_of_nothing_returns_at_once(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        await producer.flush()
        await producer.flush(timeout=0)
        assert producer.buffered == (0, 0)


async def test_when_flush_returns_all_waiters_are_completed(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    outcomes = Outcomes()
    async with running(brokers) as producer:
        for n in range(5000):
            producer.send_nowait("t", b"%d" % n, on_delivery=outcomes)
        await producer.flush()
        assert len(outcomes.calls) == 5000
        assert producer.buffered == (0, 0)


async def test_flush_waits_for_done_batches_that_are_not_completed(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    outcomes = Outcomes()
    flushes: list[asyncio.Task[None]] = []

    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        producer.send_nowait(
            "t", b"0", on_delivery=lambda metadata, error: flushes.append(asyncio.create_task(producer.flush()))
        )
        for n in range(1500):
            producer.send_nowait("t", b"%d" % n, on_delivery=outcomes)
        await producer.flush()
        await flushes[0]
        assert len(outcomes.calls) == 1500


async def test_flush_does_not_raise_what_the_records_failed_with(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
        future = producer.submit("t", b"v")
        await producer.flush()
        assert future.exception() is not None


async def test_flush_waits_through_retries(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=3)
        producer.send_nowait("t", b"v")
        await producer.flush()
        assert len(topic.records()) == 1


async def test_a_flush_that_takes_too_long_says_how_many_remain(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.state.move_leader(TopicPartition("t", 1), None)
        producer.send_nowait("t", b"stuck", partition=1)
        silence = brokers.fault(ProduceRequest, hold=True)
        for n in range(3):
            producer.send_nowait("t", b"%d" % n, partition=0)
        unknown = brokers.fault(MetadataRequest, error=ErrorCode.LEADER_NOT_AVAILABLE, times=None)
        producer.send_nowait("unknown", b"v")
        with pytest.raises(FlushTimeoutError, match=r"5 records .* 0\.05 s") as raised:
            await producer.flush(0.05)
        assert raised.value.remaining == 5
        assert isinstance(raised.value, TimeoutError)
        assert isinstance(raised.value, AioprodError)
        assert producer.buffered.records == 5, "they stay accepted"
        unknown.times = 0
        brokers.state.move_leader(TopicPartition("t", 1), 1)
        silence.release()
        await producer.flush()
    assert len(topic.records()) == 4
    assert len(brokers.state.topics["unknown"].records()) == 1


async def test_remaining_counts_only_what_the_flush_waits_for(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"before")
        flushing = asyncio.create_task(producer.flush(0.05))
        await silence.reached.wait()
        for _ in range(7):
            producer.send_nowait("t", b"after")
        with pytest.raises(FlushTimeoutError) as raised:
            await flushing
        assert raised.value.remaining == 1
        silence.release()


async def test_a_cancelled_flush_disturbs_nothing(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        flushes = [asyncio.create_task(producer.flush()) for _ in range(2)]
        await hold.reached.wait()
        flushes[0].cancel()
        hold.release()
        await flushes[1]
        assert flushes[0].cancelled()
        assert (await future).offset == 0


async def test_withdrawing_the_last_record_ends_the_flush(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v", partition=1)
        flushing = asyncio.create_task(producer.flush())
        await turns()
        future.cancel()
        await flushing
        assert producer.buffered == (0, 0)
