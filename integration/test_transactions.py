"""Transactions on real brokers of both transaction versions; confluent-kafka and our reader see what was committed."""

from __future__ import annotations

import asyncio
import random
import uuid
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from confluent_kafka import Consumer

from aioprod import Producer, TopicPartition
from aioprod.errors import (
    ConfigError,
    NotSentError,
    ProducerFencedError,
    RejectedError,
    TransactionAbortedError,
    UsageError,
)
from aioprod.reader import read
from aioprod.testing import KafkaCluster
from integration.support.brokers import STRICT, VERSIONS, SharedClusters, transaction_version
from integration.support.clusters import MakeTopic, dead
from integration.support.groups import group_offset
from integration.support.reading import committed

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker; a test that kills it brings it back."""
    return shared_clusters(version=request.param, **STRICT)


def new_id() -> str:
    return f"id-{uuid.uuid4().hex[:8]}"


def new_producer(cluster: KafkaCluster, transactional_id: str | None = None, **options: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, transactional_id=transactional_id or new_id(), **options)


async def fail(
    producer: Producer, topic: str, error: Exception, offsets: dict[TopicPartition, int], group: str
) -> None:
    """A transaction of one record, and offsets if there are any, that ends with an exception of the user."""
    async with producer.transaction():
        await producer.send(topic, b"lost")
        await producer.send_offsets_to_transaction(offsets, group)
        raise error


async def ours(
    cluster: KafkaCluster, topic: str, isolation: Literal["read_uncommitted", "read_committed"] = "read_committed"
) -> list[bytes | None]:
    servers = cluster.bootstrap_servers
    records = [record async for record in read(topic, bootstrap_servers=servers, isolation_level=isolation)]
    return [record.value for record in sorted(records, key=lambda record: (record.partition, record.offset))]


async def check(cluster: KafkaCluster, topic: str, *values: bytes) -> None:
    """Both readers see these values, in any order, and no others."""
    assert sorted(record.value or b"" for record in await committed(cluster, topic)) == sorted(values)
    assert sorted(value or b"" for value in await ours(cluster, topic)) == sorted(values)


# --- what becomes of records


async def test_the_version_is_the_one_that_the_cluster_has_finalized(cluster: KafkaCluster) -> None:
    async with new_producer(cluster) as producer:
        level = producer._engine.parts.client.feature("transaction.version")
    assert max(level, 1) == transaction_version(cluster)


async def test_a_commit_shows_all_records_at_once(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, other = await make_topic(cluster, 3), await make_topic(cluster)
    async with new_producer(cluster) as producer, producer.transaction():
        for number in range(30):
            producer.submit(topic, b"%d" % number, partition=number % 3)
        await producer.send(other, b"other")
        await producer.flush()
        assert await ours(cluster, topic) == []
        assert len(await ours(cluster, topic, "read_uncommitted")) == 30
    await check(cluster, topic, *(b"%d" % number for number in range(30)))
    await check(cluster, other, b"other")


async def test_many_transactions_follow_each_other(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 4)
    kept: list[bytes] = []
    chance = random.Random(5)
    async with new_producer(cluster) as producer:
        for number in range(40):
            await producer.begin_transaction()
            values = [b"%d-%d" % (number, index) for index in range(chance.randrange(20))]
            for value in values:
                producer.send_nowait(topic, value, partition=chance.randrange(4))
            if chance.random() < 0.5:
                await producer.commit_transaction()
                kept += values
            else:
                if chance.random() < 0.5:
                    await producer.flush()
                await producer.abort_transaction()
    await check(cluster, topic, *kept)


async def test_an_exception_aborts(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster) as producer:
        reason = ValueError("the user's own")
        with pytest.raises(ValueError, match="the user's own") as raised:
            await fail(producer, topic, reason, {}, "none")
        assert raised.value is reason
        async with producer.transaction():
            await producer.send(topic, b"kept")
    await check(cluster, topic, b"kept")
    assert len(await ours(cluster, topic, "read_uncommitted")) == 2


async def test_a_cancellation_aborts(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    sent = asyncio.Event()

    async def work(producer: Producer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"lost")
            sent.set()
            await asyncio.sleep(3600)

    async with new_producer(cluster) as producer:
        task = asyncio.create_task(work(producer))
        await sent.wait()
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError):
            await task
        async with producer.transaction():
            await producer.send(topic, b"kept")
    await check(cluster, topic, b"kept")


async def test_what_is_not_sent_at_an_abort_never_is(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster, linger_ms=60_000, adaptive_linger=False, delivery_timeout_ms=120_000) as producer:
        await producer.begin_transaction()
        future = producer.submit(topic, b"lost")
        await producer.abort_transaction()
        with pytest.raises(NotSentError) as raised:
            await future
        assert isinstance(raised.value.__cause__, TransactionAbortedError)
        async with producer.transaction():
            producer.submit(topic, b"kept")
    await check(cluster, topic, b"kept")
    assert await ours(cluster, topic, "read_uncommitted") == [b"kept"]


async def test_a_transaction_without_records(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster) as producer:
        async with producer.transaction():
            pass
        await producer.begin_transaction()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send(topic, b"kept")
    await check(cluster, topic, b"kept")


async def test_a_record_that_is_refused_fails_the_transaction(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, small = await make_topic(cluster), await make_topic(cluster, max_message_bytes=200)
    async with new_producer(cluster) as producer:
        for _ in range(3):
            await producer.begin_transaction()
            await producer.send(topic, b"lost")
            with pytest.raises(RejectedError):
                await producer.send(small, bytes(1000))
            with pytest.raises(TransactionAbortedError):
                await producer.send(topic, b"never taken")
            with pytest.raises(TransactionAbortedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(topic, b"kept")
                await producer.send(small, b"kept")
    await check(cluster, topic, *[b"kept"] * 3)
    await check(cluster, small, *[b"kept"] * 3)


async def test_close_aborts_what_is_open(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"lost")
    async with new_producer(cluster) as producer, producer.transaction():
        await producer.send(topic, b"kept")
    # Nothing holds back the reader: the first transaction is not open any more.
    await check(cluster, topic, b"kept")


# --- who else has the id


async def test_a_second_producer_fences_the_first(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, name = await make_topic(cluster), new_id()
    async with new_producer(cluster, name) as first:
        await first.begin_transaction()
        await first.send(topic, b"lost")
        async with new_producer(cluster, name) as second:
            with pytest.raises(ProducerFencedError, match=name):
                await first.commit_transaction()
            for call in (first.begin_transaction, first.commit_transaction, first.abort_transaction):
                with pytest.raises(ProducerFencedError):
                    await call()
            with pytest.raises(ProducerFencedError):
                await first.send(topic, b"never taken")
            async with second.transaction():
                await second.send(topic, b"kept")
    await check(cluster, topic, b"kept")


async def test_records_of_one_that_is_fenced_are_rejected(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic, name = await make_topic(cluster), new_id()
    async with new_producer(cluster, name) as first:
        await first.begin_transaction()
        await first.send(topic, b"lost")
        async with new_producer(cluster, name):
            with pytest.raises(RejectedError):
                await first.send(topic, b"too late")
            with pytest.raises(ProducerFencedError):
                await first.abort_transaction()
    await check(cluster, topic)


async def test_a_transaction_that_is_open_for_too_long(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster, transaction_timeout_ms=1000) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"lost")
        async with asyncio.timeout(60):
            while True:
                try:
                    await producer.send(topic, b"lost")
                except RejectedError:
                    break
                await asyncio.sleep(0.2)
        with pytest.raises(ProducerFencedError, match=r"transaction\.timeout\.ms=1000"):
            await producer.commit_transaction()
    await check(cluster, topic)


async def test_a_timeout_that_the_cluster_does_not_allow(cluster: KafkaCluster) -> None:
    producer = new_producer(cluster, transaction_timeout_ms=24 * 3600 * 1000)
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms=86400000"):
        await producer.start()


# --- the coordinator goes away


async def test_a_broker_that_is_killed_and_comes_back(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 2)
    async with new_producer(cluster) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"before", partition=0)
        async with dead(cluster, 1):
            pass
        await producer.send(topic, b"after", partition=1)
        await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.send(topic, b"lost", partition=0)
        async with dead(cluster, 1):
            aborting = asyncio.create_task(producer.abort_transaction())
        await aborting
    await check(cluster, topic, b"before", b"after")


async def test_a_broker_that_is_restarted_in_order_during_commits(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 2)
    async with new_producer(cluster) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"kept", partition=0)
        stopping = asyncio.create_task(cluster.stop_broker(1))
        await asyncio.sleep(0)
        committing = asyncio.create_task(producer.commit_transaction())
        await stopping
        await cluster.restart(1)
        await committing
        async with producer.transaction():
            await producer.send(topic, b"kept too", partition=1)
    await check(cluster, topic, b"kept", b"kept too")


# --- a group's offsets


async def test_offsets_are_committed_with_the_transaction(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    source, target, group = await make_topic(cluster), await make_topic(cluster), new_id()
    async with new_producer(cluster) as producer:
        async with producer.transaction():
            await producer.send(target, b"kept")
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): 7}, group)
        assert await group_offset(cluster, group, source) == 7
        with pytest.raises(ValueError, match="no"):
            await fail(producer, target, ValueError("no"), {TopicPartition(source, 0): 9}, group)
        assert await group_offset(cluster, group, source) == 7
        async with producer.transaction():
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): 8}, group)
    assert await group_offset(cluster, group, source) == 8
    await check(cluster, target, b"kept")


@dataclass
class Member:
    """As aiokafka and others describe a member of a group."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


