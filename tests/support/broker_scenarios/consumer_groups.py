"""The protocol of KIP-848: ConsumerGroupHeartbeat."""

from __future__ import annotations

from typing import Any

from aioprod.errors import ErrorCode
from aioprod.messages import OffsetCommitRequest, OffsetFetchRequest
from aioprod.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from aioprod.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tests.support.broker_scenarios.scenario import scenario_of_version_2
from tests.support.lab import Lab, Topic
from tests.support.lab_groups import RawConsumer, open_group

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH
INVALID, NO_GROUP = ErrorCode.INVALID_REQUEST, ErrorCode.GROUP_ID_NOT_FOUND


async def four_partitions(lab: Lab) -> Topic:
    name = lab.new_name("topic")
    created = await lab.create(name, partitions=4)
    return Topic(name, created.topic_id)


@scenario_of_version_2
async def consumer_on_its_own(lab: Lab) -> None:
    """It is assigned all partitions, and gets the assignment once; a full request gets it again."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        member = await group.consumer()
        joined = await member.join(topic)
        assert joined.error_code == NONE
        assert joined.heartbeat_interval_ms > 0
        await member.given_at_last(0, 1, 2, 3)
        assert (await member.beat()).assignment is None
        assert (await member.beat(held=(topic, (0, 1, 2, 3)))).assignment is None
        again = await member.beat(held=(topic, (0,)), rebalance_timeout_ms=60_000, subscribed_topic_names=(topic.name,))
        assert again.assignment is not None
        assert member.assigned == [0, 1, 2, 3]
        epoch = member.epoch
        assert (await member.beat(-1)).member_epoch == -1
        assert (await member.beat(epoch)).error_code == UNKNOWN
        assert (await member.beat(-1)).error_code == UNKNOWN


@scenario_of_version_2
async def consumer_without_a_name(lab: Lab) -> None:
    """Before version 1 the broker generates the member's id."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        member = await group.consumer()
        member.id = ""
        assert (await member.join(topic)).error_code == INVALID
        assert (await member.join(topic, version=0)).error_code == NONE
        assert member.id
        await member.given_at_last(0, 1, 2, 3)


@scenario_of_version_2
async def partitions_that_go_to_another_consumer(lab: Lab) -> None:
    """Only when the owner has confirmed that it has revoked them."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        first, second = await group.consumer(), await group.consumer()
        await first.join(topic)
        await first.given_at_last(0, 1, 2, 3)
        await second.join(topic)
        assert (second.assigned, second.epoch) == ([], first.epoch + 1)
        assert (await second.beat()).assignment is None
        before = first.epoch
        assert (await first.beat(held=(topic, (0, 1, 2, 3)))).error_code == NONE
        assert (len(first.assigned), first.epoch) == (2, before)
        assert (await first.beat()).assignment is None
        assert (await second.beat()).assignment is None
        assert (await first.beat(held=(topic, first.assigned))).error_code == NONE
        assert first.epoch == second.epoch
        assert (await second.beat()).assignment is not None
        assert sorted(first.assigned + second.assigned) == [0, 1, 2, 3]
        await second.beat(-1)
        assert (await first.beat()).assignment is not None
        assert first.assigned == [0, 1, 2, 3]


@scenario_of_version_2
async def consumer_that_does_not_revoke(lab: Lab) -> None:
    """It is removed after the rebalance timeout, and others get its partitions."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        first, second = await group.consumer(), await group.consumer()
        await first.join(topic, rebalance_timeout_ms=300)
        await first.given_at_last(0, 1, 2, 3)
        await second.join(topic)
        await first.beat()
        await second.given_at_last(0, 1, 2, 3)
        assert (await first.beat()).error_code == UNKNOWN


@scenario_of_version_2
async def epochs_of_consumers(lab: Lab) -> None:
    """Its own is valid, the one before if it owns no more than its assignment, and 0 joins at any time."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        first, second = await group.consumer(), await group.consumer()
        await first.join(topic)
        await first.given_at_last(0, 1, 2, 3)
        before = first.epoch
        await second.join(topic)
        await first.beat()
        await first.beat(held=(topic, first.assigned))
        now = first.epoch
        assert now == before + 1
        assert (await first.beat(now + 1)).error_code == FENCED
        assert (await first.beat(before)).error_code == FENCED
        assert (await first.beat(before, (topic, (0, 1, 2, 3)))).error_code == FENCED
        late = await first.beat(before, (topic, first.assigned[:1]))
        assert (late.error_code, late.member_epoch) == (NONE, now)
        given = first.assigned
        again = await first.join(topic)
        assert (again.error_code, again.member_epoch, first.assigned) == (NONE, now, given)


@scenario_of_version_2
async def heartbeats_that_make_no_sense(lab: Lab) -> None:
    """Required fields, and invalid values."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        member = await group.consumer()
        full: dict[str, Any] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": (topic.name,)}
        assert (await member.beat(5)).error_code == NO_GROUP
        assert (await member.beat(-1)).error_code == NO_GROUP
        assert (await member.beat(0, (topic, (1,)), **full)).error_code == INVALID
        assert (await member.beat(0, None, **full)).error_code == INVALID
        assert (await member.beat(0, (topic, ()), rebalance_timeout_ms=1000)).error_code == INVALID
        assert (await member.beat(0, (topic, ()), subscribed_topic_names=(topic.name,))).error_code == INVALID
        assert (await member.beat(-2)).error_code == INVALID
        assert (await member.beat(-3)).error_code == INVALID
        assert (await member.join(topic, rack_id="")).error_code == INVALID
        assert (await member.join(topic, server_assignor="mine")).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        member.instance_id = ""
        assert (await member.join(topic)).error_code == INVALID
        member.group = ""
        assert (await member.beat(5)).error_code == INVALID


