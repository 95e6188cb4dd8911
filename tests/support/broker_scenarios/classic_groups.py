"""The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import Lab
from tests.support.lab_groups import open_group

NONE, UNKNOWN, REBALANCE = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS
ILLEGAL, FENCED, CLASH = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)


@scenario
async def one_member(lab: Lab) -> None:
    """It gets its id first, becomes the leader, and gets the assignment that it sends."""
    async with open_group(lab) as group:
        member = await group.member()
        first_answer = await member.join()
        assert (first_answer.error_code, first_answer.generation_id, first_answer.protocol_name) == (
            ErrorCode.MEMBER_ID_REQUIRED,
            -1,
            None,
        )
        assert first_answer.member_id.startswith("lab-")
        joined = await member.join()
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (NONE, 1, "range")
        assert (joined.protocol_type, joined.skip_assignment) == ("consumer", False)
        assert joined.leader == joined.member_id == member.id
        assert [(one.member_id, one.metadata) for one in joined.members] == [(member.id, b"r")]
        assert await member.heartbeat() == NONE
        synced = await member.sync({member.id: b"mine", "unknown": b"x"})
        assert (synced.error_code, synced.assignment, synced.protocol_name) == (NONE, b"mine", "range")
        assert (await member.sync()).assignment == b"mine"
        left = await member.leave()
        assert (left.error_code, left.members[0].error_code) == (NONE, NONE)
        assert await member.heartbeat() == UNKNOWN


@scenario
async def old_versions_of_joining(lab: Lab) -> None:
    """Before version 4 a member joins without an id; before 7 a missing protocol name is empty."""
    async with open_group(lab) as group:
        member = await group.member()
        member.id = "unknown"
        failed = await member.join(version=6)
        assert (failed.error_code, failed.protocol_name, failed.member_id) == (UNKNOWN, "", "unknown")
        member.id = ""
        joined = await member.join(version=2)
        assert (joined.error_code, joined.generation_id) == (NONE, 1)
        assert (await member.sync({member.id: b"mine"}, version=2)).assignment == b"mine"
        assert (await member.leave(2)).error_code == NONE
        assert (await member.leave(2)).error_code == UNKNOWN


@scenario
async def two_members(lab: Lab) -> None:
    """The first has to rejoin; the follower sees no members; both get their assignments."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first)
        assert (await second.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert await first.heartbeat() == NONE
        joining = asyncio.create_task(second.join())
        await group.rebalancing(first)
        assert (await first.sync()).error_code == REBALANCE
        mine, other = await asyncio.gather(first.join(), joining)
        assert (mine.generation_id, other.generation_id) == (2, 2)
        assert (mine.leader, other.leader) == (first.id, first.id)
        assert {one.member_id for one in mine.members} == {first.id, second.id}
        assert other.members == ()
        await group.assign(first, second)
        assert await first.heartbeat() == await second.heartbeat() == NONE
        first.generation = 1
        assert await first.heartbeat() == ILLEGAL
        assert (await first.sync()).error_code == ILLEGAL


@scenario
async def a_follower_that_joins_again(lab: Lab) -> None:
    """With the same subscription it gets the current generation; a new one, or the leader, starts a rebalance."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first, second)
        again = await second.join()
        assert (again.error_code, again.generation_id) == (NONE, 2)
        assert await first.heartbeat() == NONE
        joining = asyncio.create_task(second.join({"range": b"other"}))
        await group.rebalancing(first)
        mine, _ = await asyncio.gather(first.join(), joining)
        assert mine.generation_id == 3
        assert {one.metadata for one in mine.members} == {b"r", b"other"}
        again = await second.join({"range": b"other"})
        assert again.generation_id == 3
        await group.assign(first, second)
        joining = asyncio.create_task(first.join())
        await group.rebalancing(second)
        joined, _ = await asyncio.gather(joining, second.join({"range": b"other"}))
        assert joined.generation_id == 4


@scenario
async def a_rebalance_while_others_wait_for_the_leader(lab: Lab) -> None:
    """A member that waits in SyncGroup has to rejoin."""
    async with open_group(lab) as group:
        first, second, third = await group.member(), await group.member(), await group.member()
        await group.stabilize(first)
        await group.admit(second, first)
        syncing = asyncio.create_task(second.sync())
        joining = asyncio.create_task(third.enter())
        assert (await syncing).error_code == REBALANCE
        await group.rebalancing(first)
        joined = await asyncio.gather(first.join(), second.join(), joining)
        assert [one.generation_id for one in joined] == [3, 3, 3]
        await group.assign(first, second, third)


@scenario
async def votes(lab: Lab) -> None:
    """The protocol that all support, and of several the one that most members prefer."""
    async with open_group(lab) as group:
        first, second, third = await group.member(), await group.member(), await group.member()
        assert (await first.enter({"b": b"1", "a": b"2"})).protocol_name == "b"
        assert (await second.join({"c": b""})).error_code == CLASH
        assert (await second.join({"a": b""}, protocol_type="connect")).error_code == CLASH
        assert (await second.join({})).error_code == CLASH
        joining = asyncio.create_task(second.enter({"a": b"3", "b": b"4"}))
        await group.rebalancing(first)
        await asyncio.gather(first.join({"b": b"1", "a": b"2"}), joining)
        joining = asyncio.create_task(third.enter({"c": b"", "a": b"5", "b": b"6"}))
        await group.rebalancing(first)
        mine, *_ = await asyncio.gather(
            first.join({"b": b"1", "a": b"2"}), second.join({"a": b"3", "b": b"4"}), joining
        )
        assert mine.protocol_name == "a"
        assert {one.metadata for one in mine.members} == {b"2", b"3", b"5"}
        assert (await second.sync(protocol="b")).error_code == CLASH


@scenario
async def leaving(lab: Lab) -> None:
    """The others have to rejoin, and the next one is the leader."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first, second)
        assert (await first.leave()).members[0].error_code == NONE
        assert (await first.leave()).members[0].error_code == UNKNOWN
        await group.rebalancing(second)
        joined = await second.join()
        assert (joined.generation_id, joined.leader) == (3, second.id)
        await group.assign(second)
        assert (await second.leave()).members[0].error_code == NONE
        third = await group.member()
        assert (await third.enter()).generation_id == 5


@scenario
async def leaving_while_others_join(lab: Lab) -> None:
    """A rebalance does not wait for a member that has left."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first)
        joining = asyncio.create_task(second.enter())
        await group.rebalancing(first)
        await first.leave()
        joined = await joining
        assert (joined.generation_id, joined.leader) == (2, second.id)


@scenario
async def sessions_that_end(lab: Lab) -> None:
    """A member without heartbeats is removed, also one that has its id and did not join with it."""
    async with open_group(lab) as group:
        first, second, third = await group.member(), await group.member(), await group.member()
        await group.stabilize(first, second, session_ms=2_000)
        assert (await third.join(session_ms=100)).error_code == ErrorCode.MEMBER_ID_REQUIRED
        await group.rebalancing(first)
        joined = await first.join(session_ms=60_000)
        assert [one.member_id for one in joined.members] == [first.id]
        assert await second.heartbeat() == UNKNOWN
        assert (await second.join()).error_code == UNKNOWN
        assert (await second.sync()).error_code == UNKNOWN
        assert (await third.join()).error_code == UNKNOWN


@scenario
async def members_that_do_not_join_again(lab: Lab) -> None:
    """They are removed after the rebalance timeout."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first, rebalance_ms=1_500)
        joined = await second.enter(rebalance_ms=1_500)
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 2, second.id)
        assert await first.heartbeat() == UNKNOWN


