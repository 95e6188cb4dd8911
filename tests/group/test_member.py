"""Members of one group, with fake brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aioprod.cluster.topic_errors import UNKNOWN_ATTEMPTS
from aioprod.errors import BrokerError, ConfigError, ErrorCode, InvalidTopicError, UnsupportedVersionError, UsageError
from aioprod.group import GroupMetadata, Member, MemberConfig
from aioprod.group.assignors import RangeAssignor
from aioprod.group.validation import created_assignors
from aioprod.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, OffsetAndMetadata, TopicPartition
from aioprod.wire.schema import AnyRequest
from tests.support.sessions import FAST, keep_loop_time, tasks_beside
from tests.support.simulated import in_simulated_time
from tests.support.stored_batches import fill

PATIENCE_S = 20.0
P0, P1, P2, P3 = (TopicPartition("t", index) for index in range(4))
QUICK: dict[str, Any] = {**FAST, "fetch_max_wait_ms": 20, "heartbeat_interval_ms": 20, "auto_offset_reset": "earliest"}


class CallbackLog:
    """The calls of the callbacks, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, frozenset[TopicPartition]]] = []
        self.changed = asyncio.Event()

    def note(self, what: str) -> Callable[[Any], None]:
        """A callback."""

        def callback(partitions: Any) -> None:
            self.calls.append((what, frozenset(partitions)))
            self.changed.set()

        return callback

    @property
    def callbacks(self) -> dict[str, Any]:
        """All three, for a member."""
        return {f"on_{what}": self.note(what) for what in ("assigned", "revoked", "lost")}

    async def until(self, what: str, *partitions: TopicPartition) -> None:
        """Wait for that call."""
        async with asyncio.timeout(PATIENCE_S):
            while (what, frozenset(partitions)) not in self.calls:
                self.changed.clear()
                await self.changed.wait()


def new_member(brokers: FakeCluster, **options: Any) -> Member:
    """One of group "g", which reads topic "t"."""
    return Member(brokers.bootstrap, **{"group_id": "g", "topics": ["t"], **QUICK, **options})


def timed_member(brokers: FakeCluster, **options: Any) -> Member:
    """As `new_member`, in the time of the loop."""
    member = new_member(brokers, **options)
    keep_loop_time(member._session, member._reading)
    return member


@asynccontextmanager
async def cluster(partitions: int = 2, records: int = 0, brokers: int = 1) -> AsyncIterator[FakeCluster]:
    """Brokers with topic "t", each of whose partitions has so many records."""
    async with FakeCluster(brokers) as fakes:
        for one in fakes.create_topic("t", partitions).partitions:
            if records:
                fill(one, records)
        yield fakes


def committed(brokers: FakeCluster) -> dict[TopicPartition, int]:
    """What group "g" has."""
    return {tp: found.offset for tp, found in brokers.state.groups["g"].offsets.items()}


