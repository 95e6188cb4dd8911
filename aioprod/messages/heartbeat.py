"""Heartbeat (key 12): a member of a classic group is alive.

Versions: 3 static members (KIP-345); 4 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, Request, Response, wire

__all__ = ["HeartbeatRequest", "HeartbeatResponse"]


class HeartbeatResponse(Response):
    """NONE if the generation is current; REBALANCE_IN_PROGRESS if the member has to join again."""

    API_KEY = 12
    NAME = "Heartbeat"
    VERSIONS = (0, 4)
    FLEXIBLE = 4

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16)


class HeartbeatRequest(Request[HeartbeatResponse]):
    """The member that is alive, and its generation."""

    API_KEY = 12
    NAME = "Heartbeat"
    VERSIONS = (0, 4)
    FLEXIBLE = 4
    RESPONSE = HeartbeatResponse

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "3+", nullable="0+", default=None)
