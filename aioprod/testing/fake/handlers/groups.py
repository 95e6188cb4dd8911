"""How a fake broker answers JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ConsumerGroupHeartbeat, ListGroups."""

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
from aioprod.testing.fake.state.classic_members import Reply, Terms, refusal_to_join
from aioprod.testing.fake.state.groups import FakeGroup
from aioprod.testing.fake.state.kip848_group import JOINS, LEAVES_FOR_NOW, refusal
from aioprod.testing.fake.state.server_assignors import SERVER_ASSIGNORS

__all__ = ["consumer_group_heartbeat", "heartbeat", "join_group", "leave_group", "list_groups", "sync_group"]

AnswerT = TypeVar("AnswerT")

TELLS_ID: Final = 4
"""Version of JoinGroup: a new member is told its id first (KIP-394)."""

NULL_PROTOCOL: Final = 7
"""Version of JoinGroup: no protocol is null, and no longer empty."""

SKIPS: Final = 9
"""Version of JoinGroup: a static leader that is back is told not to assign (KIP-814)."""

NAMES_PROTOCOL: Final = 5
"""Version of SyncGroup: it has to name the protocol and its type (KIP-559)."""

OWN_ID: Final = 1
"""Version of ConsumerGroupHeartbeat: members make up their own ids (KIP-1082)."""

MANY_LEAVE: Final = 3
"""Version of LeaveGroup: many members at once."""

STATES: Final = {
    State.EMPTY: "Empty",
    State.PREPARING: "PreparingRebalance",
    State.COMPLETING: "CompletingRebalance",
    State.STABLE: "Stable",
}
"""What Kafka calls each state of a classic group."""


async def _answer(ask: Callable[[Reply[AnswerT]], None]) -> AnswerT:
    """The answer that a group gives sooner or later."""
    answered: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()

    def reply(answer: AnswerT) -> None:
        # Whoever waited for it may have been cut off.
        if not answered.done():
            answered.set_result(answer)

    ask(reply)
    return await answered


def _refusal(call: Call, group_id: str) -> ErrorCode:
    """Why this broker does nothing for a group, NONE if it does."""
    if call.fault.error != ErrorCode.NONE and not call.fault.apply:
        return call.fault.error
    if denied := call.denied("READ", "group", group_id):
        return denied
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.misdirected(group_id)


def _known(call: Call, group_id: str) -> ClassicGroup | None:
    """The group if there is one, and of this protocol."""
    return call.state.groups.classic(group_id) if group_id in call.state.groups else None


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Become a member, which takes until all others have joined anew."""
    error = _refusal(call, request.group_id)
    shortest, longest = call.state.groups.settings.session_timeouts_ms
    if error == ErrorCode.NONE and not shortest <= request.session_timeout_ms <= longest:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    if error == ErrorCode.NONE and request.member_id and request.group_id not in call.state.groups:
        error = ErrorCode.UNKNOWN_MEMBER_ID
    answer = refusal_to_join(error, request.member_id)
    if error == ErrorCode.NONE:
        terms = Terms(call.client_id, requires_id=call.version >= TELLS_ID, may_skip=call.version >= SKIPS)
        group = call.state.groups.classic(request.group_id)
        if group is None:
            answer = refusal_to_join(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        else:
            answer = await _answer(partial(group.join, request, terms))
    if answer.protocol_name is None and call.version < NULL_PROTOCOL:
        answer = replace(answer, protocol_name="")
    return replace(answer, error_code=call.fault.error or answer.error_code)


async def sync_group(call: Call, request: SyncGroupRequest) -> SyncGroupResponse:
    """Learn one's assignment, once the leader has brought it."""
    error = _refusal(call, request.group_id)
    names = request.protocol_type, request.protocol_name
    if error == ErrorCode.NONE and call.version >= NAMES_PROTOCOL and not all(names):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    group = None if error else _known(call, request.group_id)
    if group is None:
        return SyncGroupResponse(error_code=error or ErrorCode.UNKNOWN_MEMBER_ID, assignment=b"")
    answer: SyncGroupResponse = await _answer(partial(group.sync, request))
    return replace(answer, error_code=call.fault.error or answer.error_code)


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """A member is still there."""
    error = _refusal(call, request.group_id)
    group = None if error else _known(call, request.group_id)
    if error == ErrorCode.NONE:
        error = ErrorCode.UNKNOWN_MEMBER_ID
        if group is not None:
            error = group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    return HeartbeatResponse(error_code=call.fault.error or error)


