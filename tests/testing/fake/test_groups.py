"""Groups of the fake cluster under faults: what real brokers can't be made to do at will."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import FakePartition
from tests.support.lab import Topic, connected_lab
from tests.support.lab_groups import RawMember, open_group
from tests.support.simulated import in_simulated_time

NONE, WRONG, UNKNOWN = ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID


async def test_another_coordinator_has_the_last_assignment() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.move_coordinator(group.id, 1)
        first, second, third = await group.member("a"), await group.member(), await group.member()
        await group.stabilize(first, second)
        joining = asyncio.create_task(third.enter())
        await group.rebalancing(first)
        cluster.move_coordinator(group.id, 2)
        assert (await joining).error_code == WRONG
        assert await first.heartbeat() == WRONG
        assert (await first.join()).error_code == WRONG
        assert (await first.sync()).error_code == WRONG
        assert (await first.leave()).error_code == WRONG
        async with connected_lab(cluster[2].address) as there:
            moved = [RawMember(there, group.id, one.instance_id) for one in (first, second, third)]
            for old, new in zip((first, second, third), moved, strict=True):
                new.id, new.generation, new.protocol = old.id, 2, "range"
            assert [await one.heartbeat() for one in moved] == [NONE, NONE, UNKNOWN]
            assert (await moved[0].sync()).assignment == first.id.encode()


@in_simulated_time
async def test_another_broker_becomes_coordinator_when_one_is_killed() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.state.coordinators.clear()
        home = cluster.state.coordinator(group.id)
        assert home is not None
        member = await group.member()
        member.lab = await group.connect(cluster[home].address)
        await group.stabilize(member, session_ms=200)
        await cluster.kill(home)
        # Longer than the session, which does not expire: the timers of a killed coordinator have no effect.
        await asyncio.sleep(0.3)
        member.lab = await group.connect(cluster[3 - home].address)
        assert await member.heartbeat() == NONE
        await cluster.restart(home)
        assert await member.heartbeat() == WRONG
        member.lab = await group.connect(cluster[home].address)
        assert await member.heartbeat() == NONE


async def test_errors_on_demand() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        member = await group.member()
        for kind in (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest):
            cluster.fault(kind, error=busy)
        assert (await member.join()).error_code == busy
        await member.enter()
        assert (await member.sync({member.id: b"x"})).error_code == busy
        assert await member.heartbeat() == busy
        assert (await member.leave()).error_code == busy
        cluster.fault(SyncGroupRequest, error=busy, apply=True)
        cluster.fault(LeaveGroupRequest, error=busy, apply=True)
        assert (await member.sync({member.id: b"x"})).error_code == busy
        assert (await member.sync()).assignment == b"x"
        assert (await member.leave()).error_code == busy
        assert await member.heartbeat() == UNKNOWN


@in_simulated_time
async def test_a_new_group_waits_for_more_members() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.state.groups.settings.initial_delay_s = 0.2
        first, second = await group.member(), await group.member()
        joined = await asyncio.gather(first.enter(), second.enter())
        assert [answer.generation_id for answer in joined] == [1, 1]
        assert sorted(len(answer.members) for answer in joined) == [0, 2]


async def test_a_group_that_is_full() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.state.groups.settings.size_max = 1
        first, second = await group.member(), await group.member()
        await group.stabilize(first)
        assert (await second.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (await first.join()).error_code == NONE


async def test_a_response_for_a_closed_connection() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first)
        cluster.fault(JoinGroupRequest, drop="lurking", when=lambda request: request.member_id)
        joining = asyncio.create_task(second.enter())
        await group.rebalancing(first)
        await asyncio.gather(joining, return_exceptions=True)
        assert len((await first.join()).members) == 2


# --- the brokers' own protocol (KIP-848)


async def topic_of(cluster: FakeCluster, partitions: int = 4) -> Topic:
    made = cluster.create_topic("t", partitions)
    return Topic(made.name, made.id)


@in_simulated_time
async def test_sessions_of_consumers_end() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.state.groups.settings.session_timeout_s = 0.2
        topic = await topic_of(cluster)
        first, second = await group.consumer(), await group.consumer()
        await first.join(topic)
        await second.join(topic)
        await second.given_at_last(0, 1, 2, 3)
        assert (await first.beat()).error_code == UNKNOWN


@in_simulated_time
async def test_another_coordinator_has_all_consumers() -> None:
    async with FakeCluster(2) as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        cluster.move_coordinator(group.id, 1)
        topic = await topic_of(cluster)
        first, second = await group.consumer(), await group.consumer()
        await first.join(topic, rebalance_timeout_ms=200)
        await second.join(topic)
        await first.beat()
        cluster.move_coordinator(group.id, 2)
        assert (await first.beat()).error_code == WRONG
        first.lab = second.lab = await group.connect(cluster[2].address)
        assert (await first.beat()).error_code == NONE
        # It still has to give something up in time.
        await second.given_at_last(0, 1, 2, 3)
        assert (await first.beat()).error_code == UNKNOWN


async def test_errors_on_demand_for_consumers() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        topic, member = await topic_of(cluster), await group.consumer()
        busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        cluster.fault(ConsumerGroupHeartbeatRequest, error=busy)
        assert (await member.join(topic)).error_code == busy
        assert group.id not in cluster.state.groups
        cluster.fault(ConsumerGroupHeartbeatRequest, error=busy, apply=True)
        assert (await member.join(topic)).error_code == busy
        assert len(cluster.state.groups) == 1
        cluster.state.groups.settings.size_max = 1
        assert (await (await group.consumer()).join(topic)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_added_partitions_are_assigned() -> None:
    async with FakeCluster() as cluster, connected_lab(cluster[1].address) as lab, open_group(lab) as group:
        topic, member = await topic_of(cluster, 1), await group.consumer()
        await member.join(topic)
        assert member.assigned == [0]
        cluster.topics["t"].partitions.append(FakePartition(1))
        await member.beat()
        assert member.assigned == [0, 1]
