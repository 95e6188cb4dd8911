from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from aioprod import Producer, ProducerConfig, TransactionHandle, TransactionSession
from aioprod.errors import (
    AioprodError,
    ConfigError,
    ErrorCode,
    NotSentError,
    ProducerFencedError,
    RejectedError,
    TransactionAbortedError,
    UsageError,
)
from aioprod.messages import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, ProduceRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import State
from aioprod.types import TopicPartition

FAST = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "reconnect_backoff_ms": 1, "reconnect_backoff_max_ms": 5}
PARTITIONS = 6

both_versions = pytest.mark.parametrize("version", [1, 2])


@contextlib.asynccontextmanager
async def begun(version: int = 2, **options: Any) -> AsyncIterator[tuple[FakeCluster, TransactionSession]]:
    """A cluster with a topic, and a session for it."""
    async with FakeCluster(3, transaction_version=version) as cluster:
        cluster.create_topic("t", PARTITIONS)
        async with TransactionSession(cluster.bootstrap, **({"transactional_id": "load"} | FAST | options)) as session:
            yield cluster, session


def worker(cluster: FakeCluster, handle: TransactionHandle, **options: Any) -> Producer:
    """A producer in the transaction that is not started."""
    return handle.producer(cluster.bootstrap, **(FAST | options))


async def stored(cluster: FakeCluster) -> Counter[bytes | None]:
    """What readers of committed records see, and how often, once no transaction is being ended."""
    while any(one.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT) for one in cluster.state.transactions.values()):
        await asyncio.sleep(0.001)
    return Counter(None if record.value is None else bytes(record.value) for record in cluster.records("t"))


# -- together --------------------------------------------------------------------------------------------------------


@both_versions
async def test_several_producers_write_one_transaction(version: int) -> None:
    async with begun(version) as (cluster, session):
        handle = await session.begin()

        async def work(partition: int) -> None:
            async with worker(cluster, handle) as producer:
                for number in range(3):
                    await producer.send("t", b"%d:%d" % (partition, number), partition=partition)

        await asyncio.gather(*(work(partition) for partition in range(PARTITIONS)))
        assert await stored(cluster) == Counter()
        await session.commit()
        expected = [b"%d:%d" % (partition, number) for partition in range(PARTITIONS) for number in range(3)]
        assert await stored(cluster) == Counter(expected)
        requests = cluster.seen_of(ProduceRequest)
        assert {request.transactional_id for request in requests} == {"load"}
        assert len(cluster.seen_of(EndTxnRequest)) == 1
        assert len(cluster.seen_of(InitProducerIdRequest)) == 1


@both_versions
async def test_what_they_wrote_is_gone_after_an_abort(version: int) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            await producer.send("t", b"lost", partition=0)
        await session.abort()
        async with worker(cluster, await session.begin()) as producer:
            await producer.send("t", b"kept", partition=0)
        await session.commit()
        assert await stored(cluster) == Counter([b"kept"])


async def test_waiting_partitions_are_added_together() -> None:
    async with begun(1) as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            futures = [producer.submit("t", b"x", partition=partition) for partition in range(PARTITIONS)]
            await asyncio.gather(*futures)
        # One for the brokers that are connected first, and so on.
        added = [
            topic for request in cluster.seen_of(AddPartitionsToTxnRequest) for topic in request.v3_and_below_topics
        ]
        assert sorted(index for topic in added for index in topic.partitions) == list(range(PARTITIONS))
        assert len(added) <= len(cluster.brokers)
        versions = {one.header.version for one in cluster.seen if isinstance(one.message, ProduceRequest)}
        assert versions == {11}


async def test_nothing_is_added_where_requests_do_that() -> None:
    async with begun(2) as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            await producer.send("t", b"x", partition=0)
        assert not cluster.seen_of(AddPartitionsToTxnRequest)
        versions = {one.header.version for one in cluster.seen if isinstance(one.message, ProduceRequest)}
        assert versions == {13}


async def test_the_level_is_that_of_the_handle() -> None:
    async with begun(2) as (cluster, session):
        handle = replace(await session.begin(), transaction_version=1)
        async with worker(cluster, handle) as producer:
            await producer.send("t", b"x", partition=0)
        assert len(cluster.seen_of(AddPartitionsToTxnRequest)) == 1


@both_versions
async def test_a_transaction_without_records_of_a_worker(version: int) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin()):
            pass
        await session.abort()
        assert await stored(cluster) == Counter()


# -- the coordinator is busy -----------------------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS])
async def test_the_way_in_is_tried_again_and_does_not_count(version: int, code: ErrorCode) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin(), retries=1) as producer:
            cluster.fault(ProduceRequest, error=code, times=4)
            await producer.send("t", b"x", partition=0)
        await session.commit()
        assert await stored(cluster) == Counter([b"x"])


async def test_replicas_are_the_matter_once_a_partition_is_in() -> None:
    async with begun() as (cluster, session), worker(cluster, await session.begin(), retries=1) as producer:
        await producer.send("t", b"x", partition=0)
        cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
        with pytest.raises(RejectedError, match="NOT_ENOUGH_REPLICAS"):
            await producer.send("t", b"y", partition=0)