def leave_group(call: Call, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Members leave."""
    error = _refusal(call, request.group_id)
    if error != ErrorCode.NONE:
        return LeaveGroupResponse(error_code=error, members=())
    leaving = request.members
    if call.version < MANY_LEAVE:
        leaving = (MemberIdentity(member_id=request.member_id),)
    group = _known(call, request.group_id)
    errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving) if group is None else group.leave(leaving)
    if call.version < MANY_LEAVE:
        return LeaveGroupResponse(error_code=call.fault.error or errors[0], members=())
    rows = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        for one, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(error_code=call.fault.error, members=tuple(rows))


# -- the brokers' own protocol (KIP-848) -----------------------------------------------------------------------------


def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """A member joins, stays or leaves, and hears what it shall hold."""
    wanted = call.fault.error
    error = _denied(call, request) or (ErrorCode.NONE if call.fault.apply else wanted)
    error = error or call.misdirected(request.group_id)
    if error != ErrorCode.NONE:
        return refusal(error, error.name)
    complaint = _complaint(call.version, request)
    if complaint is not None:
        return refusal(ErrorCode.INVALID_REQUEST, complaint)
    if request.server_assignor not in (None, *SERVER_ASSIGNORS):
        return refusal(ErrorCode.UNSUPPORTED_ASSIGNOR, f"ServerAssignor {request.server_assignor} is not supported.")
    groups = call.state.groups
    may_be_new = request.member_epoch == JOINS or request.group_id in groups
    group = groups.consumer(request.group_id) if may_be_new else None
    if group is None:
        return refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if not request.member_id:
        request = replace(request, member_id=groups.new_name())
    answer = group.heartbeat(request)
    return answer if wanted == ErrorCode.NONE else refusal(wanted, wanted.name)


def _denied(call: Call, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
    """Why the client may not be in the group, or not see what it wants to read."""
    topics = request.subscribed_topic_names or ()
    hidden = (call.denied("DESCRIBE", "topic", topic) for topic in topics)
    return call.denied("READ", "group", request.group_id) or next(filter(None, hidden), ErrorCode.NONE)


def _complaint(version: int, request: ConsumerGroupHeartbeatRequest) -> str | None:
    """What makes no sense in a request."""
    epoch = request.member_epoch
    joins_in_full = request.topic_partitions == () and request.rebalance_timeout_ms >= 0
    complaints = (
        (not request.group_id, "GroupId can't be empty."),
        (not request.member_id and (version >= OWN_ID or epoch != JOINS), "MemberId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (epoch < LEAVES_FOR_NOW, "MemberEpoch is invalid."),
        (epoch == LEAVES_FOR_NOW and request.instance_id is None, "InstanceId can't be null."),
        (epoch == JOINS and not joins_in_full, "RebalanceTimeoutMs and empty TopicPartitions are due when joining."),
        (epoch == JOINS and request.subscribed_topic_names is None, "SubscribedTopicNames must be non-null."),
    )
    return next((text for is_so, text in complaints if is_so), None)


# --- ListGroups


def list_groups(call: Call, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups that this broker coordinates."""
    if call.fault.error != ErrorCode.NONE:
        return ListGroupsResponse(error_code=call.fault.error)
    sees_all = call.denied("DESCRIBE", "cluster", CLUSTER) == ErrorCode.NONE
    rows = [
        _listed(name, group)
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


def _listed(name: str, group: FakeGroup) -> ListedGroup:
    joined = group.joined
    if joined is None:
        return ListedGroup(group_id=name, protocol_type="", group_state="Empty", group_type="classic")
    if isinstance(joined, ClassicGroup):
        state = STATES[joined.state]
        return ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type="classic")
    state = "Stable" if joined.members else "Empty"
    return ListedGroup(group_id=name, protocol_type="consumer", group_state=state, group_type="consumer")
