"""The requests that a member of a classic group sends to its coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.classic.leader import user_data_of
from aioprod.group.config import MemberConfig
from aioprod.group.errors import static_membership_error
from aioprod.group.subscription_codec import encode_subscription
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

__all__ = ["PROTOCOL_TYPE", "heartbeat_request", "join_request", "leave_request", "sync_request"]

PROTOCOL_TYPE: Final = "consumer"
_FIRST_WITH_MANY_LEAVING: Final = 3
_FIRST_STATIC: Final[Mapping[type[AnyRequest], int]] = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}
"""The versions from which a member may have a group.instance.id (KIP-345)."""

ResponseT = TypeVar("ResponseT", bound=Response)


def join_request(
    metadata: GroupMetadata,
    config: MemberConfig,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    owned: frozenset[TopicPartition],
    last: tuple[Sequence[TopicPartition] | None, int],
) -> Request[JoinGroupResponse] | ByVersion[JoinGroupResponse]:
    """JoinGroup with one subscription per assignor.

    `last` is this member's last assignment, None before the first one, and its generation.
    """
    protocols = []
    for assignor in assignors:
        subscription = Subscription(
            tuple(topics),
            owned=tuple(owned),
            generation=metadata.generation_id,
            rack=config.client_rack or None,
            user_data=user_data_of(assignor, *last),
        )
        protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription)))
    request = JoinGroupRequest(
        group_id=metadata.group_id,
        session_timeout_ms=config.session_timeout_ms,
        rebalance_timeout_ms=config.max_poll_interval_ms,
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple(protocols),
    )
    return _if_static_members_are_known(metadata, request)


def sync_request(
    metadata: GroupMetadata, assignor: str, assignment: Mapping[str, bytes]
) -> Request[SyncGroupResponse] | ByVersion[SyncGroupResponse]:
    """SyncGroup; `assignment` is the leader's for all members, encoded, and empty from a follower."""
    rows = [SyncGroupRequestAssignment(member_id=member, assignment=encoded) for member, encoded in assignment.items()]
    request = SyncGroupRequest(
        group_id=metadata.group_id,
        generation_id=metadata.generation_id,
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=assignor,
        assignments=tuple(rows),
    )
    return _if_static_members_are_known(metadata, request)


def heartbeat_request(metadata: GroupMetadata) -> Request[HeartbeatResponse] | ByVersion[HeartbeatResponse]:
    """Build a Heartbeat request."""
    request = HeartbeatRequest(
        group_id=metadata.group_id,
        generation_id=metadata.generation_id,
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
    )
    return _if_static_members_are_known(metadata, request)


def _if_static_members_are_known(
    metadata: GroupMetadata, request: Request[ResponseT]
) -> Request[ResponseT] | ByVersion[ResponseT]:
    """The request; for a static member it raises UnsupportedVersionError with a coordinator older than KIP-345."""
    if metadata.group_instance_id is None:
        return request
    kind = type(request)

    def build(version: int) -> Request[ResponseT]:
        if version < _FIRST_STATIC[kind]:
            raise static_membership_error(metadata.group_id)
        return request

    return ByVersion(kind, build)


def leave_request(metadata: GroupMetadata, reason: str) -> ByVersion[LeaveGroupResponse] | None:
    """Build LeaveGroup; None without a member id, and for a static member, which may come back (KIP-345)."""
    if not metadata.member_id or metadata.group_instance_id is not None:
        return None

    def build(version: int) -> LeaveGroupRequest:
        if version < _FIRST_WITH_MANY_LEAVING:
            return LeaveGroupRequest(group_id=metadata.group_id, member_id=metadata.member_id)
        leaving = MemberIdentity(member_id=metadata.member_id, reason=reason)
        return LeaveGroupRequest(group_id=metadata.group_id, members=(leaving,))

    return ByVersion(LeaveGroupRequest, build)
