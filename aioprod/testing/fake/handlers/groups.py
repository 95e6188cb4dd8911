"""How a fake broker answers JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ListGroups.

The groups are in `state/`: `classic_group.py` and `kip848_group.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from aioprod.errors import ErrorCode
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from aioprod.messages.leave_group import MemberIdentity, MemberResponse
from aioprod.messages.list_groups import ListedGroup
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.classic_group import ClassicGroup, State
from aioprod.testing.fake.state.classic_members import JoinTerms, Reply, join_error_response
from aioprod.testing.fake.state.groups import FakeGroup
from aioprod.testing.fake.state.kip848_group import JOIN_EPOCH, LEAVE_STATIC_EPOCH, error_response
from aioprod.testing.fake.state.server_assignors import SERVER_ASSIGNORS

__all__ = [
    "consumer_group_heartbeat",
    "heartbeat",
    "join_group",
    "leave_group",
    "list_groups",
    "listed",
    "sync_group",
]

AnswerT = TypeVar("AnswerT")

_REQUIRES_MEMBER_ID: Final = 4
"""Version of JoinGroup: a new member first gets its id and has to join again with it (KIP-394)."""

_NULL_PROTOCOL: Final = 7
"""Version of JoinGroup: a missing protocol name is null; before, it is empty."""

_SKIPS_ASSIGNMENT: Final = 9
"""Version of JoinGroup: the response has `skip_assignment` for a static leader that rejoins (KIP-814)."""

_NAMES_PROTOCOL: Final = 5
"""Version of SyncGroup: the request has to have the protocol and its type (KIP-559)."""

_OWN_ID: Final = 1
"""Version of ConsumerGroupHeartbeat: members generate their own ids (KIP-1082)."""

_MANY_LEAVE: Final = 3
"""Version of LeaveGroup: several members in one request."""

_STATES: Final = {
    State.EMPTY: "Empty",
    State.PREPARING_REBALANCE: "PreparingRebalance",
    State.COMPLETING_REBALANCE: "CompletingRebalance",
    State.STABLE: "Stable",
}
"""The name of each state of a classic group in responses."""


async def _answer(call: Callable[[Reply[AnswerT]], None]) -> AnswerT:
    """Wait for the response that a group gives by calling back."""
    answered: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()

    def reply(answer: AnswerT) -> None:
        # The connection that waits for it may have been aborted.
        if not answered.done():
            answered.set_result(answer)

    call(reply)
    return await answered


def _group_error(call: Call, group_id: str) -> ErrorCode:
    """The error of a request about a group before the group is looked at, NONE if there is none."""
    if call.fault.error != ErrorCode.NONE and not call.fault.apply:
        return call.fault.error
    if denied := call.denied("READ", "group", group_id):
        return denied
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.misdirected(group_id)


def _known(call: Call, group_id: str) -> ClassicGroup | None:
    """The group if it exists and uses the classic protocol."""
    return call.state.groups.classic(group_id) if group_id in call.state.groups else None


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Add a member, or let it rejoin; the response comes when all members have membership."""
    error = _group_error(call, request.group_id)
    shortest, longest = call.state.groups.settings.session_timeouts_ms
    if error == ErrorCode.NONE and not shortest <= request.session_timeout_ms <= longest:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    if error == ErrorCode.NONE and request.member_id and request.group_id not in call.state.groups:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    answer = join_error_response(error, request.member_id)
    if error == ErrorCode.NONE:
        terms = JoinTerms(
            call.client_id,
            requires_member_id=call.version >= _REQUIRES_MEMBER_ID,
            skips_assignment=call.version >= _SKIPS_ASSIGNMENT,
        )
        group = call.state.groups.classic(request.group_id)
        if group is None:
            answer = join_error_response(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        else:
            answer = await _answer(partial(group.join, request, terms))
    if answer.protocol_name is None and call.version < _NULL_PROTOCOL:
        answer = replace(answer, protocol_name="")
    return replace(answer, error_code=call.fault.error or answer.error_code)


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Answer the member's assignment, once the leader has sent it."""
    error = _group_error(call, request.group_id)
    names = request.protocol_type, request.protocol_name
    if error == ErrorCode.NONE and call.version >= _NAMES_PROTOCOL and not all(names):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group = None if error else _known(call, request.group_id)
    if group is None:
        return SyncGroupResponse(error_code=error or ErrorCode.UNKNOWN_MEMBER_ID, assignment=b"")
    answer: SyncGroupResponse = await _answer(partial(group.sync, request))
    return replace(answer, error_code=call.fault.error or answer.error_code)


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """Restart a member's session."""
    error = _group_error(call, request.group_id)
    group = None if error else _known(call, request.group_id)
    if error == ErrorCode.NONE:
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None:
            error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    return HeartbeatResponse(error_code=call.fault.error or error)


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members."""
    error = _group_error(call, request.group_id)
    if error != ErrorCode.NONE:
        return LeaveGroupResponse(error_code=error, members=())
    leaving = request.members
    if call.version < _MANY_LEAVE:
        leaving = (MemberIdentity(member_id=request.member_id),)
    group = _known(call, request.group_id)
    errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving) if group is None else group.leave(leaving)
    if call.version < _MANY_LEAVE:
        return LeaveGroupResponse(error_code=call.fault.error or errors[0], members=())
    rows = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        for one, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(error_code=call.fault.error, members=tuple(rows))


# --- ConsumerGroupHeartbeat (KIP-848)


def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Let a member join, stay or leave, and answer its assignment."""
    wanted = call.fault.error
    error = _denied(call, request) or (ErrorCode.NONE if call.fault.apply else wanted)
    error = error or call.misdirected(request.group_id)
    if error != ErrorCode.NONE:
        return error_response(error, error.name)
    invalid = _invalid(call.version, request)
    if invalid is not None:
        return error_response(ErrorCode.INVALID_REQUEST, invalid)
    if request.server_assignor not in (None, *SERVER_ASSIGNORS):
        return error_response(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {request.server_assignor} is not supported."
        )
    groups = call.state.groups
    may_be_new = request.member_epoch == JOIN_EPOCH or request.group_id in groups
    group = groups.consumer(request.group_id) if may_be_new else None
    if group is None:
        return error_response(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if not request.member_id:
        request = replace(request, member_id=groups.new_member_id())
    answer = group.heartbeat(request)
    return answer if wanted == ErrorCode.NONE else error_response(wanted, wanted.name)


def _denied(call: Call, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
    """The error if the client is not authorized for the group or for a topic that it subscribes to."""
    topics = request.subscribed_topic_names or ()
    hidden = (call.denied("DESCRIBE", "topic", topic) for topic in topics)
    return call.denied("READ", "group", request.group_id) or next(filter(None, hidden), ErrorCode.NONE)


def _invalid(version: int, request: ConsumerGroupHeartbeatRequest) -> str | None:
    """The message about the first invalid field of a request, None if all are valid."""
    epoch = request.member_epoch
    joins_in_full = request.topic_partitions == () and request.rebalance_timeout_ms >= 0
    checks = (
        (not request.group_id, "GroupId can't be empty."),
        (not request.member_id and (version >= _OWN_ID or epoch != JOIN_EPOCH), "MemberId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (epoch < LEAVE_STATIC_EPOCH, "MemberEpoch is invalid."),
        (epoch == LEAVE_STATIC_EPOCH and request.instance_id is None, "InstanceId can't be null."),
        (
            epoch == JOIN_EPOCH and not joins_in_full,
            "RebalanceTimeoutMs and empty TopicPartitions are due when joining.",
        ),
        (epoch == JOIN_EPOCH and request.subscribed_topic_names is None, "SubscribedTopicNames must be non-null."),
    )
    return next((text for is_so, text in checks if is_so), None)


# --- ListGroups


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """Answer the groups that this broker coordinates."""
    if call.fault.error != ErrorCode.NONE:
        return ListGroupsResponse(error_code=call.fault.error)
    sees_all = call.denied("DESCRIBE", "cluster", CLUSTER) == ErrorCode.NONE
    rows = [
        listed(name, group)
        for name, group in sorted(call.state.groups.items())
        if call.state.coordinator(name) == call.node_id
        and (sees_all or call.denied("DESCRIBE", "group", name) == ErrorCode.NONE)
    ]
    states, types = request.states_filter, request.types_filter
    return ListGroupsResponse(
        groups=tuple(
            row for row in rows if (not states or row.group_state in states) and (not types or row.group_type in types)
        )
    )


def listed(name: str, group: FakeGroup) -> ListedGroup:
    """The row of a group in ListGroups."""
    membership = group.membership
    if membership is None:
        return ListedGroup(group_id=name, protocol_type="", group_state="Empty", group_type="classic")
    if isinstance(membership, ClassicGroup):
        state = _STATES[membership.state]
        kind = membership.protocol_type
        return ListedGroup(group_id=name, protocol_type=kind, group_state=state, group_type="classic")
    state = "Stable" if membership.members else "Empty"
    return ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type="consumer")
