"""`topic.recreation=follow`: what was meant for a topic that was deleted goes to the new topic of the same name."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import DeliveryError, ErrorCode, NotSentError, TransactionAbortedError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.producer.batching.batch import Batch
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, pass_time, running, turns, until

FOLLOW: dict[str, Any] = {"topic_recreation": "follow"}
VERSIONS = [(13, 12), (12, 12), (9, 10), (8, 12), (7, 9), (3, 4)]
"""Produce, and Metadata, which tells ids from 10 on."""


def speak(cluster: FakeCluster, produce: int, metadata: int) -> None:
    for broker in cluster.brokers.values():
        broker.versions[ProduceRequest] = (0, produce)
        broker.versions[MetadataRequest] = (0, metadata)


def values(cluster: FakeCluster, partition: int | None = None) -> list[bytes | None]:
    return [record.value for record in cluster.records("t", partition)]


def held_for(producer: Producer) -> list[Batch]:
    return list(producer._engine.parts.accumulator.incomplete)


@pytest.fixture
async def cluster() -> Any:
    async with FakeCluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=3)
        yield cluster


@pytest.mark.parametrize(("produce", "metadata"), VERSIONS)
@pytest.mark.parametrize("idempotence", [True, False])
async def test_records_go_to_the_new_topic(
    cluster: FakeCluster, produce: int, metadata: int, idempotence: bool
) -> None:
    speak(cluster, produce, metadata)
    async with running(cluster, enable_idempotence=idempotence, **FOLLOW) as producer:
        await producer.send("t", b"before", partition=0)
        cluster.recreate_topic("t")
        async with asyncio.timeout(10):
            assert (await producer.send("t", b"1", partition=0)).offset == 0
            assert (await producer.send("t", b"2", partition=0)).offset == 1
    assert values(cluster) == [b"1", b"2"]


@pytest.mark.parametrize(("produce", "metadata"), VERSIONS)
@pytest.mark.parametrize("loss", ["before", "after", None], ids=["not stored", "answers lost", "refused"])
async def test_what_is_in_flight_and_behind_it_follows_once_and_in_order(
    cluster: FakeCluster, produce: int, metadata: int, loss: Any
) -> None:
    speak(cluster, produce, metadata)
    clock = ShiftedClock()
    options: dict[str, Any] = {"batch_size": 0, "metadata_max_age_ms": 1000, "delivery_timeout_ms": 600_000}
    async with running(cluster, clock=clock, **options, **FOLLOW) as producer:
        await producer.send("t", b"before", partition=0)
        held = cluster.fault(ProduceRequest, hold=True, drop=loss, times=None)
        futures = [producer.submit("t", b"%02d" % n, partition=0) for n in range(20)]
        await held.reached.wait()
        await turns()
        new = cluster.recreate_topic("t")
        held.times = held.hits
        held.release()
        pass_time(producer, clock, 2.0)
        async with asyncio.timeout(10):
            for future in futures:
                await future
        if metadata >= 10:
            await until(lambda: producer._engine.parts.client.metadata.cluster.topic_id("t") == new.id)
    # A request that names the topic may have reached the new log although its answer was lost: it is there once.
    assert values(cluster) == [b"%02d" % n for n in range(20)]


async def test_what_waits_for_a_leader_or_a_retry_follows(cluster: FakeCluster) -> None:
    clock = ShiftedClock()
    slow: dict[str, Any] = {"retry_backoff_ms": 50_000, "retry_backoff_max_ms": 50_000, "delivery_timeout_ms": 900_000}
    async with running(cluster, clock=clock, metadata_max_age_ms=100_000, **slow, **FOLLOW) as producer:
        await producer.partitions_for("t")
        refused = cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        retried = producer.submit("t", b"retried", partition=0)
        await until(lambda: producer.metrics()["record_retry_total"])
        cluster.state.move_leader(TopicPartition("t", 1), None)
        pass_time(producer, clock, 101.0)
        refused.times = 2
        await until(lambda: producer._engine.parts.accumulator.topics["t"].partitions[1].queue is None)
        leaderless = producer.submit("t", b"leaderless", partition=1)
        cluster.recreate_topic("t")
        pass_time(producer, clock, 101.0)
        async with asyncio.timeout(10):
            assert (await leaderless).offset == 0
            assert (await retried).offset == 0
    assert (values(cluster, 0), values(cluster, 1)) == ([b"retried"], [b"leaderless"])


@pytest.mark.parametrize("recreation", ["fail", "follow"])
async def test_the_first_batch_of_the_new_log_goes_alone(cluster: FakeCluster, recreation: str) -> None:
    """A log that knows nothing of the producer would take a later one in its place."""
    clock = ShiftedClock()
    options: dict[str, Any] = {"batch_size": 0, "metadata_max_age_ms": 1000, "topic_recreation": recreation}
    async with running(cluster, clock=clock, **options) as producer:
        await producer.send("t", b"before", partition=0)
        new = cluster.recreate_topic("t")
        pass_time(producer, clock, 2.0)
        await until(lambda: producer._engine.parts.client.metadata.cluster.topic_id("t") == new.id)
        await turns()
        cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        futures = [producer.submit("t", b"%d" % n, partition=0) for n in range(9)]
        assert [(await future).offset for future in futures] == list(range(9))
    assert values(cluster) == [b"%d" % n for n in range(9)]


async def test_what_can_not_follow_into_fewer_partitions_fails(cluster: FakeCluster) -> None:
    clock = ShiftedClock()
    async with running(cluster, clock=clock, metadata_max_age_ms=1000, **FOLLOW) as producer:
        for index in range(3):
            await producer.send("t", b"before", partition=index)
        cluster.recreate_topic("t", partitions=2)
        futures = [producer.submit("t", b"v", partition=index) for index in range(3)]
        pass_time(producer, clock, 2.0)
        async with asyncio.timeout(10):
            for future in futures[:2]:
                assert (await future).offset == 0
            with pytest.raises(DeliveryError, match="created again with 2 partitions, so that it can't follow"):
                await futures[2]
    assert values(cluster) == [b"v", b"v"]


async def test_what_belongs_to_a_transaction_does_not_follow(cluster: FakeCluster) -> None:
    async with running(cluster, transactional_id="id", **FOLLOW) as producer:
        async with producer.transaction():
            await producer.send("t", b"before", partition=0)
        await producer.begin_transaction()
        await producer.send("t", b"also before", partition=0)
        cluster.recreate_topic("t")
        with pytest.raises(DeliveryError, match="what belongs to a transaction does not follow"):
            await producer.send("t", b"1", partition=0)
        with pytest.raises(TransactionAbortedError):
            await producer.commit_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("t", b"2", partition=0)
    await until(lambda: values(cluster) == [b"2"])


async def test_a_topic_that_stays_away_for_a_while(cluster: FakeCluster) -> None:
    cluster.state.auto_create = False
    async with running(cluster, **FOLLOW) as producer:
        await producer.send("t", b"before", partition=0)
        cluster.delete_topic("t")
        futures = [producer.submit("t", b"%d" % n, partition=0) for n in range(5)]
        await until(lambda: producer.metrics()["record_retry_total"] >= 2)
        cluster.create_topic("t", partitions=3)
        async with asyncio.timeout(10):
            assert [(await future).offset for future in futures] == [0, 1, 2, 3, 4]


async def test_without_ids_a_topic_that_was_gone_may_have_older_epochs(cluster: FakeCluster) -> None:
    """Brokers before 2.8: that the topic was not there is all that tells it from a broker that lags behind."""
    cluster.state.auto_create = False
    cluster.state.leader_hints = False
    speak(cluster, 8, 9)
    async with running(cluster, **FOLLOW) as producer:
        for _ in range(4):
            cluster.move_leader("t", 0, to=2)
        await producer.send("t", b"before", partition=0)
        cluster.delete_topic("t")
        future = producer.submit("t", b"1", partition=0)
        await until(lambda: producer._engine.parts.client.metadata.topic_error("t"))
        cluster.create_topic("t", partitions=3)
        assert cluster.topics["t"].partitions[0].leader == 1
        async with asyncio.timeout(10):
            assert (await future).offset == 0


async def test_it_is_logged(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod.producer")
    clock = ShiftedClock()
    async with running(cluster, clock=clock, metadata_max_age_ms=1000, **FOLLOW) as producer:
        await producer.partitions_for("t")
        cluster.state.move_leader(TopicPartition("t", 1), None)
        pass_time(producer, clock, 2.0)
        await until(lambda: producer._engine.parts.accumulator.topics["t"].partitions[1].queue is None)
        future = producer.submit("t", b"1", partition=1)
        cluster.recreate_topic("t")
        pass_time(producer, clock, 2.0)
        await future
    assert "Topic 't' was deleted and created again: 1 batch of the old one follows" in caplog.text


async def test_by_default_nothing_follows(cluster: FakeCluster) -> None:
    clock = ShiftedClock()
    async with running(cluster, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.partitions_for("t")
        cluster.state.move_leader(TopicPartition("t", 1), None)
        pass_time(producer, clock, 2.0)
        await until(lambda: producer._engine.parts.accumulator.topics["t"].partitions[1].queue is None)
        future = producer.submit("t", b"1", partition=1)
        cluster.recreate_topic("t")
        pass_time(producer, clock, 2.0)
        with pytest.raises(NotSentError, match=r"created again \(topic.recreation=fail\)"):
            await future
        assert held_for(producer) == []
    assert values(cluster) == []