async def test_one_batch_is_on_the_wire_until_the_first_is_acknowledged() -> None:
    async with begun() as (cluster, session):
        async with worker(cluster, await session.begin(), batch_size=100, linger_ms=0) as producer:
            held = cluster.fault(ProduceRequest, hold=True)
            futures = [producer.submit("t", b"%50d" % number, partition=0) for number in range(20)]
            await held.reached.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(cluster.seen_of(ProduceRequest)) == 1
            held.release()
            await asyncio.gather(*futures)
        await session.commit()
        assert sum((await stored(cluster)).values()) == 20


# -- who comes too late ----------------------------------------------------------------------------------------------


@both_versions
async def test_a_straggler_of_an_older_epoch_is_rejected(version: int) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin()) as straggler, contextlib.AsyncExitStack() as stack:
            await straggler.send("t", b"old", partition=0)
            current = await stack.enter_async_context(worker(cluster, await session.begin()))
            await current.send("t", b"new", partition=0)
            for partition in (0, 1):
                with pytest.raises(AioprodError) as caught:
                    await straggler.send("t", b"late", partition=partition)
                assert isinstance(caught.value, (RejectedError, ProducerFencedError))
                with pytest.raises(ProducerFencedError):
                    await straggler.send("t", b"later", partition=partition)
            await session.commit()
        assert await stored(cluster) == Counter([b"new"])


@both_versions
async def test_a_straggler_after_the_end_is_rejected(version: int) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin()) as straggler:
            await straggler.send("t", b"in time", partition=0)
            await session.commit()
            if version == 1:
                # Its epoch is still the newest under transaction.version 1: hence the rule to begin each attempt.
                await session.begin()
            with pytest.raises(AioprodError):
                await straggler.send("t", b"late", partition=1)
        assert await stored(cluster) == Counter([b"in time"])


# -- failures --------------------------------------------------------------------------------------------------------


@both_versions
async def test_a_producer_that_lost_a_record_takes_no_more(version: int) -> None:
    async with begun(version) as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            cluster.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
            with pytest.raises(RejectedError):
                await producer.send("t", b"large", partition=0)
            with pytest.raises(TransactionAbortedError, match="the transaction has failed") as caught:
                await producer.send("t", b"next", partition=1)
            assert caught.value.hint == "Close this producer; the session has to abort the transaction."
        assert not cluster.seen_of(EndTxnRequest)
        await session.abort()
        assert await stored(cluster) == Counter()


async def test_partitions_that_may_not_be_added_fail_the_producer() -> None:
    async with begun(1) as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            cluster.fault(AddPartitionsToTxnRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            with pytest.raises(NotSentError) as caught:
                await producer.send("t", b"x", partition=0)
            assert isinstance(caught.value.__cause__, TransactionAbortedError)
            with pytest.raises(AioprodError, match="TOPIC_AUTHORIZATION_FAILED"):
                await producer.send("t", b"x", partition=1)
        await session.abort()


# -- what it is not for ----------------------------------------------------------------------------------------------


async def test_the_ends_of_a_transaction_are_not_the_workers() -> None:
    async with begun() as (cluster, session):
        async with worker(cluster, await session.begin()) as producer:
            calls = (
                producer.init_transactions,
                producer.begin_transaction,
                producer.commit_transaction,
                producer.abort_transaction,
            )
            for call in calls:
                with pytest.raises(UsageError, match="takes part in a transaction of 'load'"):
                    await call()
            with pytest.raises(UsageError, match="takes part in a transaction"):
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): 1}, "group")
            with pytest.raises(UsageError, match="takes part in a transaction"):
                async with producer.transaction():
                    pass
            await producer.send("t", b"x", partition=0)
        await session.commit()
        assert await stored(cluster) == Counter([b"x"])


async def test_a_producer_of_a_handle_starts_once() -> None:
    async with begun() as (cluster, session), worker(cluster, await session.begin()) as producer:
        with pytest.raises(UsageError, match="is running already"):
            await producer.start()


def test_the_handles_settings_cant_be_given() -> None:
    handle = TransactionHandle("load", 7, 3, 2, 60_000)
    with pytest.raises(ConfigError, match=r"transactional\.id can't be given: the transaction's handle has it\."):
        handle.producer("localhost:9092", transactional_id="other")
    config = ProducerConfig.from_options(bootstrap_servers="localhost:9092", transaction_timeout_ms=5)
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms can't be given"):
        handle.producer(config=config)
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms can't be given"):
        handle.producer(config={"bootstrap.servers": "localhost:9092", "transaction.timeout.ms": 5})
    settings = {"bootstrap.servers": "localhost:9092", "linger.ms": 7}
    assert handle.producer(config=settings).config.linger_ms == 7
    with pytest.raises(ConfigError, match="acks"):
        handle.producer("localhost:9092", acks=1)
    assert handle.producer("localhost:9092", linger_ms=7).config.linger_ms == 7
