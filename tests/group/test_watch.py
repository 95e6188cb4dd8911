"""A member that does not get on says why: in the log after some seconds, and to who asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod.errors import ErrorCode
from aioprod.group import Member
from aioprod.group.explain import PATIENCE_WITH_OTHERS_S, Trouble
from aioprod.group.watch import AGAIN_S, LOOK_S, Watch
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetFetchRequest,
)
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest
from tests.group.test_member_in_time import PROTOCOLS, Reading, play

JOINS: dict[str, type[AnyRequest]] = {"classic": JoinGroupRequest, "consumer": ConsumerGroupHeartbeatRequest}
LOGGER = "aioprod.group"

Log = list[tuple[str, str]]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], Log]:
    """The level and the text of what the log was told so far."""
    caplog.set_level(logging.INFO, logger=LOGGER)

    def told() -> Log:
        return [(one.levelname, one.getMessage()) for one in caplog.records if one.name == LOGGER]

    return told


@asynccontextmanager
async def member(cluster: FakeCluster, *topics: str, **options: Any) -> AsyncIterator[Member]:
    """One that waits for records."""
    one = Reading(cluster, *topics, **options)
    async with one.member:
        task = asyncio.create_task(one.run())
        yield one.member
    await task


# --- what the log is told


def test_a_trouble_that_is_over_is_not_told_of_while_others_are_waited_for(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(JoinGroupRequest, drop="before")
        held = cluster.fault(JoinGroupRequest, hold=True)
        async with member(cluster, "t", group_protocol="classic") as one:
            await held.reached.wait()
            await asyncio.sleep(PATIENCE_WITH_OTHERS_S - LOOK_S)
            assert log() == []
            assert "waits for all others" in one.explain()
            assert "has not answered" not in one.explain()
            await asyncio.sleep(3 * LOOK_S)
            ((level, text),) = log()
            assert (level, "has waited for its share for" in text) == ("WARNING", True)
            held.release()
            await asyncio.sleep(2 * LOOK_S)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_coordinator_that_is_not_there_is_told_of_until_it_is(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        fault = cluster.fault(FindCoordinatorRequest, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=None)
        async with member(cluster, "t", group_protocol=protocol) as one:
            await asyncio.sleep(LOOK_S - 1.0)
            assert log() == []
            await asyncio.sleep(2.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert text.startswith("Member of group 'g' has waited for its coordinator for 5 s: It ")
            assert "No broker is the coordinator of group 'g' at the moment" in text
            assert "No broker is the coordinator of group 'g' at the moment" in one.explain()
            await asyncio.sleep(AGAIN_S)
            assert [level for level, _ in log()] == ["WARNING"] * 2
            assert "for 35 s" in log()[1][1]
            fault.times = fault.hits
            await asyncio.sleep(2 * LOOK_S)
            assert log()[2:] == [("INFO", "Member of group 'g' waits for its coordinator no more, after 40 s")]
            assert one.explain() == "Member of group 'g', which owns 6 partitions: It reads its share."

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_coordinator_that_closes_the_connection_is_told_of(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(JOINS[protocol], drop="before", times=None)
        async with member(cluster, "t", group_protocol=protocol):
            await asyncio.sleep(LOOK_S + 1.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert "has waited for its coordinator for 5 s" in text
            assert "closed the connection" in text

    play(scene)


def test_a_coordinator_that_can_not_be_reached_is_told_of(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.move_coordinator("g", 2)
        await cluster[2].kill(stay_in_metadata=True)
        async with member(cluster, "t"):
            await asyncio.sleep(LOOK_S + 1.0)
            assert any("has waited for its coordinator" in text and "refused" in text for _, text in log())

    play(scene)


def test_others_may_take_their_time_to_join(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        held = cluster.fault(JoinGroupRequest, hold=True)
        async with member(cluster, "t"):
            await asyncio.sleep(3 * LOOK_S)
            assert log() == []
            await asyncio.sleep(4 * LOOK_S)
            ((_, text),) = log()
            assert "has waited for its share for 30 s: It has asked to join, and waits for all others to do so." in text
            assert "is its coordinator." in text
            held.release()
            await asyncio.sleep(AGAIN_S)
            ((level, text),) = log()[1:]
            assert level == "INFO"
            assert text.startswith("Member of group 'g' waits for its share no more, after ")

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_that_does_not_exist_is_told_of(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with member(cluster, "t", "missing", group_protocol=protocol) as one:
            await asyncio.sleep(2 * LOOK_S + 1.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert "has waited for topic 'missing' for" in text
            assert "Topic 'missing' does not exist. Hint: Check its name, or create it." in text
            assert one.explain().startswith("Member of group 'g', which owns 6 partitions: It reads its share. Topic ")
            cluster.create_topic("missing", 1)
            await asyncio.sleep(3 * LOOK_S)
            assert [level for level, _ in log()] == ["WARNING", "INFO"]
            assert "waits for topic 'missing' no more" in log()[1][1]

    play(scene)


def test_partitions_that_can_not_be_read_are_told_of_by_their_cause(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.move_coordinator("g", 1)
        for index in range(6):
            cluster.move_leader("t", index, 2 if index % 2 else 3)
        async with member(cluster, "t") as one:
            await asyncio.sleep(1.0)
            for index in (0, 2, 4):
                cluster.state.move_leader(TopicPartition("t", index), None)
            await cluster[2].kill(stay_in_metadata=True)
            await asyncio.sleep(3 * LOOK_S)
            assert sorted(text.partition(" for ")[2].partition(" for ")[0] for _, text in log()) == [
                "broker 2",
                "partitions without a leader",
            ]
            assert "t-0, t-2, t-4 can't be read: no leader." in one.explain()
            assert "t-1, t-3, t-5 can't be read: " in one.explain()

    play(scene)


def test_offsets_that_are_not_told_are_a_trouble(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(OffsetFetchRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
        cluster.fault(HeartbeatRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
        async with member(cluster, "t"):
            await asyncio.sleep(LOOK_S + 1.0)
            ((_, text),) = log()
            assert "It begins to read what is new to it. Its coordinator has not answered: " in text
            assert "COORDINATOR_LOAD_IN_PROGRESS" in text

    play(scene)


def test_a_member_without_trouble_says_nothing(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with member(cluster, "t"):
            await asyncio.sleep(4 * AGAIN_S)
        assert log() == []

    play(scene)


# --- what who asks is told


async def test_who_is_not_in_a_group_says_so() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        one = Member(cluster.bootstrap, group_id="g", topics="t")
        assert one.explain() == "The member of group 'g' is not started."
        await one.start()
        assert one.explain().startswith("Member of group 'g', which owns ")
        await one.close()
        assert one.explain() == "The member of group 'g' is closed."


async def test_who_has_failed_says_why() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        cluster.fault(JoinGroupRequest, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, times=None)
        async with Member(cluster.bootstrap, group_id="g", topics="t") as one, asyncio.timeout(30):
            with pytest.raises(Exception, match="INCONSISTENT_GROUP_PROTOCOL"):
                await anext(one)
            assert "has failed: " in one.explain()
            assert "INCONSISTENT_GROUP_PROTOCOL" in one.explain()


# --- when it is told


def test_what_lasts_is_told_of_once_in_a_while_and_what_passes_is_not(log: Callable[[], Log]) -> None:
    troubles: list[Trouble] = []
    watch = Watch("g", lambda topics: troubles, lambda: 0.0)
    watch.look(frozenset({"t"}), 0.0)
    troubles[:] = [Trouble("a", "A."), Trouble("b", "B.", 30.0)]
    watch.look(frozenset({"t"}), 5.0)
    troubles[:] = [Trouble("b", "B.", 30.0)]
    watch.look(frozenset({"t"}), 10.0)
    assert log() == []
    troubles[:] = [Trouble("a", "A again."), Trouble("b", "B.", 30.0)]
    for at in range(15, 80, 5):
        watch.look(frozenset({"t"}), float(at))
    troubles.clear()
    watch.look(frozenset({"t"}), 80.0)
    assert sorted(log()) == [
        ("INFO", "Member of group 'g' waits for a no more, after 65 s"),
        ("INFO", "Member of group 'g' waits for b no more, after 75 s"),
        ("WARNING", "Member of group 'g' has waited for a for 35 s: A again."),
        ("WARNING", "Member of group 'g' has waited for a for 5 s: A again."),
        ("WARNING", "Member of group 'g' has waited for b for 30 s: B."),
        ("WARNING", "Member of group 'g' has waited for b for 60 s: B."),
    ]
