"""DeleteGroups (key 42): delete groups that have no members, with their offsets.

Versions: 2 flexible; 3 with a text for each error.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = ["DeletableGroupResult", "DeleteGroupsRequest", "DeleteGroupsResponse"]


class DeletableGroupResult(Struct):
    """One group."""

    group_id: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, "3+", nullable="3+", default=None, ignorable=True)


class DeleteGroupsResponse(Response):
    """The outcome for each group."""

    API_KEY = 42
    NAME = "DeleteGroups"
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    results: tuple[DeletableGroupResult, ...] = wire(array(DeletableGroupResult))


class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """The groups to delete, for their coordinator."""

    API_KEY = 42
    NAME = "DeleteGroups"
    VERSIONS = (0, 3)
    FLEXIBLE = 2
    RESPONSE = DeleteGroupsResponse

    groups_names: tuple[str, ...] = wire(array(STRING))
