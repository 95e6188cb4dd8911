"""DescribeGroups (key 15): the members of groups of the classic protocol, by their coordinator.

Versions: 3 authorized operations; 4 static members (KIP-345); 5 flexible; 6 an error for groups that do not exist
(KIP-1043), which have the state "Dead" before.
"""

from __future__ import annotations

from typing import Final

from aioprod.wire.schema import BOOL, BYTES, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = ["DescribeGroupsRequest", "DescribeGroupsResponse", "DescribedGroup", "DescribedGroupMember"]

_UNKNOWN_OPERATIONS: Final = -(2**31)


class DescribedGroupMember(Struct):
    """One member; the formats of metadata and assignment are the protocol type's."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "4+", nullable="4+", default=None, ignorable=True)
    client_id: str = wire(TEXT)
    client_host: str = wire(TEXT)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


class DescribedGroup(Struct):
    """One group."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, "6+", nullable="6+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(TEXT)
    """The name of the assignor."""
    members: tuple[DescribedGroupMember, ...] = wire(array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, "3+", default=_UNKNOWN_OPERATIONS)


class DescribeGroupsResponse(Response):
    """The groups that were named."""

    API_KEY = 15
    NAME = "DescribeGroups"
    VERSIONS = (0, 6)
    FLEXIBLE = 5

    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    groups: tuple[DescribedGroup, ...] = wire(array(DescribedGroup))


class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """The names of groups that the broker coordinates."""

    API_KEY = 15
    NAME = "DescribeGroups"
    VERSIONS = (0, 6)
    FLEXIBLE = 5
    RESPONSE = DescribeGroupsResponse

    groups: tuple[str, ...] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, "3+", default=False)
