"""Which groups a cluster has: each broker knows those that it coordinates."""

from __future__ import annotations

from typing import NamedTuple

from aioprod.errors import ErrorCode
from aioprod.messages import ListGroupsRequest, ListGroupsResponse
from aioprod.net.session import Session
from aioprod.reader.asking import Aim, Outcome, ask

__all__ = ["GroupListing", "listed_groups"]


class GroupListing(NamedTuple):
    """A group as its coordinator lists it.

    `state` is in Kafka's words ("Stable", "Empty", ...), None before Kafka 2.6; `type` is "classic", "consumer" or
    another one of Kafka's, None before 3.8. `protocol_type` is "consumer" for consumers, and empty for a group whose
    offsets were committed without members.
    """

    group_id: str
    state: str | None
    type: str | None
    protocol_type: str


async def listed_groups(session: Session, deadline: float) -> list[GroupListing]:
    """All groups that this client may describe, by name.

    Raises RequestTimedOutError when one of the brokers does not answer until `deadline` (monotonic seconds).
    """
    nodes = session.client.metadata.cluster.nodes
    answers = [await _of_broker(session, node.id, deadline) for node in nodes]
    found = {row.group_id: row for answer in answers for row in answer.groups}
    return [
        GroupListing(name, row.group_state or None, row.group_type.lower() or None, row.protocol_type)
        for name, row in sorted(found.items())
    ]


async def _of_broker(session: Session, node_id: int, deadline: float) -> ListGroupsResponse:
    aim = Aim(f"The groups of broker {node_id} could not be listed")

    def outcome(answer: ListGroupsResponse) -> Outcome:
        return Outcome(ErrorCode.of(answer.error_code))

    return await ask(session, ListGroupsRequest(), outcome, aim, deadline, node_id=node_id)
