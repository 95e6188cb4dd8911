"""Logs that are replaced during work, and metadata of commits that do not belong to the log: no record is left out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import BrokerError
from aioprod.group import Member
from aioprod.group.work.marks import Marks, encoded
from aioprod.messages import OffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.groups import Committed
from aioprod.types import ConsumedRecord, TopicPartition
from tests.group.test_work import Bag, Kitchen, committed, fill, new_member, now, play, until, working
from tests.support.sessions import keep_loop_time

P0 = TopicPartition("t", 0)
both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


async def leave_behind(brokers: FakeCluster, offset: int, metadata: str) -> None:
    """Have the group, which has no members, a commit that somebody else has made."""
    async with new_member(brokers) as member:
        poll = asyncio.create_task(anext(member))
        await until(lambda: bool(member.assignment))
        poll.cancel()
        await asyncio.wait([poll])
    brokers.state.groups["g"].offsets[P0] = Committed(offset, -1, metadata)


@pytest.mark.parametrize(
    ("offset", "metadata", "left_out"),
    [
        (5, encoded(5, Marks(12, (5, 8))), {6, 7, 9, 10, 11}),
        (5, encoded(5, Marks(12, (5, 8)))[:-3], set()),
        # A tool has moved the offset, and kept the metadata: MirrorMaker does.
        (5, encoded(7, Marks(12, (7, 9))), set()),
        (3, encoded(5, Marks(12, (5, 8))), set()),
        (5, "a note of somebody", set()),
    ],
)
def test_only_marks_of_this_offset_leave_records_out(offset: int, metadata: str, left_out: set[int]) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        await leave_behind(brokers, offset, metadata)
        kitchen = Kitchen()
        async with working(brokers, kitchen.cook):
            await until(lambda: committed(brokers) == (20, set()))
        assert {at for _, at in kitchen.done} == set(range(offset, 20)) - left_out

    play(scene)


def test_marks_leave_out_no_record_of_a_log_that_ends_before_them() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 5)
        await leave_behind(brokers, 7, encoded(7, Marks(12, (7, 9))))
        kitchen = Kitchen()
        async with working(brokers, kitchen.cook):
            await until(lambda: committed(brokers) == (5, set()))
        assert {at for _, at in kitchen.done} == set(range(5))

    play(scene)


@both_protocols
def test_what_is_finished_of_a_deleted_topic_is_not_committed_for_its_successor(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: {2: 10.0, 5: 10.0, 7: 5.0}.get(record.offset, 0.1))
        kitchen.keys_in_work = Bag()
        member = new_member(brokers, metadata_max_age_ms=1000, group_protocol=protocol)
        async with working(brokers, kitchen.cook, member, drain_s=1.0):
            await until(lambda: len(kitchen.done) == 7)
            await asyncio.sleep(2.0)
            assert committed(brokers) == (2, {5, 7})
            brokers.recreate_topic("t")
            await asyncio.sleep(10.0)
        assert P0 not in brokers.state.groups["g"].offsets
        await fill(brokers, 12)
        again = Kitchen()
        async with working(brokers, again.cook):
            await until(lambda: len(again.done) == 12)

    play(scene)


def test_a_commit_that_is_acknowledged_after_its_log_was_replaced_leaves_out_no_record() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(lambda record: 60.0 if record.offset == 2 else 0.1), Kitchen()
        member = new_member(brokers, metadata_max_age_ms=1000)
        commit = brokers.fault(OffsetCommitRequest, hold=True, times=1, when=lambda _: len(kitchen.done) == 9)

        async def cook(record: ConsumedRecord) -> None:
            await (again if commit.released.is_set() else kitchen).cook(record)

        async with working(brokers, cook, member, drain_s=0.0):
            await commit.reached.wait()
            brokers.recreate_topic("t")
            await asyncio.sleep(5.0)
            commit.release()
            await asyncio.sleep(1.0)
            await fill(brokers, 10)
            await until(lambda: len(again.done) == 10)
        assert sorted(again.done) == [(0, offset) for offset in range(10)]

    play(scene)


@both_protocols
def test_marks_in_flight_when_their_topic_is_created_again_leave_out_no_record(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> list[tuple[int, int]]:
        await fill(brokers, 10)
        kitchen, again = Kitchen(lambda record: 60.0 if record.offset == 2 else 0.1), Kitchen()
        commit = brokers.fault(OffsetCommitRequest, hold=True, times=1, when=lambda _: len(kitchen.done) == 9)
        async with working(brokers, kitchen.cook, new_member(brokers, group_protocol=protocol), drain_s=0.0):
            await commit.reached.wait()
            brokers.recreate_topic("t")
            await fill(brokers, 10)
            commit.release()
        async with working(brokers, again.cook, new_member(brokers, group_protocol=protocol)):
            await until(lambda: len(again.done) == 10)
        return again.done

    assert sorted(play(scene)) == [(0, offset) for offset in range(10)]


@pytest.mark.parametrize("is_late", [False, True])
@both_protocols
def test_a_position_of_a_deleted_topic_is_not_committed_for_its_successor(protocol: str, is_late: bool) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        async with new_member(brokers, metadata_max_age_ms=1000, group_protocol=protocol) as member:
            for _ in range(10):
                await anext(member)
            commit = brokers.fault(OffsetCommitRequest, hold=True)
            if not is_late:
                brokers.recreate_topic("t")
                # The metadata have the new topic by then.
                await asyncio.sleep(5.0)
            task = asyncio.create_task(member.commit())
            await commit.reached.wait()
            if is_late:
                brokers.recreate_topic("t")
            commit.release()
            began = now()
            with pytest.raises(BrokerError, match="t-0: its coordinator answered UNKNOWN_TOPIC_ID") as refused:
                await task
            assert now() - began < 5.0
            assert "offsets of its own" in (refused.value.hint or "")
            assert not refused.value.may_be_stored
            assert P0 not in brokers.state.groups["g"].offsets
            await fill(brokers, 10)
            assert [(await anext(member)).offset for _ in range(10)] == list(range(10))
            await member.commit()
            assert brokers.committed_offset("g", P0) == 10

    play(scene)


@both_protocols
def test_a_callback_commits_no_position_of_a_deleted_topic_for_its_successor(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        refused: list[str] = []

        async def on_revoked(_: Any) -> None:
            with pytest.raises(BrokerError) as failure:
                await member.commit()
            refused.append(failure.value.message)

        member = new_member(brokers, metadata_max_age_ms=1000, group_protocol=protocol, on_revoked=on_revoked)
        async with member:
            for _ in range(10):
                await anext(member)
            brokers.recreate_topic("t")
            # The metadata have the new topic by then.
            await asyncio.sleep(5.0)
        assert refused == ["Group 'g' could not commit for t-0: its coordinator answered UNKNOWN_TOPIC_ID."]
        assert P0 not in brokers.state.groups["g"].offsets

    play(scene)


@pytest.mark.parametrize("end", ["close", "cancel", "fail"])
def test_no_handler_of_a_deleted_topic_outlives_the_work(end: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: {2: 1000.0, 4: 8.0}.get(record.offset, 0.1))
        kitchen.failing = {(0, 4): 1} if end == "fail" else {}
        member = new_member(brokers, metadata_max_age_ms=1000)
        async with working(brokers, kitchen.cook, member, drain_s=1.0) as (_, task):
            await until(lambda: len(kitchen.done) == 8)
            brokers.recreate_topic("t")
            await asyncio.sleep(5.0)
            if end == "cancel":
                task.cancel()
            elif end == "close":
                await member.close()
            await asyncio.wait([task])
            assert kitchen.at_once == 0

    play(scene)


def test_a_log_without_the_position_is_noticed_after_all_that_was_fetched_is_received() -> None:
    """Nothing of the former log comes after the reset: what is committed then is of the present one."""

    async def scene(brokers: FakeCluster) -> None:
        for _ in range(4):
            await fill(brokers, 25, key=lambda _: b"one")
        kitchen = Kitchen()
        door = asyncio.Event()

        async def cook(record: ConsumedRecord) -> None:
            await door.wait()
            await kitchen.cook(record)

        member = new_member(brokers, max_partition_fetch_bytes=1)
        left: list[bool] = []
        member._fetcher.observe_resets(lambda tp: left.append(tp in member._fetcher._buffer.offsets))
        async with working(brokers, cook, member, concurrency=1, buffer_bytes=60):
            await until(lambda: P0 in member.paused)
            assert P0 in member._fetcher._buffer.offsets
            brokers.topics["t"].partitions[0].delete_before(75)
            await asyncio.sleep(10.0)
            assert not left
            door.set()
            await until(lambda: len(kitchen.done) == 50)
            await until(lambda: committed(brokers) == (100, set()))
        assert left == [False]
        assert kitchen.of_key[b"one"] == [*range(25), *range(75, 100)]

    play(scene)


@both_protocols
def test_work_goes_on_in_the_successor_of_a_deleted_topic(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: 10.0 if record.offset == 3 else 0.1)
        kitchen.keys_in_work = Bag()
        member = new_member(brokers, metadata_max_age_ms=1000, group_protocol=protocol)
        async with working(brokers, kitchen.cook, member, drain_s=1.0):
            await until(lambda: len(kitchen.done) == 9)
            brokers.recreate_topic("t")
            await fill(brokers, 10)
            await until(lambda: brokers.committed_offset("g", P0) == 10)
            assert sum(1 for _, at in kitchen.done if at != 3) == 18

    play(scene)


def test_a_loop_commits_the_position_in_the_successor_where_it_is_that_of_the_deleted_topic() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 3)
        async with new_member(brokers, metadata_max_age_ms=1000, enable_auto_commit=True) as member:
            for _ in range(2):
                for _ in range(3):
                    await anext(member)
                poll = asyncio.create_task(anext(member))
                await until(lambda: P0 in brokers.state.groups["g"].offsets)
                assert committed(brokers) == (3, set())
                poll.cancel()
                await asyncio.wait([poll])
                brokers.recreate_topic("t")
                assert P0 not in brokers.state.groups["g"].offsets
                await fill(brokers, 3)

    play(scene)


@both_protocols
@pytest.mark.parametrize("is_loop", [False, True])
def test_a_deleted_topic_holds_up_neither_other_commits_nor_the_end(protocol: Any, is_loop: bool) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        brokers.create_topic("u")
        async with Producer(brokers.bootstrap) as producer:
            await producer.send("u", b"0", key=b"of u")
        kitchen = Kitchen(lambda record: 0.1 if record.topic == "t" else 5.0)

        async def work() -> None:
            if not is_loop:
                await member.work(kitchen.cook, concurrency=10, drain_s=1.0)
            async for record in member:
                await kitchen.cook(record)

        member = Member(
            brokers.bootstrap,
            group_id="g",
            topics=["t", "u"],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1000,
            group_protocol=protocol,
            enable_auto_commit=True,
        )
        keep_loop_time(member._session, member._reading)
        async with member:
            task = asyncio.create_task(work())
            await until(lambda: kitchen.at_once > 0 and member.positions.get(TopicPartition("u", 0)) == 1)
            brokers.state.auto_create = False
            brokers.delete_topic("u")
            await asyncio.sleep(20.0)
            began = now()
            await fill(brokers, 10)
            await until(lambda: brokers.committed_offset("g", P0) == 20)
            await member.close()
            await task
            assert now() - began < 10.0

    play(scene)


def test_the_markers_and_aborted_records_behind_the_last_record_are_committed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with Producer(brokers.bootstrap, transactional_id="x") as producer:
            async with producer.transaction():
                await producer.send("t", b"0", key=b"a")
            await producer.begin_transaction()
            await producer.send("t", b"1", key=b"b")
            await producer.abort_transaction()
        member = new_member(brokers, isolation_level="read_committed")
        kitchen = Kitchen(lambda record: 5.0)
        async with working(brokers, kitchen.cook, member):
            await until(lambda: bool(kitchen.begun))
            await member.commit()
            assert committed(brokers) == (0, set())
            await until(lambda: bool(kitchen.done))
            await member.commit()
            assert committed(brokers) == (4, set())
            assert member.lag() == {P0: 0}

    play(scene)


def test_a_place_in_a_deleted_topic_is_none_in_its_successor() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        async with new_member(brokers, metadata_max_age_ms=1000) as member:
            record = await anext(member)
            await asyncio.sleep(1.0)
            brokers.recreate_topic("t")
            await fill(brokers, 10)
            await asyncio.sleep(3.0)
            member.skip(record)
            member.seek(P0, 4)
            assert [(await anext(member)).offset for _ in range(10)] == list(range(10))

    play(scene)
