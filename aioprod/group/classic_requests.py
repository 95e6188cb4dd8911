"""What a member of a classic group says to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.blobs import encode_assignment, encode_subscription
from aioprod.group.dividing import user_data_of
from aioprod.group.settings import MemberConfig
from aioprod.group.steps import GroupMetadata
from aioprod.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from aioprod.messages.join_group import JoinGroupRequestProtocol
from aioprod.messages.leave_group import MemberIdentity
from aioprod.messages.negotiation import ByVersion
from aioprod.messages.sync_group import SyncGroupRequestAssignment
from aioprod.types import TopicPartition

__all__ = ["PROTOCOL_TYPE", "farewell", "heartbeat_request", "join_request", "sync_request"]

PROTOCOL_TYPE: Final = "consumer"
_FIRST_WITH_MANY_LEAVING: Final = 3


def join_request(
    who: GroupMetadata,
    config: MemberConfig,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    owned: frozenset[TopicPartition],
    last: tuple[Sequence[TopicPartition] | None, int],
) -> JoinGroupRequest:
    """`last` is what the member was assigned last (None: never anything), and in which generation."""
    protocols = []
    for assignor in assignors:
        subscription = Subscription(
            tuple(topics),
            owned=tuple(owned),
            generation=who.generation_id,
            rack=config.client_rack or None,
            user_data=user_data_of(assignor, *last),
        )
        protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription)))
    return JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(protocols),
    )


def sync_request(
    who: GroupMetadata, assignor: str, assignment: Mapping[str, Sequence[TopicPartition]]
) -> SyncGroupRequest:
    """`assignment`: what all members get, from the leader."""
    rows = [
        SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
        for member, partitions in assignment.items()
    ]
    return SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=tuple(rows),
    )


def heartbeat_request(who: GroupMetadata) -> HeartbeatRequest:
    """It is still there."""
    return HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
    )


def farewell(who: GroupMetadata, reason: str) -> ByVersion[LeaveGroupResponse] | None:
    """It leaves; None for who has no id, and for a static member, which may come back (KIP-345)."""
    if not who.member_id or who.group_instance_id is not None:
        return None

    def build(version: int) -> LeaveGroupRequest:
        if version < _FIRST_WITH_MANY_LEAVING:
            return LeaveGroupRequest(group_id=who.group_id, member_id=who.member_id)
        leaving = MemberIdentity(member_id=who.member_id, reason=reason)
        return LeaveGroupRequest(group_id=who.group_id, members=(leaving,))

    return ByVersion(LeaveGroupRequest, build)
