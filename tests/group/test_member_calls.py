"""The calls of a member about its partitions: pauses, lists, seeks, lookups."""

from __future__ import annotations

import asyncio
import datetime
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import BrokerError, ConfigError, ErrorCode, InvalidTopicError, UnknownTopicError, UsageError
from aioprod.group import Member
from aioprod.messages import FetchRequest, OffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, OffsetAndMetadata, TopicPartition
from tests.group.test_member import (
    P0,
    P1,
    P2,
    P3,
    PATIENCE_S,
    CallbackLog,
    assigned,
    cluster,
    committed,
    new_member,
    take,
)
from tests.support.sessions import FAST
from tests.support.stored_batches import fill

AN_HOUR_MS = 3_600_000


def places(records: list[ConsumedRecord]) -> dict[int, list[int]]:
    """Offsets by partition."""
    found: dict[int, list[int]] = {}
    for one in records:
        found.setdefault(one.partition, []).append(one.offset)
    return found


async def next_batch(member: Member, max_records: int, max_wait_ms: float = 0.0) -> list[ConsumedRecord]:
    async with asyncio.timeout(PATIENCE_S):
        return await anext(member.batches(max_records, max_wait_ms))


def offsets_of(brokers: FakeCluster, *tps: TopicPartition) -> dict[TopicPartition, int]:
    return {tp: found for tp, found in committed(brokers).items() if tp in tps}


# -- paused


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_paused_partition_waits_until_it_is_resumed(protocol: str) -> None:
    async with cluster(records=5) as brokers:
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        options = {**FAST, "fetch_max_wait_ms": 20, "auto_offset_reset": "earliest", "group_protocol": protocol}
        async with Member(brokers.bootstrap, group_id="g", topics="t", **options) as member:
            (first,) = await take(member, 1)
            member.pause(TopicPartition("t", first.partition))
            assert places(await take(member, 5)) == {1 - first.partition: list(range(5))}
            assert member.paused == {TopicPartition("t", first.partition)}
            member.resume()
            assert member.paused == frozenset()
            assert places(await take(member, 4)) == {first.partition: [1, 2, 3, 4]}


async def test_a_partition_that_on_assigned_pauses_returns_no_record() -> None:
    async with cluster(records=3) as brokers:
        member: Member = new_member(brokers, on_assigned=lambda some: member.pause([tp for tp in some if tp == P0]))
        async with member:
            assert places(await take(member, 3)) == {1: [0, 1, 2]}
            assert member.positions[P1] == 3
            member.resume([P0])
            assert places(await take(member, 3)) == {0: [0, 1, 2]}


@pytest.mark.parametrize(("assignor", "stays"), [("cooperative-sticky", True), ("range", False)])
async def test_a_pause_ends_when_the_partition_is_revoked(assignor: str, stays: bool) -> None:
    log = CallbackLog()
    async with cluster(partitions=4) as brokers:
        first = new_member(brokers, assignors=[assignor], **log.callbacks)
        second = new_member(brokers, assignors=[assignor])
        async with first:
            reader = asyncio.ensure_future(first.__anext__())
            await assigned(first, P0, P1, P2, P3)
            first.pause()
            async with second:
                waiting = asyncio.ensure_future(second.__anext__())
                async with asyncio.timeout(PATIENCE_S):
                    while len(first.assignment) != 2 or len(second.assignment) != 2:
                        await asyncio.sleep(0.005)
                assert first.paused == (first.assignment if stays else frozenset())
                assert second.paused == frozenset()
                waiting.cancel()
                await asyncio.wait([waiting])
            reader.cancel()
            await asyncio.wait([reader])


# -- in lists


async def test_records_come_in_lists() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        found: list[ConsumedRecord] = []
        async with asyncio.timeout(PATIENCE_S):
            async for batch in member.batches(max_records=4, max_wait_ms=0):
                assert 0 < len(batch) <= 4
                found += batch
                await member.commit()
                assert committed(brokers) == member.positions
                if len(found) == 10:
                    break
        assert places(found) == {0: list(range(5)), 1: list(range(5))}


