"""A member without progress logs why after some seconds, and explains it on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod.errors import ErrorCode
from aioprod.group import Member
from aioprod.group.explain import PATIENCE_WITH_OTHERS_S, WaitCause
from aioprod.group.member_log import MemberLog
from aioprod.group.stall_monitor import CHECK_INTERVAL_S, REPEAT_S, StallMonitor
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
    """The level and the text of the log lines so far, without those of rebalances."""
    caplog.set_level(logging.INFO, logger=LOGGER)

    def lines() -> Log:
        return [(one.levelname, one.getMessage()) for one in caplog.records if one.module == "stall_monitor"]

    return lines


@asynccontextmanager
async def member(cluster: FakeCluster, *topics: str, **options: Any) -> AsyncIterator[Member]:
    """One that waits for records."""
    one = Reading(cluster, *topics, **options)
    async with one.member:
        task = asyncio.create_task(one.run())
        yield one.member
    await task


# --- the log


def test_a_past_error_is_not_logged_while_the_member_waits_for_others(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(JoinGroupRequest, drop="before")
        held = cluster.fault(JoinGroupRequest, hold=True)
        async with member(cluster, "t", group_protocol="classic") as one:
            await held.reached.wait()
            await asyncio.sleep(PATIENCE_WITH_OTHERS_S - CHECK_INTERVAL_S)
            assert log() == []
            assert "waits until all members have joined" in one.explain()
            assert "has not answered" not in one.explain()
            await asyncio.sleep(3 * CHECK_INTERVAL_S)
            ((level, text),) = log()
            assert (level, "has waited for its assignment for" in text) == ("WARNING", True)
            held.release()
            await asyncio.sleep(2 * CHECK_INTERVAL_S)

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unavailable_coordinator_is_logged_until_it_is_back(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        fault = cluster.fault(FindCoordinatorRequest, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=None)
        async with member(cluster, "t", group_protocol=protocol) as one:
            await asyncio.sleep(CHECK_INTERVAL_S - 1.0)
            assert log() == []
            await asyncio.sleep(2.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert text.startswith("Member of group 'g' has waited for its coordinator for 5 s: It ")
            assert "No broker is the coordinator of group 'g' at the moment" in text
            assert "No broker is the coordinator of group 'g' at the moment" in one.explain()
            await asyncio.sleep(REPEAT_S)
            assert [level for level, _ in log()] == ["WARNING"] * 2
            assert "for 35 s" in log()[1][1]
            fault.times = fault.hits
            await asyncio.sleep(2 * CHECK_INTERVAL_S)
            assert log()[2:] == [("INFO", "Member of group 'g' no longer waits for its coordinator, after 40 s")]
            assert one.explain() == "Member of group 'g', which owns 6 partitions: It reads its partitions."

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_coordinator_that_closes_the_connection_is_logged(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(JOINS[protocol], drop="before", times=None)
        async with member(cluster, "t", group_protocol=protocol):
            await asyncio.sleep(CHECK_INTERVAL_S + 1.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert "has waited for its coordinator for 5 s" in text
            assert "closed the connection" in text

    play(scene)


def test_a_coordinator_that_can_not_be_reached_is_logged(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.move_coordinator("g", 2)
        await cluster[2].kill(stay_in_metadata=True)
        async with member(cluster, "t"):
            await asyncio.sleep(CHECK_INTERVAL_S + 1.0)
            assert any("has waited for its coordinator" in text and "refused" in text for _, text in log())

    play(scene)


def test_others_may_take_their_time_to_join(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        held = cluster.fault(JoinGroupRequest, hold=True)
        async with member(cluster, "t"):
            await asyncio.sleep(3 * CHECK_INTERVAL_S)
            assert log() == []
            # The seventh check falls a few ms beside the end of that time, before or after it.
            await asyncio.sleep(4 * CHECK_INTERVAL_S + 1.0)
            ((_, text),) = log()
            assert "has waited for its assignment for 30 s: It has sent JoinGroup, and waits until all" in text
            assert "is its coordinator." in text
            held.release()
            await asyncio.sleep(REPEAT_S)
            ((level, text),) = log()[1:]
            assert level == "INFO"
            assert text.startswith("Member of group 'g' no longer waits for its assignment, after ")

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_that_does_not_exist_is_logged(protocol: str, log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with member(cluster, "t", "missing", group_protocol=protocol) as one:
            await asyncio.sleep(2 * CHECK_INTERVAL_S + 1.0)
            ((level, text),) = log()
            assert level == "WARNING"
            assert "has waited for topic 'missing' for" in text
            assert "Topic 'missing' does not exist. Hint: Check its name, or create it." in text
            assert one.explain().startswith(
                "Member of group 'g', which owns 6 partitions: It reads its partitions. Topic "
            )
            cluster.create_topic("missing", 1)
            await asyncio.sleep(3 * CHECK_INTERVAL_S)
            assert [level for level, _ in log()] == ["WARNING", "INFO"]
            assert "no longer waits for topic 'missing'" in log()[1][1]

    play(scene)


def test_partitions_that_can_not_be_read_are_logged_by_cause(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.move_coordinator("g", 1)
        for index in range(6):
            cluster.move_leader("t", index, 2 if index % 2 else 3)
        async with member(cluster, "t") as one:
            await asyncio.sleep(1.0)
            for index in (0, 2, 4):
                cluster.state.move_leader(TopicPartition("t", index), None)
            await cluster[2].kill(stay_in_metadata=True)
            await asyncio.sleep(3 * CHECK_INTERVAL_S)
            assert sorted(text.partition(" for ")[2].partition(" for ")[0] for _, text in log()) == [
                "broker 2",
                "partitions without a leader",
            ]
            assert "t-0, t-2, t-4 can't be read: no leader." in one.explain()
            assert "t-1, t-3, t-5 can't be read: " in one.explain()

    play(scene)


def test_offsets_that_can_not_be_fetched_are_logged(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(OffsetFetchRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
        cluster.fault(HeartbeatRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
        async with member(cluster, "t"):
            await asyncio.sleep(CHECK_INTERVAL_S + 1.0)
            ((_, text),) = log()
            assert "It starts to read its new partitions. Its coordinator has not answered: " in text
            assert "COORDINATOR_LOAD_IN_PROGRESS" in text

    play(scene)


def test_a_member_without_errors_logs_nothing(log: Callable[[], Log]) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with member(cluster, "t"):
            await asyncio.sleep(4 * REPEAT_S)
        assert log() == []

    play(scene)


# --- explain


async def test_explain_outside_of_a_group() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        one = Member(cluster.bootstrap, group_id="g", topics="t")
        assert one.explain() == "The member of group 'g' is not started."
        await one.start()
        assert one.explain().startswith("Member of group 'g', which owns ")
        await one.close()
        assert one.explain() == "The member of group 'g' is closed."


async def test_explain_of_a_failed_member() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", 1)
        cluster.fault(JoinGroupRequest, error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, times=None)
        async with Member(cluster.bootstrap, group_id="g", topics="t") as one, asyncio.timeout(30):
            with pytest.raises(Exception, match="INCONSISTENT_GROUP_PROTOCOL"):
                await anext(one)
            assert "has failed: " in one.explain()
            assert "INCONSISTENT_GROUP_PROTOCOL" in one.explain()


# --- when it is logged


def test_lasting_causes_are_logged_periodically_and_short_ones_never(log: Callable[[], Log]) -> None:
    causes: list[WaitCause] = []
    monitor = StallMonitor(MemberLog("g", ""), lambda topics: causes, lambda: 0.0)
    monitor.check(frozenset({"t"}), 0.0)
    causes[:] = [WaitCause("a", "A."), WaitCause("b", "B.", 30.0)]
    monitor.check(frozenset({"t"}), 5.0)
    causes[:] = [WaitCause("b", "B.", 30.0)]
    monitor.check(frozenset({"t"}), 10.0)
    assert log() == []
    causes[:] = [WaitCause("a", "A again."), WaitCause("b", "B.", 30.0)]
    for at in range(15, 80, 5):
        monitor.check(frozenset({"t"}), float(at))
    causes.clear()
    monitor.check(frozenset({"t"}), 80.0)
    assert sorted(log()) == [
        ("INFO", "Member of group 'g' no longer waits for a, after 65 s"),
        ("INFO", "Member of group 'g' no longer waits for b, after 75 s"),
        ("WARNING", "Member of group 'g' has waited for a for 35 s: A again."),
        ("WARNING", "Member of group 'g' has waited for a for 5 s: A again."),
        ("WARNING", "Member of group 'g' has waited for b for 30 s: B."),
        ("WARNING", "Member of group 'g' has waited for b for 60 s: B."),
    ]
