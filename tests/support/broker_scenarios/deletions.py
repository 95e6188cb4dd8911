"""DeleteGroups, OffsetDelete and DeleteRecords, and the offsets of a topic that is deleted."""

from __future__ import annotations

import asyncio

from aioprod.errors import ErrorCode
from aioprod.group.assignors import Subscription
from aioprod.group.subscription_codec import encode_subscription
from aioprod.messages import DeleteGroupsRequest, DeleteRecordsRequest, DescribeGroupsRequest, OffsetDeleteRequest
from aioprod.messages.delete_records import DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsTopic
from aioprod.messages.describe_groups import DescribedGroup
from aioprod.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from tests.support.broker_scenarios.administration import listed
from tests.support.broker_scenarios.scenario import scenario
from tests.support.lab import PATIENCE_S, Lab, Topic, batch
from tests.support.lab_groups import open_group

NONE = ErrorCode.NONE


async def deleted(lab: Lab, *groups: str) -> list[int]:
    """DeleteGroups: the error of each."""
    rows = (await lab.request(DeleteGroupsRequest(groups_names=groups), 2)).results
    found = {row.group_id: row.error_code for row in rows}
    return [found[group] for group in groups]


async def forgotten(lab: Lab, group: str, topic: Topic, partition: int = 0) -> tuple[int, list[int]]:
    """OffsetDelete of one partition: the error of the request, and that of the partition."""
    row = OffsetDeleteRequestPartition(partition_index=partition)
    wanted = OffsetDeleteRequestTopic(name=topic.name, partitions=(row,))
    answer = await lab.request(OffsetDeleteRequest(group_id=group, topics=(wanted,)), 0)
    return answer.error_code, [one.error_code for place in answer.topics for one in place.partitions]


async def described(lab: Lab, group: str) -> DescribedGroup:
    """DescribeGroups."""
    return (await lab.request(DescribeGroupsRequest(groups=(group,)), 5)).groups[0]


async def records_deleted(lab: Lab, topic: Topic, offset: int) -> DeleteRecordsPartitionResult:
    """DeleteRecords of the first partition."""
    row = DeleteRecordsPartition(partition_index=0, offset=offset)
    wanted = DeleteRecordsTopic(name=topic.name, partitions=(row,))
    (place,) = (await lab.request(DeleteRecordsRequest(topics=(wanted,), timeout_ms=30_000), 2)).topics
    return place.partitions[0]


@scenario
async def groups_are_deleted(lab: Lab) -> None:
    """With their offsets; not one that has members, and not one that does not exist."""
    topic, group, missing = await lab.topic(), lab.new_name("group"), lab.new_name("missing")
    assert await lab.commit(group, topic, 5) == NONE
    assert await deleted(lab, group, missing) == [NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert await listed(lab, group) is None
    assert await lab.committed(group, topic) == (NONE, -1)
    assert await deleted(lab, group) == [ErrorCode.GROUP_ID_NOT_FOUND]
    async with open_group(lab) as members:
        await members.stabilize(member := await members.member())
        assert await deleted(lab, member.group) == [ErrorCode.NON_EMPTY_GROUP]
        await member.leave()
        assert await deleted(lab, member.group) == [NONE]


@scenario
async def offsets_are_deleted(lab: Lab) -> None:
    """Of partitions that exist, in groups that exist; those of topics that a member reads are kept."""
    topic, other, group = await lab.topic(), await lab.topic(), lab.new_name("group")
    assert await forgotten(lab, group, topic) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert await lab.commit(group, topic, 5) == NONE
    unknown = (NONE, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
    assert await forgotten(lab, group, topic, 7) == unknown
    assert await forgotten(lab, group, Topic(lab.new_name("missing"), topic.id)) == unknown
    assert await forgotten(lab, group, other) == (NONE, [NONE])
    assert await lab.committed(group, topic) == (NONE, 5)
    assert await forgotten(lab, group, topic) == (NONE, [NONE])
    assert await lab.committed(group, topic) == (NONE, -1)
    async with open_group(lab) as members:
        member = await members.member()
        await member.enter({"range": encode_subscription(Subscription((topic.name,)))})
        await member.sync({member.id: b"mine"})
        assert await forgotten(lab, member.group, topic) == (NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        assert await forgotten(lab, member.group, other) == (NONE, [NONE])
    async with open_group(lab) as members:
        member = await members.member()
        await member.enter({"one": b"subscribed"}, protocol_type="connect")
        assert await forgotten(lab, member.group, topic) == (ErrorCode.NON_EMPTY_GROUP, [])
        await member.leave()
        assert await forgotten(lab, member.group, topic) == (NONE, [NONE])


@scenario
async def what_consumers_of_the_new_protocol_read_is_kept(lab: Lab) -> None:
    """Their group is not deleted, commits from outside of it are refused, and offsets of other topics are deleted."""
    topic, other = await lab.topic(), await lab.topic()
    async with open_group(lab) as members:
        member = await members.consumer()
        assert (await member.join(topic)).error_code == NONE
        assert await deleted(lab, member.group) == [ErrorCode.NON_EMPTY_GROUP]
        assert await lab.commit(member.group, topic, 5) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await forgotten(lab, member.group, topic) == (NONE, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
        assert await forgotten(lab, member.group, other) == (NONE, [NONE])
        assert (await member.beat(-1)).error_code == NONE
        assert await lab.commit(member.group, topic, 5) == NONE
        assert await forgotten(lab, member.group, topic) == (NONE, [NONE])
        assert await deleted(lab, member.group) == [NONE]


@scenario
async def members_are_described(lab: Lab) -> None:
    """With their subscriptions and assignments once the group is stable, and with the group's type of protocol."""
    async with open_group(lab) as group:
        member = await group.member()
        await member.enter({"one": b"subscribed"}, protocol_type="connect")
        found = await described(lab, member.group)
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("CompletingRebalance", "connect", "")
        assert [(one.member_metadata, one.member_assignment) for one in found.members] == [(b"", b"")]
    async with open_group(lab) as group:
        member = await group.member()
        await member.enter({"range": b"subscribed"})
        await member.sync({member.id: b"mine"})
        found = await described(lab, member.group)
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
        assert [(one.member_metadata, one.member_assignment) for one in found.members] == [(b"subscribed", b"mine")]


@scenario
async def a_deleted_topic_takes_its_offsets_along(lab: Lab) -> None:
    """Also for a topic of the same name that is created later."""
    topic, group = await lab.topic(), lab.new_name("group")
    assert await lab.commit(group, topic, 5) == NONE
    await lab.delete(topic)
    async with asyncio.timeout(PATIENCE_S):
        # The coordinator hears of it later than the broker that answers Metadata.
        while await lab.committed(group, topic) != (NONE, -1):
            await asyncio.sleep(0.01)
    again = await lab.topic(topic.name)
    assert await lab.committed(group, again) == (NONE, -1)


@scenario
async def records_are_deleted(lab: Lab) -> None:
    """Up to the end of the log; before its start there is nothing to delete, which is no error."""
    topic = await lab.topic()
    await lab.send(topic, batch(count=3))
    for offset, start in ((2, 2), (1, 2), (0, 2), (-1, 3)):
        row = await records_deleted(lab, topic, offset)
        assert (row.error_code, row.low_watermark) == (NONE, start)
    for offset in (4, -2):
        assert (await records_deleted(lab, topic, offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