async def test_a_member_that_was_replaced_can_not_commit(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    source, group = await make_topic(cluster), new_id()
    joined = asyncio.Event()
    loop = asyncio.get_running_loop()

    def assigned(_consumer: object, _partitions: object) -> None:
        loop.call_soon_threadsafe(joined.set)

    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    consumer.subscribe([source], on_assign=assigned)
    try:
        async with asyncio.timeout(60):
            while not joined.is_set():
                await asyncio.to_thread(consumer.poll, 0.1)
        async with new_producer(cluster) as producer:
            async with producer.transaction():
                await producer.send_offsets_to_transaction({TopicPartition(source, 0): 3}, Member(group))
            await producer.begin_transaction()
            zombie = Member(group, generation_id=77, member_id="a zombie")
            with pytest.raises(TransactionAbortedError):
                await producer.send_offsets_to_transaction({TopicPartition(source, 0): 5}, zombie)
            with pytest.raises(TransactionAbortedError):
                await producer.commit_transaction()
            await producer.abort_transaction()
    finally:
        await asyncio.to_thread(consumer.close)
    assert await group_offset(cluster, group, source) == 3


# --- use


async def test_calls_in_the_wrong_state(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster)
    async with new_producer(cluster) as producer:
        await producer.init_transactions()
        for call in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(UsageError, match="no transaction is open"):
                await call()
        with pytest.raises(UsageError, match="no transaction is open"):
            await producer.send(topic, b"outside")
        async with producer.transaction():
            with pytest.raises(UsageError, match="don't nest"):
                await producer.begin_transaction()
            await producer.send(topic, b"kept")
        await producer.flush()
    async with Producer(cluster.bootstrap_servers) as plain:
        with pytest.raises(UsageError, match=r"no transactional\.id"):
            await plain.begin_transaction()
    await check(cluster, topic, b"kept")