@scenario
async def a_leader_that_does_not_assign(lab: Lab) -> None:
    """It is removed after the rebalance timeout, and the others rebalance."""
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first, rebalance_ms=1_500)
        await group.admit(second, first, rebalance_ms=1_500)
        assert (await second.sync()).error_code == REBALANCE
        assert await first.heartbeat() == UNKNOWN
        joined = await second.join(rebalance_ms=1_500)
        assert (joined.generation_id, joined.leader) == (3, second.id)


@scenario
async def limits_of_sessions(lab: Lab) -> None:
    """The bounds of session timeouts, and empty or unknown groups."""
    async with open_group(lab) as group:
        member = await group.member()
        assert (await member.join(session_ms=1)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        member.group = ""
        assert (await member.join()).error_code == ErrorCode.INVALID_GROUP_ID
        member.group = lab.new_name("missing")
        assert await member.heartbeat() == UNKNOWN
        assert (await member.sync()).error_code == CLASH
        assert (await member.sync(protocol="range")).error_code == UNKNOWN
        assert (await member.leave(2)).error_code == UNKNOWN
        left = await member.leave()
        assert (left.error_code, left.members[0].error_code) == (NONE, UNKNOWN)


@scenario
async def static_member_that_comes_back(lab: Lab) -> None:
    """It gets its assignment back, under a new id and without a rebalance (KIP-345)."""
    async with open_group(lab) as group:
        leader, before = await group.member("a"), await group.member("b")
        await group.stabilize(leader, before)
        after = await group.member("b")
        joined = await after.join()
        assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 2, leader.id)
        assert after.id != before.id
        assert after.id.startswith("b-")
        assert (joined.members, joined.skip_assignment) == ((), False)
        assert (await after.sync()).assignment == before.id.encode()
        assert await leader.heartbeat() == NONE
        assert await before.heartbeat() == FENCED
        assert (await before.sync()).error_code == FENCED
        assert (await before.join()).error_code == FENCED
        assert (await before.leave()).members[0].error_code == FENCED


