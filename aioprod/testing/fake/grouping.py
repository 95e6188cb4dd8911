"""How a fake broker answers JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from aioprod.errors import ErrorCode
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
from aioprod.messages.leave_group import MemberIdentity, MemberResponse
from aioprod.testing.fake.classic_members import Reply, Terms, refusal_to_join
from aioprod.testing.fake.state import Call

__all__ = ["heartbeat", "join_group", "leave_group", "sync_group"]

AnswerT = TypeVar("AnswerT")

TELLS_ID: Final = 4
"""Version of JoinGroup: a new member is told its id first (KIP-394)."""

NULL_PROTOCOL: Final = 7
"""Version of JoinGroup: no protocol is null, and no longer empty."""

SKIPS: Final = 9
"""Version of JoinGroup: a static leader that is back is told not to assign (KIP-814)."""

NAMES_PROTOCOL: Final = 5
"""Version of SyncGroup: it has to name the protocol and its type (KIP-559)."""

MANY_LEAVE: Final = 3
"""Version of LeaveGroup: many members at once."""


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
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.misdirected(group_id)


def _unknown(call: Call, group_id: str) -> ErrorCode:
    """What members of a group hear that there is not."""
    return ErrorCode.NONE if group_id in call.state.groups else ErrorCode.UNKNOWN_MEMBER_ID


async def join_group(call: Call, request: JoinGroupRequest) -> JoinGroupResponse:
    """Become a member, which takes until all others have joined anew."""
    error = _refusal(call, request.group_id)
    shortest, longest = call.state.groups.settings.session_timeouts_ms
    if error == ErrorCode.NONE and not shortest <= request.session_timeout_ms <= longest:
        error = ErrorCode.INVALID_SESSION_TIMEOUT
    if error == ErrorCode.NONE and request.member_id:
        error = _unknown(call, request.group_id)
    answer = refusal_to_join(error, request.member_id)
    if error == ErrorCode.NONE:
        terms = Terms(call.client_id, requires_id=call.version >= TELLS_ID, may_skip=call.version >= SKIPS)
        group = call.state.groups.classic(request.group_id)
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
    error = error or _unknown(call, request.group_id)
    if error != ErrorCode.NONE:
        return SyncGroupResponse(error_code=error, assignment=b"")
    group = call.state.groups.classic(request.group_id)
    answer: SyncGroupResponse = await _answer(partial(group.sync, request))
    return replace(answer, error_code=call.fault.error or answer.error_code)


def heartbeat(call: Call, request: HeartbeatRequest) -> HeartbeatResponse:
    """A member is still there."""
    error = _refusal(call, request.group_id) or _unknown(call, request.group_id)
    if error == ErrorCode.NONE:
        group = call.state.groups.classic(request.group_id)
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
    errors = [_unknown(call, request.group_id)] * len(leaving)
    if not any(errors):
        errors = call.state.groups.classic(request.group_id).leave(leaving)
    if call.version < MANY_LEAVE:
        return LeaveGroupResponse(error_code=call.fault.error or errors[0], members=())
    rows = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=error)
        for one, error in zip(leaving, errors, strict=True)
    ]
    return LeaveGroupResponse(error_code=call.fault.error, members=tuple(rows))
