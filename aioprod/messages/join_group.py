"""JoinGroup (key 11): become a member of a group with the classic protocol.

Versions: 1 rebalance timeout; 4 a new member gets its id first, by MEMBER_ID_REQUIRED (KIP-394); 5 static members
(KIP-345); 6 flexible; 7 protocol type in the answer; 8 reason (KIP-800); 9 skip_assignment (KIP-814).
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, BYTES, INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = ["JoinGroupRequest", "JoinGroupRequestProtocol", "JoinGroupResponse", "JoinGroupResponseMember"]


class JoinGroupResponseMember(Struct):
    """A member and its metadata for the chosen assignor."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)
    metadata: bytes = wire(BYTES)


class JoinGroupResponse(Response):
    """The new generation. Only the leader gets `members`, and assigns unless `skip_assignment` is set."""

    API_KEY = 11
    NAME = "JoinGroup"
    VERSIONS = (0, 9)
    FLEXIBLE = 6

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(STRING, "7+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, nullable="7+")
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, "9+")
    member_id: str = wire(STRING)
    members: tuple[JoinGroupResponseMember, ...] = wire(array(JoinGroupResponseMember))


class JoinGroupRequestProtocol(Struct):
    """One assignor and the member's metadata for it."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


class JoinGroupRequest(Request[JoinGroupResponse]):
    """Protocols in order of preference, each with the member's metadata in the protocol's own format."""

    API_KEY = 11
    NAME = "JoinGroup"
    VERSIONS = (0, 9)
    FLEXIBLE = 6
    RESPONSE = JoinGroupResponse

    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, "1+", default=-1, ignorable=True)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "5+", nullable="0+", default=None)
    protocol_type: str = wire(STRING)
    protocols: tuple[JoinGroupRequestProtocol, ...] = wire(array(JoinGroupRequestProtocol))
    reason: str | None = wire(STRING, "8+", nullable="0+", default=None, ignorable=True)