async def test_a_cancelled_list_loses_nothing() -> None:
    async with cluster(partitions=1, records=3) as brokers, new_member(brokers) as member:
        batches = member.batches(100, AN_HOUR_MS)
        waiting = asyncio.ensure_future(anext(batches))
        async with asyncio.timeout(PATIENCE_S):
            while member.metrics()["fetch_total"] < 3:
                await asyncio.sleep(0.005)
        assert member.positions == {P0: 0}
        await member.commit()
        assert offsets_of(brokers, P0) in ({}, {P0: 0})
        waiting.cancel()
        await asyncio.wait([waiting])
        assert places(await take(member, 1)) == {0: [0]}
        assert places(await next_batch(member, 100)) == {0: [1, 2]}


async def test_gathered_records_of_a_revoked_partition_are_returned_by_its_next_owner() -> None:
    revoked: list[dict[TopicPartition, int]] = []

    async def on_revoked(_: Any) -> None:
        revoked.append(member.positions)
        await member.commit()

    async with cluster(partitions=1, records=3) as brokers:
        member = new_member(brokers, on_revoked=on_revoked)
        async with member:
            waiting = asyncio.ensure_future(anext(member.batches(100, AN_HOUR_MS)))
            async with asyncio.timeout(PATIENCE_S):
                while member.metrics()["fetch_total"] < 3:
                    await asyncio.sleep(0.005)
            await member.close()
            with pytest.raises(StopAsyncIteration):
                await waiting
        assert revoked == [{P0: 0}]
        async with new_member(brokers) as other:
            assert places(await take(other, 3)) == {0: [0, 1, 2]}


def test_lists_do_not_wait_for_more_records_by_default() -> None:
    for call in (Member.batches, Member.arrow_batches):
        assert inspect.signature(call).parameters["max_wait_ms"].default == 0


@pytest.mark.parametrize("least", [0, 1, 5_000])
async def test_a_member_asks_for_the_least_bytes_of_an_answer(least: int) -> None:
    async with cluster(partitions=1, records=3) as brokers, new_member(brokers, fetch_min_bytes=least) as member:
        assert places(await take(member, 3)) == {0: [0, 1, 2]}
        assert {request.min_bytes for request in brokers.seen_of(FetchRequest)} == {least}


async def test_a_list_ends_with_the_member() -> None:
    async with cluster(records=1) as brokers:
        async with new_member(brokers) as member:
            batches = member.batches()
            async with asyncio.timeout(PATIENCE_S):
                await anext(batches)
        with pytest.raises(StopAsyncIteration):
            await anext(batches)


@pytest.mark.parametrize("wrong", [(0, 1), (True, 1), ("5", 1), (1, -1), (1, "5"), (1, float("nan")), (1, True)])
def test_lists_that_can_not_be(wrong: tuple[Any, Any]) -> None:
    with pytest.raises(ConfigError, match=r"max_records|max_wait_ms"):
        Member("h:1", group_id="g", topics="t").batches(*wrong)


# -- how far it is


async def test_offsets_that_are_committed() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        await take(member, 1)
        await member.commit({P0: OffsetAndMetadata(2, "half way")})
        assert await member.committed() == {P0: OffsetAndMetadata(2, "half way"), P1: None}
        assert await member.committed([P1]) == {P1: None}
        assert await member.committed([]) == {}


async def test_where_partitions_begin_and_end() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        fill(brokers.create_topic("other").partitions[0], 7)
        brokers.topics["t"].partitions[0].delete_before(2)
        await take(member, 1)
        assert await member.beginning_offsets() == {P0: 2, P1: 0}
        assert await member.end_offsets() == {P0: 5, P1: 5}
        other = TopicPartition("other", 0)
        assert await member.end_offsets(other) == {other: 7}
        assert await member.offsets_for_times({P0: 1004, P1: 5000}) == {P0: 4, P1: None}
        with pytest.raises(UnknownTopicError):
            await member.end_offsets([TopicPartition("nothing", 0)])