@scenario
async def static_leader_that_comes_back(lab: Lab) -> None:
    """It stays the leader and skips the assignment (KIP-814); older versions name another leader."""
    async with open_group(lab) as group:
        leader, other = await group.member("a"), await group.member("b")
        await group.stabilize(leader, other)
        after = await group.member("a")
        joined = await after.join()
        assert (joined.generation_id, joined.leader, joined.skip_assignment) == (2, after.id, True)
        assert {one.member_id for one in joined.members} == {after.id, other.id}
        assert {one.group_instance_id for one in joined.members} == {"a", "b"}
        assert (await after.sync()).assignment == leader.id.encode()
        late = await group.member("a")
        joined = await late.join(version=8)
        assert (joined.generation_id, joined.leader, joined.skip_assignment) == (2, after.id, False)
        assert joined.members == ()
        assert await other.heartbeat() == NONE


@scenario
async def static_member_that_joins_twice(lab: Lab) -> None:
    """The second one fences the first, which waits."""
    async with open_group(lab) as group:
        leader, first, second = await group.member(), await group.member("a"), await group.member("a")
        await group.stabilize(leader)
        joining = asyncio.create_task(first.join())
        await group.rebalancing(leader)
        again = asyncio.create_task(second.join())
        assert (await joining).error_code == FENCED
        joined, other = await asyncio.gather(leader.join(), again)
        assert (joined.generation_id, other.generation_id) == (2, 2)
        await group.assign(leader, second)


@scenario
async def static_member_that_leaves(lab: Lab) -> None:
    """Another client may remove it by its instance id."""
    async with open_group(lab) as group:
        first, second = await group.member("a"), await group.member("b")
        await group.stabilize(first, second)
        assert (await second.leave(by_instance=True)).members[0].error_code == NONE
        await group.rebalancing(first)
        assert (await first.join()).generation_id == 3
        unknown = await group.member("c")
        assert (await unknown.leave(by_instance=True)).members[0].error_code == UNKNOWN


@scenario
async def static_members_that_do_not_join_again(lab: Lab) -> None:
    """They stay in the group until their sessions expire."""
    async with open_group(lab) as group:
        first, static = await group.member(), await group.member("a")
        await group.stabilize(first, static, rebalance_ms=1_500)
        joined = await first.join(rebalance_ms=1_500)
        assert {one.member_id for one in joined.members} == {first.id, static.id}


@scenario
async def static_members_none_of_which_rejoins(lab: Lab) -> None:
    """The rebalance waits until their sessions expire."""
    async with open_group(lab) as group:
        first, second = await group.member("a"), await group.member("b")
        await group.stabilize(first, second, rebalance_ms=1_000)
        await second.leave(by_instance=True)
        await group.rebalancing(first)
        await asyncio.sleep(1.5)
        assert await first.heartbeat() == REBALANCE
        assert (await first.join(rebalance_ms=1_000)).generation_id == 3


@scenario
async def leaving_before_joining(lab: Lab) -> None:
    """A member that has its id and leaves without joining does not delay the others."""
    async with open_group(lab) as group:
        first, second, third = await group.member(), await group.member(), await group.member()
        await group.stabilize(first)
        assert (await third.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
        joining = asyncio.create_task(second.enter())
        await group.rebalancing(first)
        rejoining = asyncio.create_task(first.join())
        assert (await third.leave()).members[0].error_code == NONE
        mine, other = await asyncio.gather(rejoining, joining)
        assert (mine.generation_id, other.generation_id) == (2, 2)
        assert (await third.join()).error_code == UNKNOWN


@scenario
async def commits_of_members(lab: Lab) -> None:
    """Only members of the generation commit, and not while the leader's assignment is awaited."""
    topic = await lab.topic()
    async with open_group(lab) as group:
        first, second = await group.member(), await group.member()
        await group.stabilize(first)
        assert await lab.commit(group.id, topic, 1) == UNKNOWN
        assert await lab.commit(group.id, topic, 1, generation=1, member="unknown") == UNKNOWN
        assert await lab.commit(group.id, topic, 1, generation=0, member=first.id) == ILLEGAL
        assert await lab.commit(group.id, topic, 1, generation=1, member=first.id) == NONE
        joining = asyncio.create_task(second.enter())
        await group.rebalancing(first)
        assert await lab.commit(group.id, topic, 2, generation=1, member=first.id) == NONE
        await asyncio.gather(first.join(), joining)
        assert await lab.commit(group.id, topic, 3, generation=1, member=first.id) == ILLEGAL
        assert await lab.commit(group.id, topic, 3, generation=2, member=first.id) == REBALANCE
        await group.assign(first, second)
        assert await lab.commit(group.id, topic, 3, generation=2, member=first.id) == NONE
        assert await lab.committed(group.id, topic) == (NONE, 3)
        name, producer = await lab.new_producer()
        await lab.add_offsets(name, producer, group.id)
        late = await lab.commit_in(name, producer, group.id, topic, 4, generation=1, member=first.id)
        assert late == ILLEGAL
        assert await lab.commit_in(name, producer, group.id, topic, 4, generation=2, member=second.id) == NONE
        await asyncio.gather(first.leave(), second.leave())
        assert await lab.commit(group.id, topic, 5) == NONE
