"""A member's records as Arrow: positions move with the batch that is returned, and nothing is lost."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from aioprod.errors import ConfigError, CorruptRecordError, UsageError
from aioprod.group import Member
from aioprod.group.fetcher import Fetcher
from aioprod.messages import FetchRequest
from aioprod.records import Compression
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, TopicPartition
from tests.group.test_member import P0, P1, PATIENCE_S, cluster, committed, new_member
from tests.records.test_parser import make_batch, plain_record, varints
from tests.support.arrow_records import records_of
from tests.support.fetchers import places, running_fetcher, take, until
from tests.support.stored_batches import fill, store, stored_batch

AN_HOUR_S = 3600.0


async def take_rows(fetcher: Fetcher, max_records: int, max_wait_s: float = 0.0) -> list[ConsumedRecord]:
    async with asyncio.timeout(PATIENCE_S):
        batch = await fetcher.next_arrow(max_records, max_wait_s)
    assert batch is not None
    return records_of(batch)


async def gathering(fetcher: Fetcher, rows: int) -> asyncio.Task[Any]:
    """A call that waits for more rows than there are, and has gathered so many."""
    waiting = asyncio.ensure_future(fetcher.next_arrow(100, AN_HOUR_S))
    await until(lambda: fetcher._arrow is not None and fetcher._arrow.count == rows)
    return waiting


async def cancelled(waiting: asyncio.Task[Any]) -> None:
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_member_reads_and_commits_batches() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        found: list[ConsumedRecord] = []
        async with asyncio.timeout(PATIENCE_S):
            async for batch in member.arrow_batches(max_records=4, max_wait_ms=0):
                assert 0 < batch.num_rows <= 4
                found += records_of(batch)
                await member.commit()
                assert committed(brokers) == member.positions
                if len(found) == 10:
                    break
        assert places(found) == {P0: list(range(5)), P1: list(range(5))}
        assert member.metrics()["records_consumed_total"] == 10


async def test_a_batch_may_have_records_of_several_topics() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        for name in ("a", "b"):
            fill(brokers.create_topic(name).partitions[0], 3)
        fetcher.add({TopicPartition("a", 0): 0, TopicPartition("b", 0): 1})
        found = await take_rows(fetcher, 5, AN_HOUR_S)
        assert places(found) == {TopicPartition("a", 0): [0, 1, 2], TopicPartition("b", 0): [1, 2]}


async def test_a_batch_continues_within_a_stored_one() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("t").partitions[0], 20, batch_records=20)
        fetcher.add({P0: 2})
        assert places(await take_rows(fetcher, 5)) == {P0: [2, 3, 4, 5, 6]}
        assert fetcher.positions == {P0: 7}
        assert places(await take(fetcher, 2)) == {P0: [7, 8]}
        assert places(await take_rows(fetcher, 3)) == {P0: [9, 10, 11]}
        fetcher.add({P0: 3})
        assert places(await take_rows(fetcher, 2)) == {P0: [3, 4]}


@pytest.mark.parametrize("next_call", ["arrow", "records", "list"])
async def test_a_cancelled_call_loses_nothing(next_call: str) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("t").partitions[0], 6, batch_records=3)
        fetcher.add({P0: 1})
        await cancelled(await gathering(fetcher, 5))
        assert fetcher.positions == {P0: 1}
        if next_call == "arrow":
            found = await take_rows(fetcher, 5, AN_HOUR_S)
        elif next_call == "records":
            found = await take(fetcher, 5)
        else:
            found = await fetcher.next_list(5, AN_HOUR_S) or []
        assert places(found) == {P0: [1, 2, 3, 4, 5]}


async def test_records_of_a_cancelled_list_come_as_rows() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("t").partitions[0], 3)
        fetcher.add({P0: 0})
        waiting = asyncio.ensure_future(fetcher.next_list(100, AN_HOUR_S))
        await until(lambda: fetcher._buffer.ready == 3)
        await cancelled(waiting)
        assert places(await take_rows(fetcher, 3, AN_HOUR_S)) == {P0: [0, 1, 2]}


async def test_rows_of_a_paused_or_dropped_partition_are_not_returned() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        for partition in brokers.create_topic("t", 2).partitions:
            fill(partition, 3)
        fetcher.add({P0: 0, P1: 0})
        waiting = await gathering(fetcher, 6)
        fetcher.pause([P0])
        fetches = len(brokers.seen_of(FetchRequest))
        await until(lambda: fetcher._arrow is not None and fetcher._arrow.count == 3)
        fetcher.drop([P1])
        await until(lambda: fetcher._arrow is not None and fetcher._arrow.count == 0)
        fetcher.resume([P0])
        await until(lambda: fetcher._arrow is not None and fetcher._arrow.count == 3)
        await cancelled(waiting)
        assert places(await take_rows(fetcher, 3, AN_HOUR_S)) == {P0: [0, 1, 2]}
        asked = [one for request in brokers.seen_of(FetchRequest)[fetches:] for one in offsets_asked(request)]
        assert 0 not in asked


def offsets_asked(request: FetchRequest) -> list[int]:
    return [partition.fetch_offset for topic in request.topics for partition in topic.partitions]


async def test_an_interruption_returns_nothing() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        fill(brokers.create_topic("t").partitions[0], 3)
        fetcher.add({P0: 0})
        waiting = await gathering(fetcher, 3)
        fetcher.interrupt()
        async with asyncio.timeout(PATIENCE_S):
            assert await waiting is None
        assert fetcher.positions == {P0: 0}
        assert places(await take_rows(fetcher, 3, AN_HOUR_S)) == {P0: [0, 1, 2]}


async def test_records_before_a_corrupt_one_are_returned_first() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        (log,) = brokers.create_topic("t").partitions
        log.store(make_batch(plain_record(0) + plain_record(1) + varints(90) + bytes(40), 3))
        fetcher.add({P0: 0})
        assert places(await take_rows(fetcher, 10, AN_HOUR_S)) == {P0: [0, 1]}
        assert fetcher.positions == {P0: 2}
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(CorruptRecordError, match="Partition 0 of topic 't' can't be read"):
                await fetcher.next_arrow(10, AN_HOUR_S)
        assert fetcher.positions == {P0: 2}


async def test_a_timestamp_that_overflows_is_not_skipped() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        (log,) = brokers.create_topic("t").partitions
        log.store(make_batch(plain_record(0) + plain_record(1, (1 << 63) - 1), 2))
        fetcher.add({P0: 0})
        assert places(await take_rows(fetcher, 10, AN_HOUR_S)) == {P0: [0]}
        assert fetcher.positions == {P0: 1}


async def test_large_batches_are_decompressed_first() -> None:
    values = [b"%d" % number * 40_000 for number in range(10)]
    async with FakeCluster() as brokers, running_fetcher(brokers) as fetcher:
        (log,) = brokers.create_topic("t").partitions
        store(log, *(stored_batch(values, base_offset=base, codec=Compression.LZ4) for base in (0, 10)))
        fetcher.add({P0: 5})
        assert [one.value for one in await take_rows(fetcher, 15, AN_HOUR_S)] == values[5:] + values


@pytest.mark.parametrize("wrong", [(0, 1), (True, 1), (1 << 25, 1), (1, -1)])
def test_numbers_that_make_no_sense(wrong: tuple[Any, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max_records|max_wait_ms"):
        Member("h:1", group_id="g", topics="t").arrow_batches(*wrong)


def test_deserializers_do_not_go_with_arrow() -> None:
    with pytest.raises(UsageError, match="deserializers were given"):
        Member("h:1", group_id="g", topics="t", key_deserializer="string").arrow_batches()


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("aioprod.reader.arrow_columns", raising=False)
    monkeypatch.setitem(sys.modules, "aioprod.reader.arrow_columns", None)
    with pytest.raises(UsageError, match="pyarrow is not installed"):
        Member("h:1", group_id="g", topics="t").arrow_batches()