async def test_the_lag() -> None:
    async with cluster(partitions=1, records=5) as brokers, new_member(brokers) as member:
        assert member.lag() == {}
        await take(member, 2)
        assert member.lag() == {P0: 3}
        member.seek(P0, 1)
        assert member.lag() == {P0: 4}


# -- elsewhere


async def test_seeks() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        await take(member, 10)
        member.seek_to_beginning(P1)
        assert places(await take(member, 5)) == {1: list(range(5))}
        await member.seek_to_time(1003)
        assert places(await take(member, 4)) == {0: [3, 4], 1: [3, 4]}
        await member.seek_to_time(datetime.datetime.fromtimestamp(1.002, datetime.UTC), [P0])
        assert places(await take(member, 3)) == {0: [2, 3, 4]}
        member.seek_to_beginning()
        member.seek_to_end([P0])
        assert places(await take(member, 5)) == {1: list(range(5))}
        await member.seek_to_time(9_999_999)
        waiting = asyncio.ensure_future(anext(member))
        async with asyncio.timeout(PATIENCE_S):
            while member.positions != {P0: 5, P1: 5}:
                await asyncio.sleep(0.005)
        fill(brokers.topics["t"].partitions[0], 1)
        brokers.state.wake_fetches()
        async with asyncio.timeout(PATIENCE_S):
            assert (await waiting).offset == 5


async def test_only_owned_partitions_can_be_sought_or_paused() -> None:
    async with cluster(records=1) as brokers, new_member(brokers) as member:
        await take(member, 1)
        other = TopicPartition("t", 9)
        calls: list[Callable[[Any], object]] = [
            member.pause,
            member.resume,
            member.seek_to_beginning,
            member.seek_to_end,
            lambda tp: member.seek(tp, 1),
        ]
        for call in calls:
            with pytest.raises(UsageError, match="This member does not own partition 9 of topic 't'"):
                call(other)
        with pytest.raises(UsageError, match="does not own"):
            await member.seek_to_time(5, other)
        for wrong in (5, "t", [5], [("t", -1)]):
            with pytest.raises(ConfigError, match="partitions"):
                member.pause(wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopicError):
            await member.committed([TopicPartition("no topic", 0)])
        with pytest.raises(ConfigError, match="times is 'now'"):
            await member.seek_to_time("now")  # type: ignore[arg-type]


async def test_lookups_need_a_running_member() -> None:
    async with cluster() as brokers:
        member = new_member(brokers)
        assert (member.paused, member.lag(), member.metrics()["fetch_total"]) == (frozenset(), {}, 0)
        calls: list[Callable[[], Any]] = [member.committed, member.end_offsets, lambda: member.offsets_for_times({})]
        for sync_call in (member.pause, member.resume, member.seek_to_end):
            with pytest.raises(UsageError, match="not started"):
                sync_call()
        for call in calls:
            with pytest.raises(UsageError, match="not started"):
                await call()


# -- metrics


async def test_metrics() -> None:
    async with cluster(records=5) as brokers:
        async with new_member(brokers) as member:
            assert "records_lag_max" not in member.metrics()
            await take(member, 4)
            member.pause([P0])
            await member.commit()
            found = member.metrics()
            assert found["records_consumed_total"] == 4
            assert found["bytes_consumed_total"] > 0
            assert found["fetch_total"] >= 1
            assert found["records_lag_max"] == 5
            assert (found["assigned_partitions"], found["paused_partitions"]) == (2, 1)
            assert (found["rebalance_total"], found["commit_total"], found["commit_failed_total"]) == (1, 1, 0)
            assert found["commit_latency_max"] > 0
            with pytest.raises(UsageError):
                member.pause([P3])
            brokers.fault(OffsetCommitRequest, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            with pytest.raises(BrokerError, match="could not commit"):
                await member.commit({P0: 5})
            assert member.metrics()["commit_failed_total"] == 1
        assert member.metrics()["partitions_revoked_total"] == 2
        assert set(member.metrics()) <= set(member._metrics.describe())
