"""What a member of a classic group says to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.classic.leader import user_data_of
from aioprod.group.errors import not_static
from aioprod.group.settings import MemberConfig
from aioprod.group.subscription_codec import encode_assignment, encode_subscription
from aioprod.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from aioprod.messages.join_group import JoinGroupRequestProtocol
from aioprod.messages.leave_group import MemberIdentity
from aioprod.messages.negotiation import ByVersion
from aioprod.messages.sync_group import SyncGroupRequestAssignment
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["PROTOCOL_TYPE", "farewell", "heartbeat_request", "join_request", "sync_request"]

PROTOCOL_TYPE: Final = "consumer"
_FIRST_WITH_MANY_LEAVING: Final = 3
_FIRST_STATIC: Final[Mapping[type[AnyRequest], int]] = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}
"""The versions from which a member may have a group.instance.id (KIP-345)."""

ResponseT = TypeVar("ResponseT", bound=Response)


def join_request(
    who: GroupMetadata,
    config: MemberConfig,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    owned: frozenset[TopicPartition],
    last: tuple[Sequence[TopicPartition] | None, int],
) -> Request[JoinGroupResponse] | ByVersion[JoinGroupResponse]:
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
    request = JoinGroupRequest(
        group_id=who.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(protocols),
    )
    return _checked(who, request)


def sync_request(
    who: GroupMetadata, assignor: str, assignment: Mapping[str, Sequence[TopicPartition]]
) -> Request[SyncGroupResponse] | ByVersion[SyncGroupResponse]:
    """`assignment`: what all members get, from the leader."""
    rows = [
        SyncGroupRequestAssignment(member_id=member, assignment=encode_assignment(partitions))
        for member, partitions in assignment.items()
    ]
    request = SyncGroupRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=tuple(rows),
    )
    return _checked(who, request)


def heartbeat_request(who: GroupMetadata) -> Request[HeartbeatResponse] | ByVersion[HeartbeatResponse]:
    """It is still there."""
    request = HeartbeatRequest(
        group_id=who.group_id,
        generation_id=who.generation_id,
        member_id=who.member_id,
        group_instance_id=who.group_instance_id,
    )
    return _checked(who, request)


def _checked(who: GroupMetadata, request: Request[ResponseT]) -> Request[ResponseT] | ByVersion[ResponseT]:
    """The request, which raises UnsupportedVersionError for a static member where coordinators know none."""
    if who.group_instance_id is None:
        return request
    kind = type(request)

    def build(version: int) -> Request[ResponseT]:
        if version < _FIRST_STATIC[kind]:
            raise not_static(who.group_id)
        return request

    return ByVersion(kind, build)


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
