"""A fetcher and the fetch sessions of brokers (KIP-227)."""

from __future__ import annotations

import asyncio

import pytest

from aioprod.errors import ErrorCode
from aioprod.messages import FetchRequest
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.fetchers import places, running_fetcher, take, until
from tests.support.length import by_length
from tests.support.stored_batches import fill

MANY = by_length(3_000, 10_000)


def named(request: FetchRequest) -> list[int]:
    return [row.partition for topic in request.topics for row in topic.partitions]


def forgotten(request: FetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def orders(*partitions: int) -> dict[TopicPartition, int]:
    return {TopicPartition("orders", index): 0 for index in partitions}


async def test_only_what_has_changed_is_requested_again() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        topic = brokers.create_topic("orders", 4)
        fetcher.add(orders(0, 1, 2, 3))
        waiting = asyncio.ensure_future(fetcher.next_list(5, 60))
        await until(lambda: len(brokers.seen_of(FetchRequest)) >= 3)
        requests = brokers.seen_of(FetchRequest)
        assert [(one.session_epoch, named(one)) for one in requests[:3]] == [(0, [0, 1, 2, 3]), (1, []), (2, [])]
        assert len({one.session_id for one in requests[1:]}) == 1
        seen = len(requests)
        fill(topic.partitions[2], 5)
        assert places(await waiting or []) == {TopicPartition("orders", 2): [0, 1, 2, 3, 4]}
        waiting = asyncio.ensure_future(fetcher.next_list(1, 60))
        await until(lambda: len(brokers.seen_of(FetchRequest)) >= seen + 3)
        later = brokers.seen_of(FetchRequest)[seen:]
        assert {index for one in later for index in named(one)} == {2}
        fetcher.interrupt()
        await waiting


async def test_partitions_that_are_paused_dropped_and_added() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        brokers.create_topic("orders", 4)
        fetcher.add(orders(0, 1, 2))
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(brokers.seen_of(FetchRequest)) >= 2)
        fetcher.pause(orders(0))
        await until(lambda: forgotten(brokers.seen_of(FetchRequest)[-1]) == [0])
        fetcher.drop(orders(1))
        await until(lambda: forgotten(brokers.seen_of(FetchRequest)[-1]) == [1])
        fetcher.resume(orders(0))
        fetcher.add(orders(3))
        await until(
            lambda: sorted(index for one in brokers.seen_of(FetchRequest)[-2:] for index in named(one)) == [0, 3]
        )
        assert {one.session_epoch for one in brokers.seen_of(FetchRequest)} >= {0, 1, 2, 3}
        assert sum(one.session_epoch == 0 for one in brokers.seen_of(FetchRequest)) == 1
        fetcher.interrupt()
        await waiting


@pytest.mark.parametrize("slots", [0, 1000])
async def test_what_is_read_does_not_depend_on_room_for_sessions(slots: int) -> None:
    async with FakeCluster(2) as brokers, running_fetcher(brokers) as fetcher:
        for node_id in brokers.brokers:
            brokers.state.fetch_sessions(node_id).slots = slots
        topic = brokers.create_topic("orders", 6)
        fetcher.add(orders(*range(6)))
        for round_ in range(3):
            for partition in topic.partitions:
                fill(partition, 10)
            found = places(await take(fetcher, 60))
            assert found == {tp: list(range(10 * round_, 10 * round_ + 10)) for tp in orders(*range(6))}
        assert any(one.session_epoch > 0 for one in brokers.seen_of(FetchRequest)) == bool(slots)


async def test_sessions_that_brokers_have_evicted_or_lost_begin_again() -> None:
    async with FakeCluster(2) as brokers, running_fetcher(brokers) as fetcher:
        topic = brokers.create_topic("orders", 4)
        fetcher.add(orders(*range(4)))
        found = []
        for round_ in range(6):
            for partition in topic.partitions:
                fill(partition, 3)
            found += await take(fetcher, 12)
            if round_ % 2:
                brokers.state.fetch_sessions(1 + round_ % 2).clear()
            else:
                await brokers.restart(1)
                for index in (0, 2):
                    brokers.move_leader("orders", index, 1)
        assert places(found) == {tp: list(range(18)) for tp in orders(*range(4))}
        assert sum(one.session_epoch == 0 for one in brokers.seen_of(FetchRequest)) > 2


async def test_an_error_for_the_whole_response_is_retried() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("orders").partitions[0], 2)
        brokers.fault(FetchRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        fetcher.add(orders(0))
        assert places(await take(fetcher, 2)) == {TopicPartition("orders", 0): [0, 1]}


async def test_topics_created_again_are_read_in_the_same_session() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, metadata_max_age_ms=50) as fetcher:
        fill(brokers.create_topic("orders").partitions[0], 3)
        fetcher.add(orders(0))
        await take(fetcher, 3)
        fill(brokers.recreate_topic("orders").partitions[0], 2)
        assert places(await take(fetcher, 2)) == {TopicPartition("orders", 0): [0, 1]}


async def test_thousands_of_partitions_are_named_once() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        topic = brokers.create_topic("orders", MANY)
        fetcher.add(orders(*range(MANY)))
        for index in (7, MANY // 2, MANY - 1):
            fill(topic.partitions[index], 1)
            assert places(await take(fetcher, 1)) == {TopicPartition("orders", index): [0]}
        counts = [len(named(one)) for one in brokers.seen_of(FetchRequest)]
        assert max(counts) == 1000, "no request names so many that it takes long"
        assert MANY <= sum(counts) <= MANY + 3
