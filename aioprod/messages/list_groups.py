"""ListGroups (key 16): the groups that one broker coordinates.

Versions: 3 flexible; 4 their states, and a filter for these (KIP-518); 5 their types, and a filter for these (KIP-848).
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = ["ListGroupsRequest", "ListGroupsResponse", "ListedGroup"]


class ListedGroup(Struct):
    """One group."""

    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    """It is "consumer" for consumers, and empty for a group that only has offsets."""
    group_state: str = wire(STRING, "4+", ignorable=True)
    group_type: str = wire(STRING, "5+", ignorable=True)


class ListGroupsResponse(Response):
    """The groups of the broker that answers."""

    API_KEY = 16
    NAME = "ListGroups"
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    error_code: int = wire(INT16)
    groups: tuple[ListedGroup, ...] = wire(array(ListedGroup))


class ListGroupsRequest(Request[ListGroupsResponse]):
    """Which groups: those in one of these states and of one of these types, all where a filter is empty."""

    API_KEY = 16
    NAME = "ListGroups"
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    RESPONSE = ListGroupsResponse

    states_filter: tuple[str, ...] = wire(array(STRING), "4+")
    types_filter: tuple[str, ...] = wire(array(STRING), "5+")