async def take(member: Member, count: int) -> list[ConsumedRecord]:
    """The next records."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(member) for _ in range(count)]


async def assigned(member: Member, *partitions: TopicPartition) -> None:
    """Wait until the member owns just these, while it asks for records."""
    async with asyncio.timeout(PATIENCE_S):
        while member.assignment != frozenset(partitions):
            await asyncio.sleep(0.005)


async def until_a_rebalance_waits(member: Member) -> None:
    """Wait until the member is to revoke partitions as soon as its work allows."""
    async with asyncio.timeout(PATIENCE_S):
        while not member._gate._rebalances:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def reading(member: Member, records: list[ConsumedRecord] | None = None) -> AsyncIterator[asyncio.Task[None]]:
    """A task that takes one record after the other, for the time of the block."""

    async def read() -> None:
        async for record in member:
            if records is not None:
                records.append(record)

    task = asyncio.create_task(read())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


# -- one member


async def test_a_member_reads_its_partitions_and_commits() -> None:
    log = CallbackLog()
    async with cluster(records=3) as brokers:
        before = asyncio.all_tasks()
        async with new_member(brokers, **log.callbacks) as member:
            assert member.assignment == frozenset()
            records = await take(member, 6)
            assert {(one.partition, one.offset) for one in records} == {(p, o) for p in (0, 1) for o in range(3)}
            assert member.assignment == {P0, P1}
            assert member.positions == {P0: 3, P1: 3}
            await member.commit()
            assert committed(brokers) == {P0: 3, P1: 3}
            metadata = member.group_metadata
            assert (metadata.group_id, metadata.generation_id) == ("g", 1)
            assert metadata.member_id
        assert log.calls == [("assigned", frozenset({P0, P1})), ("revoked", frozenset({P0, P1}))]
        assert member.assignment == frozenset()
        assert member.group_metadata.group_id == "g", "also after the end"
        assert not tasks_beside(before)


async def test_the_next_member_continues_at_the_committed_offset() -> None:
    async with cluster(partitions=1, records=5) as brokers:
        async with new_member(brokers) as member:
            await take(member, 2)
            await member.commit()
            await take(member, 1)
        async with new_member(brokers) as member:
            assert [one.offset for one in await take(member, 3)] == [2, 3, 4]


async def test_offsets_are_committed_by_commit_only() -> None:
    async with cluster(partitions=1, records=5) as brokers:
        async with new_member(brokers) as member:
            await take(member, 5)
        assert committed(brokers) == {}


async def test_offsets_of_ones_own_are_committed() -> None:
    async with cluster(records=5) as brokers, new_member(brokers) as member:
        await take(member, 1)
        await member.commit({P0: 2, P1: OffsetAndMetadata(1, "half way")})
        assert committed(brokers) == {P0: 2, P1: 1}
        wrong: list[Any] = [{P0: -1}, {P0: OffsetAndMetadata(1, "\ud800")}, {"to": 3}, {("t", "x"): 3}, 5, [(P0, 1)]]
        for given in wrong:
            with pytest.raises(ConfigError, match="offsets"):
                await member.commit(given)


async def test_the_iterator_ends_with_the_member() -> None:
    async with cluster(records=1) as brokers:
        member = new_member(brokers)
        await member.start()
        records: list[ConsumedRecord] = []
        async with reading(member, records) as task:
            await assigned(member, P0, P1)
            await member.close()
            await task
        with pytest.raises(StopAsyncIteration):
            await anext(member)
        await member.close()


async def test_a_call_that_is_cancelled_loses_nothing() -> None:
    async with cluster(partitions=1) as brokers, new_member(brokers) as member:
        taken: list[int] = []
        partition = brokers.topics["t"].partitions[0]
        async with asyncio.timeout(PATIENCE_S):
            while len(taken) < 20:
                if partition.next_offset < 20:
                    fill(partition, 1)
                try:
                    taken.append((await asyncio.wait_for(anext(member), 0.003)).offset)
                except TimeoutError:
                    continue
        assert taken == list(range(20))


# -- several members


@pytest.mark.parametrize(
    ("assignors", "is_cooperative"), [(["cooperative-sticky"], True), (["range"], False), (["sticky"], False)]
)
async def test_a_second_member_gets_its_assignment(assignors: list[str], is_cooperative: bool) -> None:
    one, two = CallbackLog(), CallbackLog()
    async with cluster(partitions=4) as brokers:
        first = new_member(brokers, assignors=assignors, **one.callbacks)
        second = new_member(brokers, assignors=assignors, **two.callbacks)
        async with first, reading(first):
            await assigned(first, P0, P1, P2, P3)
            async with second, reading(second):
                async with asyncio.timeout(PATIENCE_S):
                    while len(first.assignment) != 2 or len(second.assignment) != 2:
                        await asyncio.sleep(0.005)
                assert first.assignment | second.assignment == {P0, P1, P2, P3}
                given = frozenset(second.assignment)
                assert ("revoked", given if is_cooperative else frozenset({P0, P1, P2, P3})) in one.calls
            await assigned(first, P0, P1, P2, P3)
    assert two.calls[-1] == ("revoked", given)
    assert all(what != "lost" for what, _ in one.calls + two.calls)


async def test_a_partition_is_not_revoked_while_its_record_is_processed() -> None:
    log = CallbackLog()
    async with cluster(partitions=2, records=10) as brokers:
        first, second = new_member(brokers, **log.callbacks), new_member(brokers)
        async with first:
            await take(first, 1)
            async with second, reading(second):
                # The group waits for the first member, whose user is busy.
                await until_a_rebalance_waits(first)
                assert log.calls == [("assigned", frozenset({P0, P1}))]
                assert second.assignment == frozenset()
                await first.commit()
                async with reading(first):
                    async with asyncio.timeout(PATIENCE_S):
                        while len(first.assignment) != 1 or len(second.assignment) != 1:
                            await asyncio.sleep(0.005)


async def test_on_revoked_can_commit_what_was_read() -> None:
    async with cluster(partitions=2, records=10) as brokers:
        members: list[Member] = []

        async def on_revoked(partitions: Any) -> None:
            await members[0].commit()

        first, second = new_member(brokers, on_revoked=on_revoked), new_member(brokers)
        members.append(first)
        others: list[ConsumedRecord] = []
        async with first:
            await take(first, 20)
            async with second, reading(second, others):
                async with reading(first):
                    async with asyncio.timeout(PATIENCE_S):
                        while len(second.assignment) != 1:
                            await asyncio.sleep(0.005)
                (mine,) = second.assignment
                assert committed(brokers)[mine] == 10
                assert not others
        assert committed(brokers) == {P0: 10, P1: 10}


async def test_an_exception_in_a_callback_is_raised_from_the_iterator_and_the_member_continues() -> None:
    def on_assigned(partitions: Any) -> None:
        raise ValueError("not mine")

    async with cluster(records=1) as brokers, new_member(brokers, on_assigned=on_assigned) as member:
        with pytest.raises(ValueError, match="not mine"):
            await take(member, 1)
        assert len(await take(member, 2)) == 2


async def test_a_callback_can_not_wait_for_records_or_for_the_end() -> None:
    errors: list[Exception] = []

    async def on_assigned(partitions: Any) -> None:
        for call in (members[0].__anext__, members[0].close):
            try:
                await call()
            except UsageError as error:
                errors.append(error)

    members: list[Member] = []
    async with cluster(records=1) as brokers, new_member(brokers, on_assigned=on_assigned) as member:
        members.append(member)
        await take(member, 2)
    assert len(errors) == 2


async def test_a_callback_can_seek() -> None:
    def on_assigned(partitions: Any) -> None:
        for tp in partitions:
            members[0].seek(tp, 7)

    members: list[Member] = []
    async with cluster(partitions=1, records=10) as brokers, new_member(brokers, on_assigned=on_assigned) as member:
        members.append(member)
        assert [one.offset for one in await take(member, 3)] == [7, 8, 9]
        with pytest.raises(UsageError, match="does not own partition 1"):
            member.seek(P1, 0)


async def test_rewind_reads_uncommitted_records_again() -> None:
    async with cluster(partitions=1, records=10) as brokers, new_member(brokers) as member:
        await take(member, 3)
        await member.commit()
        await take(member, 4)
        await member.rewind()
        assert [one.offset for one in await take(member, 2)] == [3, 4]


async def test_what_was_never_committed_is_read_again_from_where_it_began() -> None:
    async with cluster(partitions=1, records=5) as brokers, new_member(brokers, auto_offset_reset="latest") as member:
        async with reading(member):
            await assigned(member, P0)
            async with asyncio.timeout(PATIENCE_S):
                while member.positions != {P0: 5}:
                    await asyncio.sleep(0.005)
        fill(brokers.topics["t"].partitions[0], 4)
        await take(member, 3)
        await member.rewind()
        assert [one.offset for one in await take(member, 4)] == [5, 6, 7, 8]


async def test_rewind_does_not_bring_revoked_partitions_back() -> None:
    members: list[Member] = []
    errors: list[UsageError] = []

    async def on_revoked(partitions: Any) -> None:
        await members[0].rewind()
        try:
            members[0].seek(min(partitions), 0)
        except UsageError as error:
            errors.append(error)

    async with cluster(partitions=2, records=50) as brokers:
        first, second = new_member(brokers, on_revoked=on_revoked), new_member(brokers)
        members.append(first)
        async with first, reading(first):
            await assigned(first, P0, P1)
            async with second, reading(second):
                async with asyncio.timeout(PATIENCE_S):
                    while len(second.assignment) != 1:
                        await asyncio.sleep(0.005)
                assert len(errors) == 1
                assert len(first.assignment) == 1
                assert first.positions.keys() == first.assignment


async def test_no_record_is_returned_while_a_callback_runs() -> None:
    """Not one either whose deserializer was at work when the callback began."""
    running: list[bool] = []
    overlaps: dict[TopicPartition, ConsumedRecord] = {}

    async def slow(topic: str, headers: Any, data: bytes) -> bytes:
        await asyncio.sleep(0.01)
        return data

    async def on_change(partitions: Any) -> None:
        running.append(True)
        await asyncio.sleep(0.05)
        running.pop()

    async with cluster(partitions=2, records=500) as brokers:
        first = new_member(brokers, on_revoked=on_change, on_assigned=on_change, value_deserializer=slow)

        async def read() -> None:
            async for record in first:
                if running:
                    overlaps[TopicPartition(record.topic, record.partition)] = record

        async with first:
            task = asyncio.create_task(read())
            await assigned(first, P0, P1)
            async with new_member(brokers) as second, reading(second):
                async with asyncio.timeout(PATIENCE_S):
                    while len(second.assignment) != 1 or len(first.assignment) != 1:
                        await asyncio.sleep(0.005)
            await assigned(first, P0, P1)
            task.cancel()
            await asyncio.wait([task])
    assert overlaps == {}


async def test_other_topics_are_read_from_now_on() -> None:
    async with cluster(partitions=1) as brokers, new_member(brokers) as member, reading(member):
        await assigned(member, P0)
        brokers.create_topic("u", 2)
        member.subscribe(["u"])
        await assigned(member, TopicPartition("u", 0), TopicPartition("u", 1))
        assert P0 not in member.assignment


# -- what goes wrong


@in_simulated_time
async def test_the_time_between_two_records_counts_from_the_first() -> None:
    async with cluster(partitions=1) as brokers, timed_member(brokers, max_poll_interval_ms=1000) as member:
        async with asyncio.timeout(PATIENCE_S):
            waiting = asyncio.create_task(anext(member))
            await assigned(member, P0)
            await asyncio.sleep(0.9)
            fill(brokers.topics["t"].partitions[0], 1)
            await waiting
        await asyncio.sleep(0.4)
        await member.commit()
        assert committed(brokers) == {P0: 1}


async def test_another_event_loop_is_an_error() -> None:
    errors: list[str] = []

    async def elsewhere(member: Member) -> None:
        for call in (member.__anext__, member.close, member.commit):
            try:
                await call()
            except UsageError as error:
                errors.append(error.message)

    async with cluster(partitions=1) as brokers, new_member(brokers) as member:
        await asyncio.to_thread(asyncio.run, elsewhere(member))
    assert len(errors) == 3
    assert set(errors) == {"This member belongs to another event loop, the one in which it was started."}


async def test_a_static_member_returns_to_its_partitions() -> None:
    one, two = CallbackLog(), CallbackLog()
    async with cluster(partitions=2) as brokers, new_member(brokers, **one.callbacks) as first, reading(first):
        await assigned(first, P0, P1)
        generation = -1
        for _ in range(2):
            second = new_member(brokers, group_instance_id="two", **two.callbacks)
            async with second, reading(second):
                async with asyncio.timeout(PATIENCE_S):
                    while len(second.assignment) != 1 or len(first.assignment) != 1:
                        await asyncio.sleep(0.005)
                generation = second.group_metadata.generation_id
        assert first.group_metadata.generation_id == generation
        assert len([call for call in one.calls if call[0] == "revoked"]) == 1


@pytest.mark.parametrize(
    ("kind", "last"),
    [(JoinGroupRequest, 4), (SyncGroupRequest, 2), (HeartbeatRequest, 2)],
    ids=["join", "sync", "beat"],
)
async def test_a_static_member_needs_brokers_that_know_of_such(kind: type[AnyRequest], last: int) -> None:
    async with cluster() as brokers:
        brokers[1].versions[kind] = (0, last)
        async with new_member(brokers, group_instance_id="one") as member, asyncio.timeout(PATIENCE_S):
            with pytest.raises(UnsupportedVersionError, match=r"group\.instance\.id, and .* older than 2\.3") as caught:
                await anext(member)
            assert "from 2.3 on" in (caught.value.hint or "")


async def test_a_static_member_commits_where_brokers_know_of_such() -> None:
    async with cluster(records=1) as brokers:
        brokers[1].versions[OffsetCommitRequest] = (2, 6)
        async with new_member(brokers, group_instance_id="one") as member:
            await take(member, 1)
            with pytest.raises(UnsupportedVersionError, match=r"older than 2\.3"):
                await member.commit()


async def test_a_static_member_is_fenced_by_its_successor() -> None:
    async with cluster() as brokers:
        old = new_member(brokers, group_instance_id="one")
        await old.start()
        async with reading(old) as task:
            await assigned(old, P0, P1)
            async with new_member(brokers, group_instance_id="one") as new, reading(new):
                await assigned(new, P0, P1)
                with pytest.raises(
                    BrokerError, match=r"another member has joined under its group\.instance\.id"
                ) as caught:
                    await task
                assert caught.value.code == ErrorCode.FENCED_INSTANCE_ID
                with pytest.raises(BrokerError):
                    await anext(old)
        await old.close()


@in_simulated_time
async def test_max_poll_interval_loses_the_partitions() -> None:
    log = CallbackLog()
    async with (
        cluster(partitions=1, records=4) as brokers,
        timed_member(brokers, max_poll_interval_ms=300, **log.callbacks) as member,
    ):
        await take(member, 1)
        async with asyncio.timeout(PATIENCE_S):
            while member.group_metadata.generation_id >= 0:
                await asyncio.sleep(0.01)
        assert [what for what, _ in log.calls] == ["assigned"]
        with pytest.raises(BrokerError, match="this consumer is not a member of group 'g'"):
            await member.commit()
        assert [one.offset for one in await take(member, 2)] == [0, 1]
        assert log.calls[1:] == [("lost", frozenset({P0})), ("assigned", frozenset({P0}))]


@in_simulated_time
async def test_without_on_lost_lost_partitions_go_to_on_revoked() -> None:
    log = CallbackLog()
    async with (
        cluster(partitions=1, records=4) as brokers,
        timed_member(brokers, max_poll_interval_ms=300, on_revoked=log.note("revoked")) as member,
    ):
        await take(member, 1)
        async with asyncio.timeout(PATIENCE_S):
            while member.group_metadata.generation_id >= 0:
                await asyncio.sleep(0.01)
        await take(member, 1)
        assert log.calls == [("revoked", frozenset({P0}))]


async def test_a_full_group_is_an_error() -> None:
    async with cluster() as brokers:
        brokers.state.groups.settings.size_max = 1
        async with new_member(brokers) as first, reading(first):
            await assigned(first, P0, P1)
            async with new_member(brokers) as second:
                with pytest.raises(BrokerError, match="could not join the group: the group is full"):
                    await take(second, 1)


async def test_without_a_reset_there_has_to_be_an_offset() -> None:
    log = CallbackLog()
    async with cluster(records=1) as brokers, new_member(brokers, auto_offset_reset="none", **log.callbacks) as member:
        with pytest.raises(BrokerError, match="has committed nothing"):
            await take(member, 1)
    assert log.calls == []


async def test_new_partitions_are_noticed() -> None:
    async with cluster(partitions=1) as brokers, new_member(brokers, metadata_max_age_ms=50) as member, reading(member):
        await assigned(member, P0)
        topic = brokers.topics["t"]
        topic.partitions.append(replace(topic.partitions[0], log=[]))
        await assigned(member, P0, P1)
        assert member.assignment == {P0, P1}


async def test_a_topic_may_come_later() -> None:
    async with FakeCluster(1) as brokers, new_member(brokers) as member, reading(member):
        async with asyncio.timeout(PATIENCE_S):
            while member.group_metadata.generation_id < 0:
                await asyncio.sleep(0.005)
        assert member.assignment == frozenset()
        brokers.create_topic("t", 1)
        await assigned(member, P0)
        assert member.assignment == {P0}


async def test_a_topic_may_be_created_long_after_it_was_reported_missing() -> None:
    log = CallbackLog()
    async with FakeCluster(1) as brokers, new_member(brokers, **log.callbacks) as member, reading(member):
        await log.until("assigned")
        requests = len(brokers.seen_of(MetadataRequest))
        async with asyncio.timeout(PATIENCE_S):
            while len(brokers.seen_of(MetadataRequest)) < requests + 2 * UNKNOWN_ATTEMPTS:
                await asyncio.sleep(0.005)
        brokers.create_topic("t", 1)
        await assigned(member, P0)
        assert member.assignment == {P0}


async def test_closing_does_not_wait_for_dead_brokers() -> None:
    async with cluster() as brokers:
        member = new_member(brokers)
        await member.start()
        async with reading(member):
            await assigned(member, P0, P1)
            await brokers.kill(1)
            started = asyncio.get_running_loop().time()
            await member.close(timeout=0.2)
            assert asyncio.get_running_loop().time() - started < 20.0


async def test_a_member_may_leave_while_it_joins() -> None:
    async with cluster(records=5) as brokers:
        first, second = new_member(brokers), new_member(brokers)
        async with first:
            await take(first, 1)
            await second.start()
            async with asyncio.timeout(PATIENCE_S):
                while not (group := brokers.state.groups["g"].membership) or len(group.members) < 2:
                    await asyncio.sleep(0.005)
            async with asyncio.timeout(PATIENCE_S):
                await second.close()
            await take(first, 1)
            assert second.assignment == frozenset()
            assert first.assignment


# -- how it is used


async def test_one_task_waits_at_a_time() -> None:
    async with cluster() as brokers, new_member(brokers) as member, reading(member):
        await assigned(member, P0, P1)
        with pytest.raises(UsageError, match="one at a time"):
            await anext(member)


async def test_it_has_to_be_started() -> None:
    member = Member("localhost:9092", group_id="g", topics="t")
    assert member.assignment == frozenset()
    assert member.group_metadata == GroupMetadata("g")
    assert member.positions == {}
    for call in (member.__anext__, member.commit, member.rewind):
        with pytest.raises(UsageError, match="not started"):
            await call()
    await member.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group_id": ""}, "give the group a name"),
        ({"group_id": "\ud800"}, "give the group a name"),
        ({"config": 5}, "give a dict of settings, or a MemberConfig"),
        ({"on_assigned": 5}, "on_assigned is 5"),
        ({"topics": []}, "topics is empty"),
        ({"topics": None}, "topics is None: give the name of a topic"),
        ({"assignors": 5}, r"partition\.assignment\.strategy must be a list of assignors"),
        ({"assignors": []}, r"partition\.assignment\.strategy is empty"),
        ({"assignors": ["rnage"]}, "names no assignor"),
        ({"assignors": ["range", "range"]}, "'range' is given twice"),
        ({"assignors": [object()]}, "is not an assignor"),
        (
            {"auto_offset_reset": "soon"},
            r"auto\.offset\.reset must be one of latest, earliest, none, by_duration:PnDTnHnMn.nS, not 'soon'",
        ),
        ({"isolation_level": "none"}, r"isolation\.level must be one of read_uncommitted, read_committed, not 'none'"),
        ({"heartbeat_interval_ms": 45_000}, r"not below session\.timeout\.ms=45000"),
        ({"group_protocol": "consumer", "session_timeout_ms": 1}, r"session\.timeout\.ms can't be set"),
        ({"group_remote_assignor": "range"}, r"can't be set without group\.protocol=consumer"),
        ({"group_instance_id": ""}, r"group\.instance\.id is ''"),
        ({"sessoin_timeout_ms": 1}, "'session_timeout_ms'"),
    ],
)
def test_invalid_arguments_raise_at_once(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Member("localhost:9092", **{"group_id": "g", "topics": "t", **options})


def test_topics_have_legal_names() -> None:
    with pytest.raises(InvalidTopicError):
        Member("localhost:9092", group_id="g", topics=["a b"])


def test_assignors_are_names_classes_or_objects() -> None:
    java = "org.apache.kafka.clients.consumer.StickyAssignor"
    named: Any = [RangeAssignor(), java, "aioprod.group.assignors:RoundRobinAssignor"]
    made = created_assignors(MemberConfig.from_options(bootstrap_servers="localhost:9092", assignors=named))
    assert [assignor.name for assignor in made] == ["range", "sticky", "roundrobin"]
    Member("localhost:9092", group_id="g", topics="t", assignors=named)


def test_a_configuration_of_java() -> None:
    config = MemberConfig.from_dict(
        {"bootstrap.servers": "localhost:9092", "session.timeout.ms": "6000", "heartbeat.interval.ms": 2000}
    )
    assert Member(group_id="g", topics="t", config=config).config.session_timeout_ms == 6000
