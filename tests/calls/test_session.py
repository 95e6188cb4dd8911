from __future__ import annotations

import asyncio

import pytest

from aioprod.calls.session import check_topic_name
from aioprod.cluster import MetadataUpdate
from aioprod.cluster.topic_errors import UNKNOWN_ATTEMPTS
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    ErrorCode,
    InvalidTopicError,
    MetadataTimeoutError,
    ProtocolError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import ApiVersionsRequest, MetadataRequest
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.sessions import new_session, running_session


async def test_it_lives_once() -> None:
    async with FakeCluster() as brokers:
        session = new_session(brokers)
        with pytest.raises(UsageError, match="This reader is not started"):
            _ = session.client
        await session.start()
        with pytest.raises(UsageError, match="is running already"):
            await session.start()
        await session.close()
        await session.close()
        with pytest.raises(UsageError, match="This reader is closed"):
            _ = session.client


async def test_a_failed_start_leaves_no_tasks() -> None:
    async with FakeCluster() as brokers:
        brokers.fault(ApiVersionsRequest, times=None, silent=True)
        before = asyncio.all_tasks()
        with pytest.raises(MetadataTimeoutError, match="described the cluster"):
            await new_session(brokers, default_api_timeout_ms=20).start()
        assert not [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
    async with FakeCluster() as brokers:
        brokers.fault(ApiVersionsRequest, times=None, reply=b"HTTP/1.1 400 Bad Request")
        with pytest.raises(ProtocolError, match="HTTP"):
            await new_session(brokers).start()


async def test_another_loop_is_an_error() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:

        async def use() -> None:
            with pytest.raises(UsageError, match="another event loop"):
                _ = session.client

        await asyncio.to_thread(lambda: asyncio.run(use()))


def test_names_that_no_topic_has() -> None:
    check_topic_name("orders")
    for name in ("", "no topic", 7, None):
        with pytest.raises(InvalidTopicError):
            check_topic_name(name)


async def test_partitions_are_fetched_each_time() -> None:
    async with FakeCluster(2) as brokers, running_session(brokers) as session:
        topic = brokers.create_topic("orders", 2)
        assert [info.partition for info in await session.partitions("orders")] == [0, 1]
        topic.partitions.append(topic.partitions[0])
        assert [info.partition for info in await session.partitions("orders")] == [0, 1, 2]
        assert not [one for one in brokers.seen_of(MetadataRequest) if one.allow_auto_topic_creation]


async def test_a_topic_may_be_unknown_for_a_moment() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        brokers.create_topic("orders")
        brokers.fault(MetadataRequest, times=UNKNOWN_ATTEMPTS - 1, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert len(await session.partitions("orders")) == 1


async def test_topics_that_can_not_be_described() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        with pytest.raises(UnknownTopicError, match="Topic 'orders' does not exist"):
            await session.partitions("orders")
        assert "orders" not in session.client.metadata.tracked
        brokers.fault(MetadataRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(AuthorizationError) as failure:
            await session.partitions("orders")
        assert failure.value.resource == "orders"
        brokers.fault(MetadataRequest, error=ErrorCode.INVALID_TOPIC_EXCEPTION)
        with pytest.raises(InvalidTopicError, match="reject"):
            await session.partitions("orders")
        with pytest.raises(InvalidTopicError, match="other characters"):
            await session.partitions("no topic")


async def test_a_cluster_without_a_useful_answer() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        session.timeout_s = 1.0
        brokers.create_topic("orders")
        brokers.fault(MetadataRequest, times=None, error=ErrorCode.LEADER_NOT_AVAILABLE)
        with pytest.raises(MetadataTimeoutError, match="No broker could describe topic 'orders' in time: "):
            await session.partitions("orders")


async def test_waiting_for_leaders() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        topic = brokers.create_topic("orders", 2)
        brokers.fault(MetadataRequest, times=UNKNOWN_ATTEMPTS + 3, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        await session.wait_for_leaders("orders", session.clock() + 30)
        topic.partitions[1].leader = None
        with pytest.raises(MetadataTimeoutError, match="name the leaders of topic 'orders'"):
            await session.wait_for_leaders("orders", session.clock() + 0.05)
        waiting = asyncio.ensure_future(session.wait_for_leaders("orders", session.clock() + 30))
        await asyncio.sleep(0)
        brokers.state.move_leader(TopicPartition("orders", 1), 1)
        await waiting


async def test_waiters_fail_on_close_and_on_failure() -> None:
    async with FakeCluster() as brokers:
        session = new_session(brokers)
        await session.start()
        waiting = asyncio.ensure_future(session.change(30.0))
        await asyncio.sleep(0)
        session.metadata_changed(MetadataUpdate())
        await session.close()
        with pytest.raises(UsageError, match="closed"):
            await waiting
        async with running_session(brokers) as session:
            waiting = asyncio.ensure_future(session.change(float("inf")))
            await asyncio.sleep(0)
            session.client.failed(ValueError("a bug"))
            with pytest.raises(AioprodError, match=r"The client of this reader has failed: ValueError\('a bug'\)"):
                await waiting


async def test_a_change_is_news_or_what_else_is_waited_for() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        await session.change(float("inf"), [done])
        await session.change(0.001)
        waiting = asyncio.ensure_future(session.change(float("inf")))
        await session.partitions(brokers.create_topic("orders").name)
        await waiting
        assert waiting.done()


async def test_it_belongs_to_one_loop() -> None:
    async with FakeCluster() as brokers, running_session(brokers) as session:
        session.check_loop()
        with pytest.raises(UsageError, match=r"another event loop.*run_coroutine_threadsafe"):
            await asyncio.to_thread(session.check_loop)
