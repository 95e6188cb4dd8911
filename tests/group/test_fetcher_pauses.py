"""Partitions that are paused, and records in lists."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod.errors import SerializationError
from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest
from aioprod.records import Compression, ControlType
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.fetchers import given, places, running_fetcher, take, until
from tests.support.stored_batches import append, fill, stored_batch

P0, P1 = (TopicPartition("t", index) for index in range(2))
AN_HOUR_S = 3600.0


def filled(brokers: FakeCluster, *counts: int, batch_records: int = 1) -> None:
    """Create topic "t" with so many records in each of its partitions."""
    for log, count in zip(brokers.create_topic("t", len(counts)).partitions, counts, strict=True):
        fill(log, count, batch_records=batch_records)


async def take_list(fetcher: Fetcher, max_records: int, max_wait_s: float = 0.0) -> list[ConsumedRecord]:
    async with asyncio.timeout(30):
        records = await fetcher.next_list(max_records, max_wait_s)
    assert records is not None
    return records


def fetched_partitions(brokers: FakeCluster) -> list[int]:
    """The partitions of the last Fetch request."""
    return [row.partition for topic in brokers.seen_of(FetchRequest)[-1].topics for row in topic.partitions]


# --- paused


async def test_a_paused_partition_is_neither_returned_nor_fetched() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 10, 10)
        fetcher.add({P0: 0, P1: 0})
        (first,) = await take(fetcher, 1)
        paused = TopicPartition(first.topic, first.partition)
        other = P1 if paused == P0 else P0
        fetcher.pause([paused])
        assert fetcher.paused == {paused}
        assert places(await take(fetcher, 10)) == {other: list(range(10))}
        assert fetcher.positions == {paused: 1, other: 10}
        waiting = asyncio.ensure_future(fetcher.next())
        seen = len(brokers.seen_of(FetchRequest))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > seen)
        assert fetched_partitions(brokers) == [other.partition]
        fetcher.resume([paused])
        assert (await given(waiting)).offset == 1
        assert places(await take(fetcher, 8)) == {paused: list(range(2, 10))}


async def test_what_was_fetched_is_kept_in_order_and_not_fetched_again() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 9, batch_records=3)
        fetcher.add({P0: 0})
        found = await take(fetcher, 1)
        for _ in range(3):
            fetcher.pause([P0])
            waiting = asyncio.ensure_future(fetcher.next())
            await asyncio.sleep(0)
            fetcher.resume([P0])
            found += [await given(waiting), *await take(fetcher, 1)]
        found += await take(fetcher, 2)
        assert places(found) == {P0: list(range(9))}
        assert len(brokers.seen_of(FetchRequest)) == 1


async def test_an_answer_that_was_on_its_way_is_kept() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 3, 1)
        held = brokers.fault(FetchRequest, hold=True)
        fetcher.add({P0: 0, P1: 0})
        waiting = asyncio.ensure_future(fetcher.next())
        await held.reached.wait()
        fetcher.pause([P0])
        held.release()
        assert (await given(waiting)).partition == 1
        assert fetcher.positions == {P0: 0, P1: 1}
        fetcher.resume([P0])
        assert places(await take(fetcher, 3)) == {P0: [0, 1, 2]}
        assert len(brokers.seen_of(FetchRequest)) == 1


async def test_a_seek_keeps_the_pause_and_a_drop_ends_it() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 5)
        fetcher.add({P0: 0})
        await take(fetcher, 1)
        fetcher.pause([P0])
        fetcher.add({P0: 3})
        assert fetcher.paused == {P0}
        assert fetcher.positions == {P0: 3}
        fetcher.resume([P0])
        assert (await take(fetcher, 1))[0].offset == 3
        fetcher.pause([P0])
        fetcher.drop([P0])
        fetcher.add({P0: 2})
        assert fetcher.paused == frozenset()
        assert (await take(fetcher, 1))[0].offset == 2


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_the_lag(isolation: str) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, isolation_level=isolation) as fetcher:
        log = brokers.create_topic("t").partitions[0]
        append(log, stored_batch([b"a", b"b"], producer_id=7, transactional=True))
        log.end_transaction(ControlType.COMMIT, 7, 0, 1000)
        append(log, stored_batch([b"open"], producer_id=8, transactional=True))
        fetcher.add({P0: 0})
        assert fetcher.lag == {P0: None}
        await take(fetcher, 1)
        assert fetcher.lag == {P0: 2 if isolation == "read_committed" else 3}
        fetcher.add({P0: -2})
        assert fetcher.lag == {P0: None}


# --- lists


async def test_a_list_has_the_fetched_records_up_to_its_maximum() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 4, 6, batch_records=2)
        fetcher.add({P0: 0, P1: 0})
        first = await take_list(fetcher, 3)
        assert len(first) == 3
        rest = await take_list(fetcher, 100)
        assert len(rest) == 7
        assert places([*first, *rest]) == {P0: list(range(4)), P1: list(range(6))}
        assert [one.partition for one in rest] == sorted(one.partition for one in rest)
        assert fetcher.positions == {P0: 4, P1: 6}
        assert fetcher.records_returned == 10


async def test_a_list_waits_for_more() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 2)
        fetcher.add({P0: 0})
        waiting = asyncio.ensure_future(take_list(fetcher, 5, AN_HOUR_S))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 1)
        assert fetcher.positions == {P0: 0}
        fill(brokers.topics["t"].partitions[0], 4)
        brokers.state.wake_fetches()
        assert [one.offset for one in await waiting] == [0, 1, 2, 3, 4]
        assert fetcher.positions == {P0: 5}


async def test_a_list_that_is_due_is_returned_before_it_is_full() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=600_000) as fetcher:
        filled(brokers, 2)
        fetcher.add({P0: 0})
        assert len(await take_list(fetcher, 5, 0.01)) == 2


async def test_a_cancelled_list_loses_nothing() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 4)
        fetcher.add({P0: 0})
        waiting = asyncio.ensure_future(fetcher.next_list(5, AN_HOUR_S))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert fetcher.positions == {P0: 0}
        assert [one.offset for one in await take(fetcher, 1)] == [0]
        assert fetcher.positions == {P0: 1}
        assert [one.offset for one in await take_list(fetcher, 2)] == [1, 2]
        fetcher.add({P0: 1})
        assert [one.offset for one in await take_list(fetcher, 9)] == [1, 2, 3]


async def test_the_wait_of_a_list_is_that_of_the_call() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, fetch_max_wait_ms=600_000) as fetcher:
        filled(brokers, 2)
        fetcher.add({P0: 0})
        waiting = asyncio.ensure_future(fetcher.next_list(5, AN_HOUR_S))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert len(await take_list(fetcher, 5, 0.001)) == 2


async def test_gathered_records_are_kept_while_their_partition_is_paused() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 2, 2)
        fetcher.add({P0: 0, P1: 0})
        waiting = asyncio.ensure_future(fetcher.next_list(5, AN_HOUR_S))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 1)
        fetcher.pause([P0])
        waiting.cancel()
        await asyncio.wait([waiting])
        assert places(await take_list(fetcher, 2)) == {P1: [0, 1]}
        assert fetcher.positions == {P0: 0, P1: 2}
        fetcher.resume([P0])
        assert places(await take_list(fetcher, 2)) == {P0: [0, 1]}


async def test_an_interruption_returns_no_list() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        filled(brokers, 2)
        fetcher.add({P0: 0})
        waiting = asyncio.ensure_future(fetcher.next_list(5, AN_HOUR_S))
        await until(lambda: len(brokers.seen_of(FetchRequest)) > 1)
        fetcher.interrupt()
        async with asyncio.timeout(30):
            assert await waiting is None
        fetcher.drop([P0])
        waiting = asyncio.ensure_future(fetcher.next_list(5, AN_HOUR_S))
        await asyncio.sleep(0)
        fetcher.interrupt()
        async with asyncio.timeout(30):
            assert await waiting is None
        assert fetcher.records_returned == 0


def _no_three(data: bytes) -> Any:
    if data == b"3":
        raise ValueError("no three")
    return data


async def test_records_before_an_error_are_returned_first() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, value_deserializer=_no_three) as fetcher:
        filled(brokers, 6)
        fetcher.add({P0: 0})
        assert [one.offset for one in await take_list(fetcher, 5)] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(SerializationError, match="no three"):
                await take_list(fetcher, 5)
        fetcher.add({P0: 4})
        assert [one.offset for one in await take_list(fetcher, 5)] == [4, 5]


async def test_large_batches_of_a_paused_partition() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        log = brokers.create_topic("t").partitions[0]
        append(log, stored_batch([bytes(300_000), b"b"], codec=Compression.NONE))
        append(log, stored_batch([bytes(range(256)) * 2000, b"d"], codec=Compression.LZ4))
        fetcher.add({P0: 0})
        found = []
        for _ in range(4):
            found += await take(fetcher, 1)
            fetcher.pause([P0])
            waiting = asyncio.ensure_future(fetcher.next())
            await asyncio.sleep(0)
            fetcher.interrupt()
            async with asyncio.timeout(30):
                assert await waiting is None
            fetcher.resume([P0])
        assert places(found) == {P0: [0, 1, 2, 3]}
