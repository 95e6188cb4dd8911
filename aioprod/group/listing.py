"""The groups of a cluster (ListGroups): each broker lists those that it coordinates."""

from __future__ import annotations

from typing import NamedTuple

from aioprod.calls.any_broker import FailureWording, ItemResult, request_any_broker
from aioprod.calls.session import Session
from aioprod.errors import ErrorCode
from aioprod.messages import ListGroupsRequest, ListGroupsResponse

__all__ = ["GroupListing", "listed_groups"]


class GroupListing(NamedTuple):
    """A group as its coordinator lists it."""

    group_id: str
    state: str | None
    """In Kafka's words ("Stable", "Empty", ...); None before Kafka 2.6."""
    type: str | None
    """It is "classic", "consumer" or another type of Kafka; None before 3.8."""
    protocol_type: str
    """It is "consumer" for consumers, and empty for a group whose offsets were committed without members."""


async def listed_groups(session: Session, deadline: float) -> list[GroupListing]:
    """All groups that this client may describe, sorted by name.

    Raises RequestTimedOutError when one of the brokers does not answer until `deadline` (monotonic seconds).
    """
    nodes = session.cluster().nodes
    responses = [await _of_broker(session, node.id, deadline) for node in nodes]
    found = {row.group_id: row for response in responses for row in response.groups}
    return [
        GroupListing(name, row.group_state or None, row.group_type.lower() or None, row.protocol_type)
        for name, row in sorted(found.items())
    ]


async def _of_broker(session: Session, node_id: int, deadline: float) -> ListGroupsResponse:
    wording = FailureWording(f"The groups of broker {node_id} could not be listed")

    def result(response: ListGroupsResponse) -> ItemResult:
        return ItemResult(ErrorCode.of(response.error_code))

    return await request_any_broker(session, ListGroupsRequest(), result, wording, deadline, node_id=node_id)
