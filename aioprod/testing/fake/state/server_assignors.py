"""How brokers divide partitions among the members of a group by themselves (KIP-848): simple forms of Kafka's ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

__all__ = ["SERVER_ASSIGNORS", "Place", "Shares"]

Place = tuple[UUID, int]
"""A partition, by its topic's id."""

Shares = dict[str, set[Place]]
"""What each member shall hold."""

Topics = Mapping[UUID, int]


def _uniform(members: Mapping[str, frozenset[UUID]], topics: Topics, before: Mapping[str, set[Place]]) -> Shares:
    """As even as may be; members keep what they have of their even share."""
    places = [(topic_id, index) for topic_id, count in sorted(topics.items()) for index in range(count)]
    shares: Shares = {member_id: set() for member_id in members}
    free = set(places)
    least, more = divmod(len(places), len(members)) if members else (0, 0)
    # Who has most is the first to keep one more than the others.
    for member_id in sorted(members, key=lambda one: (-len(before.get(one, ())), one)):
        quota = least + (more > 0)
        kept = sorted(place for place in before.get(member_id, ()) if place in free and place[0] in members[member_id])
        shares[member_id] = set(kept[:quota])
        more -= len(shares[member_id]) > least
        free -= shares[member_id]
    for place in sorted(free):
        wanting = [member_id for member_id, wanted in members.items() if place[0] in wanted]
        if wanting:
            shares[min(wanting, key=lambda one: (len(shares[one]), one))].add(place)
    return shares


def _range(members: Mapping[str, frozenset[UUID]], topics: Topics, before: Mapping[str, set[Place]]) -> Shares:
    """A run of each topic's partitions for each member."""
    shares: Shares = {member_id: set() for member_id in members}
    for topic_id, count in topics.items():
        wanting = sorted(member_id for member_id, wanted in members.items() if topic_id in wanted)
        least, more = divmod(count, len(wanting)) if wanting else (0, 0)
        begin = 0
        for index, member_id in enumerate(wanting):
            end = begin + least + (index < more)
            shares[member_id].update((topic_id, partition) for partition in range(begin, end))
            begin = end
    return shares


SERVER_ASSIGNORS: Final[
    Mapping[str, Callable[[Mapping[str, frozenset[UUID]], Topics, Mapping[str, set[Place]]], Shares]]
] = {"uniform": _uniform, "range": _range}
"""By Kafka's names, the one that is used unless members ask for another first (`group.consumer.assignors`)."""
