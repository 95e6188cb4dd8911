"""DeleteGroups (key 42): delete groups that have no members, with their offsets.

Versions: 2 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = ["DeletableGroupResult", "DeleteGroupsRequest", "DeleteGroupsResponse"]


class DeletableGroupResult(Struct):
    """One group."""

    group_id: str = wire(STRING)
    error_code: int = wire(INT16)


class DeleteGroupsResponse(Response):
    """The outcome for each group."""

    API_KEY = 42
    NAME = "DeleteGroups"
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    results: tuple[DeletableGroupResult, ...] = wire(array(DeletableGroupResult))


class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """The groups to delete, for their coordinator."""

    API_KEY = 42
    NAME = "DeleteGroups"
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    RESPONSE = DeleteGroupsResponse

    groups_names: tuple[str, ...] = wire(array(STRING))
