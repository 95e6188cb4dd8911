"""SyncGroup (key 14): the leader hands out the assignment, each member gets its own.

Versions: 3 static members (KIP-345); 4 flexible; 5 protocol type and name are checked (KIP-559).
"""

from __future__ import annotations

from aioprod.wire.schema import BYTES, INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = ["SyncGroupRequest", "SyncGroupRequestAssignment", "SyncGroupResponse"]


class SyncGroupResponse(Response):
    """The assignment of this member, in the protocol's own format."""

    API_KEY = 14
    NAME = "SyncGroup"
    VERSIONS = (0, 5)
    FLEXIBLE = 4

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)
    assignment: bytes = wire(BYTES)


class SyncGroupRequestAssignment(Struct):
    """The assignment of one member, in the protocol's own format."""

    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


class SyncGroupRequest(Request[SyncGroupResponse]):
    """Assignments from the leader, none from the others."""

    API_KEY = 14
    NAME = "SyncGroup"
    VERSIONS = (0, 5)
    FLEXIBLE = 4
    RESPONSE = SyncGroupResponse

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="0+", default=None)
    protocol_type: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)
    protocol_name: str | None = wire(STRING, "5+", nullable="0+", default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...] = wire(array(SyncGroupRequestAssignment))