@scenario_of_version_2
async def static_consumer_that_comes_back(lab: Lab) -> None:
    """Its instance id is free once it has left temporarily, and its partitions stay assigned to it."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        before, other = await group.consumer("a"), await group.consumer("b")
        await before.join(topic)
        await before.given_at_last(0, 1, 2, 3)
        await other.join(topic)
        await before.beat()
        await before.beat(held=(topic, before.assigned))
        await other.beat()
        assert len(other.assigned) == 2
        after = await group.consumer("a")
        assert (await after.join(topic)).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert (await after.beat(before.epoch)).error_code == ErrorCode.FENCED_INSTANCE_ID
        stranger = await group.consumer("c")
        assert (await stranger.beat(before.epoch)).error_code == UNKNOWN
        epoch = before.epoch
        assert (await before.beat(-2)).member_epoch == -2
        assert (await before.beat(epoch)).error_code == FENCED
        assert (await other.beat()).assignment is None
        assert (await after.join(topic)).error_code == NONE
        assert (after.assigned, after.epoch) == (before.assigned, epoch)
        assert (await before.beat(epoch)).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert (await after.beat(-1)).member_epoch == -1
        await other.beat()
        assert other.assigned == [0, 1, 2, 3]


@scenario_of_version_2
async def subscriptions_that_change(lab: Lab) -> None:
    """Partitions of topics that are left out are revoked; `range` assigns consecutive partitions."""
    one, two = await four_partitions(lab), await four_partitions(lab)
    async with open_group(lab) as group:
        first, second = await group.consumer(), await group.consumer()
        first.id, second.id = sorted((first.id, second.id))
        await first.join(one, server_assignor="range")
        await first.given_at_last(0, 1, 2, 3)
        await second.join(one)
        await first.beat()
        assert first.assigned == [0, 1]
        await first.beat(held=(one, (0, 1)))
        await second.beat()
        assert second.assigned == [2, 3]
        await second.beat(held=(one, (2, 3)), subscribed_topic_names=(two.name,))
        assert second.assigned == []
        await second.beat(held=(one, ()))
        await second.given_at_last(0, 1, 2, 3)
        await first.given_at_last(0, 1, 2, 3)


async def commit(lab: Lab, member: RawConsumer, topic: Topic, epoch: int, version: int = 9) -> ErrorCode | int:
    """OffsetCommit with a member's epoch."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=member.group,
        generation_id_or_member_epoch=epoch,
        member_id=member.id,
        topics=(OffsetCommitRequestTopic(name=topic.name, partitions=(row,)),),
    )
    return ErrorCode.of((await lab.request(request, version)).topics[0].partitions[0].error_code)


async def fetched(lab: Lab, member: RawConsumer, topic: Topic, epoch: int) -> tuple[ErrorCode | int, int]:
    """OffsetFetch with a member's epoch: error and offset."""
    wanted = OffsetFetchRequestGroup(
        group_id=member.group,
        member_id=member.id,
        member_epoch=epoch,
        topics=(OffsetFetchRequestTopics(name=topic.name, partition_indexes=(0,)),),
    )
    (answer,) = (await lab.request(OffsetFetchRequest(groups=(wanted,)), 9)).groups
    offset = answer.topics[0].partitions[0].committed_offset if answer.topics else -1
    return ErrorCode.of(answer.error_code), offset


@scenario_of_version_2
async def commits_of_consumers(lab: Lab) -> None:
    """Only members commit and fetch offsets, with their current epoch."""
    topic = await lab.topic()
    async with open_group(lab) as group:
        member, stranger = await group.consumer(), await group.consumer()
        await member.join(topic)
        await member.given_at_last(0)
        epoch = member.epoch
        assert await commit(lab, member, topic, epoch) == NONE
        assert await commit(lab, member, topic, epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
        assert await commit(lab, member, topic, epoch, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert await commit(lab, stranger, topic, epoch) == UNKNOWN
        assert await lab.commit(group.id, topic, 1) == UNKNOWN
        assert await fetched(lab, member, topic, epoch) == (NONE, 5)
        assert await fetched(lab, member, topic, epoch + 1) == (ErrorCode.STALE_MEMBER_EPOCH, -1)
        assert await fetched(lab, stranger, topic, epoch) == (UNKNOWN, -1)
        assert await lab.committed(group.id, topic) == (NONE, 5)
        name, producer = await lab.new_producer()
        await lab.add_offsets(name, producer, group.id)
        late = await lab.commit_in(name, producer, group.id, topic, 7, generation=epoch + 1, member=member.id)
        assert late == ErrorCode.ILLEGAL_GENERATION
        assert await lab.commit_in(name, producer, group.id, topic, 7, generation=epoch, member=member.id) == NONE
        await member.beat(-1)
        assert await lab.commit(group.id, topic, 1) == NONE


@scenario_of_version_2
async def groups_of_the_other_protocol(lab: Lab) -> None:
    """A group has one protocol while it has members; an empty one takes either."""
    topic = await four_partitions(lab)
    async with open_group(lab) as group:
        classic, member = await group.member(), await group.consumer()
        await group.stabilize(classic)
        assert (await member.join(topic)).error_code == NO_GROUP
        assert (await member.beat(5)).error_code == NO_GROUP
        await classic.leave()
        assert (await member.join(topic)).error_code == NONE
        assert await classic.heartbeat() == UNKNOWN
        classic.id = ""
        failed = await classic.join(protocol_type="connect")
        assert failed.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        await member.beat(-1)
        await group.stabilize(classic)
