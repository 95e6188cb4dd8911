"""LeaveGroup (key 13): leave a classic group.

Versions: 3 many members at once (KIP-345), `members` in place of `member_id`; 4 flexible; 5 reason (KIP-800).
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = ["LeaveGroupRequest", "LeaveGroupResponse", "MemberIdentity", "MemberResponse"]


class MemberResponse(Struct):
    """The outcome for one member."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable="0+")
    error_code: int = wire(INT16)


class LeaveGroupResponse(Response):
    """The outcome for each member."""

    API_KEY = 13
    NAME = "LeaveGroup"
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16)
    members: tuple[MemberResponse, ...] = wire(array(MemberResponse), "3+")


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable="0+", default=None)
    reason: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)


class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """The members that leave: `member_id` up to version 2, `members` from 3 on."""

    API_KEY = 13
    NAME = "LeaveGroup"
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    RESPONSE = LeaveGroupResponse

    group_id: str = wire(STRING)
    member_id: str = wire(STRING, "0-2")
    members: tuple[MemberIdentity, ...] = wire(array(MemberIdentity), "3+")
