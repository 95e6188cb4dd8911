"""A topic whose broker is gone leaves room in `buffer.memory` for the others; in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import BufferFullError, ErrorCode, ProducerClosedError
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import begin, new_producer, running
from tests.support.simulated import in_simulated_time

KILOBYTE: Final = b"x" * 1000
SMALL: Final[dict[str, Any]] = {"buffer_memory": 64_000, "batch_size": 2048, "max_request_size": 16_000}


def two_topics(brokers: FakeCluster) -> None:
    """One partition each: of "moving" on broker 1, of "stuck" on broker 2."""
    for name, leader in (("moving", 1), ("stuck", 2)):
        brokers.create_topic(name)
        brokers.move_leader(name, 0, leader)


async def use_both(producer: Producer) -> None:
    await producer.send("moving", b"first")
    await producer.send("stuck", b"first")


@asynccontextmanager
async def two_in_use(**options: Any) -> AsyncIterator[tuple[FakeCluster, Producer]]:
    """A producer with little memory that has sent to "moving" and to "stuck"."""
    async with FakeCluster(2) as brokers:
        two_topics(brokers)
        async with running(brokers, **(SMALL | options)) as producer:
            await use_both(producer)
            yield brokers, producer


async def until_retried(producer: Producer) -> None:
    """Have a batch for "stuck" in its backoff."""
    producer.send_nowait("stuck", b"second")
    while not producer.metrics()["record_retry_total"]:
        await asyncio.sleep(0.001)


async def flood(producer: Producer, topic: str) -> BufferFullError:
    """Send to a topic without a wait until that is refused for a second."""
    refused: BufferFullError | None = None
    for _ in range(100):
        try:
            for _ in range(100):
                producer.send_nowait(topic, KILOBYTE)
        except BufferFullError as error:
            refused = error
        await asyncio.sleep(0.01)
    assert refused is not None
    return refused


@in_simulated_time
async def test_a_topic_that_backs_off_leaves_room_for_one_that_moves() -> None:
    async with two_in_use(close_s=0.1) as (brokers, producer):
        place = TopicPartition("stuck", 0)
        brokers.fault(ProduceRequest, times=None, partition=place, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        await asyncio.gather(producer.send("moving", b"second"), until_retried(producer))
        moving = asyncio.create_task(flood(producer, "moving"))
        refused = await flood(producer, "stuck")
        await moving
        assert "stuck-0 holds" in str(refused)
        await producer.drain()
        assert 30_000 < producer.buffered.bytes < 36_000, "half of it, and a batch"
        assert len(brokers.records("moving")) > 1000
        for _ in range(100):
            await producer.send("moving", KILOBYTE)
        brokers.end_faults()


@in_simulated_time
async def test_what_a_silent_broker_got_before_it_was_noticed_takes_nothing_from_the_others() -> None:
    async with two_in_use(close_s=0.1) as (brokers, producer):
        brokers.freeze(2)
        refused = await flood(producer, "stuck")
        assert producer.buffered.bytes > 60_000, "it took all of it within one turn of the loop"
        assert "stuck-0 holds 63" in str(refused)
        await flood(producer, "moving")
        await producer.drain()
        assert len(brokers.records("moving")) > 1000
        assert producer.buffered.bytes < 32_000 + 64_000


@in_simulated_time
async def test_without_the_share_the_other_topic_starves() -> None:
    async with two_in_use(buffer_memory_stuck_fraction=1.0, close_s=0.1) as (brokers, producer):
        brokers.freeze(2)
        await flood(producer, "stuck")
        assert producer.buffered.bytes > 60_000


@in_simulated_time
async def test_while_all_brokers_are_away_all_of_the_memory_may_be_used() -> None:
    async with two_in_use(close_s=0.1) as (brokers, producer):
        brokers.freeze(1)
        brokers.freeze(2)
        await flood(producer, "stuck")
        assert producer.buffered.bytes > 60_000


@in_simulated_time
async def test_callers_of_the_stuck_topic_wait_in_order_until_its_broker_is_back() -> None:
    async with two_in_use() as (brokers, producer):
        brokers.freeze(2)
        await flood(producer, "stuck")
        waiting = [asyncio.create_task(producer.send("stuck", b"%d" % n)) for n in range(20)]
        many = asyncio.create_task(producer.send_many("stuck", [KILOBYTE] * 50))
        for _ in range(50):
            await producer.send("moving", KILOBYTE)
        await producer.send_many("moving", [KILOBYTE] * 200)
        assert not any(task.done() for task in [*waiting, many])
        brokers.thaw(2)
        offsets = [(await task).offset for task in waiting]
        assert offsets == sorted(offsets)
        await many


@in_simulated_time
async def test_drain_waits_for_half_of_the_memory_while_nothing_moves() -> None:
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t", 3)
        async with running(brokers, **SMALL) as producer:
            brokers.freeze(1)
            await flood(producer, "t")
            draining = asyncio.create_task(producer.drain())
            cancelled = asyncio.create_task(producer.drain())
            await asyncio.sleep(5)
            cancelled.cancel()
            assert not draining.done()
            assert producer.buffered.bytes > 60_000
            brokers.thaw(1)
            await draining
            assert producer.buffered.bytes <= 32_000
            with pytest.raises(asyncio.CancelledError):
                await cancelled


@in_simulated_time
async def test_drain_counts_without_the_stuck_topic_once_another_moves() -> None:
    async with two_in_use(close_s=0.1) as (brokers, producer):
        brokers.freeze(1)
        brokers.freeze(2)
        producer.send_nowait("moving", b"second")
        await flood(producer, "stuck")
        draining = asyncio.create_task(producer.drain())
        await asyncio.sleep(5)
        assert not draining.done()
        brokers.thaw(1)
        await draining
        assert producer.buffered.bytes > 60_000


@in_simulated_time
async def test_drain_ends_with_the_producer_while_nothing_moves() -> None:
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t")
        producer = new_producer(brokers.bootstrap, **SMALL)
        await begin(producer)
        brokers.freeze(1)
        await flood(producer, "t")
        draining = asyncio.create_task(producer.drain())
        await asyncio.sleep(1)
        await producer.close(0.1)
        with pytest.raises(ProducerClosedError):
            await draining


@in_simulated_time
async def test_drain_waits_for_the_share_after_a_refusal_of_its_task_only() -> None:
    async with two_in_use() as (brokers, producer):
        brokers.freeze(2)
        await flood(producer, "stuck")
        sent: list[str] = []

        async def send_all(topic: str) -> None:
            for _ in range(100):
                while True:
                    try:
                        producer.send_nowait(topic, KILOBYTE)
                        break
                    except BufferFullError:
                        await producer.drain()
            sent.append(topic)

        async with asyncio.TaskGroup() as group:
            group.create_task(send_all("stuck"))
            group.create_task(send_all("moving"))
            await asyncio.sleep(5)
            assert sent == ["moving"]
            brokers.thaw(2)
        assert sent == ["moving", "stuck"]


@in_simulated_time
async def test_a_bulk_call_that_reaches_a_stuck_partition_waits_for_the_share() -> None:
    async with FakeCluster(2) as brokers:
        brokers.create_topic("t", 2)
        brokers.move_leader("t", 0, 1)
        brokers.move_leader("t", 1, 2)
        async with running(brokers, **SMALL) as producer:
            await producer.send("t", b"first", partition=0)
            await producer.send("t", b"first", partition=1)
            brokers.freeze(2)
            keyed = asyncio.create_task(producer.send_many("t", [KILOBYTE] * 400, keys=[b"%d" % n for n in range(400)]))
            await asyncio.sleep(5)
            assert not keyed.done()
            for n in range(100):
                await producer.send("t", b"%d" % n, partition=0)
            brokers.thaw(2)
            await keyed
            assert len(brokers.records("t")) == 502


@pytest.mark.parametrize("fraction", [0.05, 1.1])
def test_the_share_is_a_tenth_at_least_and_all_at_most(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"buffer\.memory\.stuck\.fraction"):
        new_producer("localhost:9092", buffer_memory_stuck_fraction=fraction)
