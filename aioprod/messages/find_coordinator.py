"""FindCoordinator (key 10): which broker coordinates a group or a transactional id.

Versions: 1 key types; 3 flexible; 4 many keys in one request (KIP-699), `coordinator_keys` in place of `key`; 6 share
groups (KIP-932). Key types: 0 group, 1 transactional id, 2 share group.
"""

from __future__ import annotations

from aioprod.wire.schema import INT8, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = ["Coordinator", "FindCoordinatorRequest", "FindCoordinatorResponse"]


class Coordinator(Struct):
    """The coordinator of one key."""

    key: str = wire(STRING)
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")


class FindCoordinatorResponse(Response):
    """One coordinator up to version 3, `coordinators` from 4 on."""

    API_KEY = 10
    NAME = "FindCoordinator"
    VERSIONS = (0, 6)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16, "0-3")
    error_message: str | None = wire(TEXT, "1-3", nullable="0+", ignorable=True)
    node_id: int = wire(INT32, "0-3")
    host: str = wire(STRING, "0-3")
    port: int = wire(INT32, "0-3")
    coordinators: tuple[Coordinator, ...] = wire(array(Coordinator), "4+")


class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """The keys to look up: one `key` up to version 3, `coordinator_keys` from 4 on."""

    API_KEY = 10
    NAME = "FindCoordinator"
    VERSIONS = (0, 6)
    FLEXIBLE = 3
    RESPONSE = FindCoordinatorResponse

    key: str = wire(STRING, "0-3")
    key_type: int = wire(INT8, "1+")
    coordinator_keys: tuple[str, ...] = wire(array(STRING), "4+")
