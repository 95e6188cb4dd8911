"""The members of groups, by their coordinators (ConsumerGroupDescribe, DescribeGroups)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from aioprod._authorization_errors import Right
from aioprod.calls.committed_offsets import group_error
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.cluster import Node
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError, UnsupportedVersionError
from aioprod.group.subscription_codec import decode_assignment
from aioprod.group.validation import checked_group
from aioprod.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aioprod.messages.consumer_group_describe import DescribedConsumerGroup
from aioprod.messages.describe_groups import DescribedGroup, DescribedGroupMember
from aioprod.types import TopicPartition

__all__ = ["GroupDescription", "GroupMember", "describe_groups", "missing_group"]

_CONSUMER: Final = "consumer"
_DEAD: Final = "Dead"


class GroupMember(NamedTuple):
    """One member, with its partitions; those of a group whose members are not consumers are empty."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]


class GroupDescription(NamedTuple):
    """A group as its coordinator describes it."""

    group_id: str
    state: str
    """In Kafka's words: "Stable", "Empty", ..."""
    type: str
    """Either "classic" or "consumer" (KIP-848)."""
    protocol_type: str
    assignor: str
    """The name of the assignor; empty while there are no members."""
    coordinator: Node | None
    epoch: int | None
    """None for a classic group."""
    members: tuple[GroupMember, ...]

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that its offsets can be reset, and it can be deleted."""
        return self.state == "Empty"


async def describe_groups(session: Session, group_ids: Iterable[str], deadline: float) -> dict[str, GroupDescription]:
    """The groups of these names; raises the error of the first one that can't be described."""
    names = list(dict.fromkeys(map(checked_group, group_ids)))
    described = await asyncio.gather(*(_described(session, name, deadline) for name in names))
    return dict(zip(names, described, strict=True))


async def _described(session: Session, name: str, deadline: float) -> GroupDescription:
    coordinator = Coordinator(session.client, "group", name)
    new = await _of_new_protocol(coordinator, deadline)
    if new is not None:
        return _from_new(new, _node(session, coordinator))
    response = await coordinator.request(
        DescribeGroupsRequest(groups=(name,)), deadline=deadline, error_of=lambda answer: _row(answer, name).error_code
    )
    row = _row(response, name)
    if row.error_code != ErrorCode.NONE or row.group_state == _DEAD:
        raise _failure(name, row.error_code or ErrorCode.GROUP_ID_NOT_FOUND)
    return _from_classic(row, _node(session, coordinator))


async def _of_new_protocol(coordinator: Coordinator, deadline: float) -> DescribedConsumerGroup | None:
    """The group; None if it is not of the new protocol, or if the brokers are older than that protocol."""
    name = coordinator.key

    def row_of(response: ConsumerGroupDescribeResponse) -> DescribedConsumerGroup:
        for row in response.groups:
            if row.group_id == name:
                return row
        raise ProtocolError(f"The coordinator's response does not contain group {name!r}.")

    try:
        response = await coordinator.request(
            ConsumerGroupDescribeRequest(group_ids=(name,)),
            deadline=deadline,
            error_of=lambda answer: row_of(answer).error_code,
        )
    except UnsupportedVersionError:
        return None
    row = row_of(response)
    if row.error_code == ErrorCode.NONE:
        return row
    if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise _failure(name, row.error_code)


def _row(response: DescribeGroupsResponse, name: str) -> DescribedGroup:
    for row in response.groups:
        if row.group_id == name:
            return row
    raise ProtocolError(f"The coordinator's response does not contain group {name!r}.")


def missing_group(name: str) -> BrokerError:
    """The error of a group that does not exist."""
    return BrokerError(f"Group {name!r} does not exist.", code=ErrorCode.GROUP_ID_NOT_FOUND)


def _failure(name: str, code: int) -> AioprodError:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return missing_group(name)
    return group_error(f"Group {name!r} could not be described", ErrorCode.of(code), [Right("DESCRIBE", "group", name)])


def _node(session: Session, coordinator: Coordinator) -> Node | None:
    return None if coordinator.node_id is None else session.cluster().node(coordinator.node_id)


def _from_new(row: DescribedConsumerGroup, coordinator: Node | None) -> GroupDescription:
    members = tuple(
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in member.assignment.topic_partitions
                for index in topic.partitions
            ),
        )
        for member in row.members
    )
    return GroupDescription(
        row.group_id, row.group_state, _CONSUMER, _CONSUMER, row.assignor_name, coordinator, row.group_epoch, members
    )


def _from_classic(row: DescribedGroup, coordinator: Node | None) -> GroupDescription:
    members = tuple(
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            _partitions(member) if row.protocol_type == _CONSUMER else (),
        )
        for member in row.members
    )
    return GroupDescription(
        row.group_id, row.group_state, "classic", row.protocol_type, row.protocol_data, coordinator, None, members
    )


def _partitions(member: DescribedGroupMember) -> tuple[TopicPartition, ...]:
    """What a consumer was assigned; nothing where the bytes are not in Kafka's format."""
    if not member.member_assignment:
        return ()
    try:
        return tuple(sorted(decode_assignment(member.member_assignment)))
    except ProtocolError:
        return ()
