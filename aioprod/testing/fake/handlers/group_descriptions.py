"""How a fake broker answers DescribeGroups and ConsumerGroupDescribe."""

from __future__ import annotations

import uuid
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aioprod.messages.consumer_group_describe import (
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedTopicPartitions,
)
from aioprod.messages.describe_groups import DescribedGroup, DescribedGroupMember
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.groups import listed
from aioprod.testing.fake.state.classic_group import ClassicGroup
from aioprod.testing.fake.state.kip848_group import ConsumerGroup, Member
from aioprod.testing.fake.state.server_assignors import SERVER_ASSIGNORS

__all__ = ["consumer_group_describe", "describe_groups"]

_HOST: Final = "/127.0.0.1"
_NOT_FOUND: Final = 6
"""Version of DescribeGroups: an error for groups that do not exist (KIP-1043)."""


def _error(call: Call, group_id: str) -> ErrorCode:
    return call.fault.error or call.denied("DESCRIBE", "group", group_id) or call.misdirected(group_id)


def describe_groups(call: Call, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Answer groups of the classic protocol; others, and those that do not exist, are dead."""
    return DescribeGroupsResponse(groups=tuple(_classic(call, name) for name in request.groups))


def _classic(call: Call, name: str) -> DescribedGroup:
    group = call.state.groups.get(name)
    error = _error(call, name)
    if error != ErrorCode.NONE:
        return DescribedGroup(error_code=error, group_id=name)
    if group is None or isinstance(group.membership, ConsumerGroup):
        missing = ErrorCode.GROUP_ID_NOT_FOUND if call.version >= _NOT_FOUND else ErrorCode.NONE
        return DescribedGroup(error_code=missing, group_id=name, group_state="Dead")
    row = listed(name, group)
    membership = group.membership
    members = membership.members.values() if isinstance(membership, ClassicGroup) else ()
    protocol = membership.protocol if isinstance(membership, ClassicGroup) else None
    # In a rebalance it is open which protocol the members will have, so there are no subscriptions either.
    is_stable = row.group_state == "Stable"
    return DescribedGroup(
        group_id=name,
        group_state=row.group_state,
        protocol_type=row.protocol_type,
        protocol_data=protocol or "" if is_stable else "",
        members=tuple(
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id if call.version >= 4 else None,
                # A member's id is that of its client, a hyphen, and a UUID.
                client_id=member.id.rsplit("-", 5)[0],
                client_host=_HOST,
                member_metadata=member.metadata(protocol) if is_stable else b"",
                member_assignment=member.assignment,
            )
            for member in members
        ),
    )


def consumer_group_describe(call: Call, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Answer groups of KIP-848; others are not found."""
    return ConsumerGroupDescribeResponse(groups=tuple(_new(call, name) for name in request.group_ids))


def _new(call: Call, name: str) -> DescribedConsumerGroup:
    group = call.state.groups.get(name)
    error = _error(call, name)
    if error == ErrorCode.NONE and (group is None or not isinstance(group.membership, ConsumerGroup)):
        error = ErrorCode.GROUP_ID_NOT_FOUND
    if error != ErrorCode.NONE or group is None or not isinstance(group.membership, ConsumerGroup):
        return DescribedConsumerGroup(error_code=error, group_id=name)
    membership = group.membership
    members = membership.members.values()
    assignors = [member.assignor for member in members if member.assignor is not None]
    return DescribedConsumerGroup(
        group_id=name,
        group_state=listed(name, group).group_state,
        group_epoch=membership.epoch,
        assignment_epoch=membership.epoch,
        assignor_name=assignors[0] if assignors else next(iter(SERVER_ASSIGNORS)),
        members=tuple(_member(call, member) for member in members),
    )


def _member(call: Call, member: Member) -> DescribedConsumerGroupMember:
    names = {topic.id: name for name, topic in call.state.topics.items()}
    owned: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in sorted(member.assigned):
        owned.setdefault(topic_id, []).append(index)
    assignment = DescribedAssignment(
        topic_partitions=tuple(
            DescribedTopicPartitions(topic_id=topic_id, topic_name=names.get(topic_id, ""), partitions=tuple(indexes))
            for topic_id, indexes in owned.items()
        )
    )
    return DescribedConsumerGroupMember(
        member_id=member.id,
        instance_id=member.instance_id,
        member_epoch=member.epoch,
        client_host=_HOST,
        subscribed_topic_names=tuple(sorted(member.topics)),
        assignment=assignment,
        target_assignment=assignment,
    )
