"""Server-side assignors of KIP-848 groups: simple forms of Kafka's `uniform` and `range`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from uuid import UUID

__all__ = ["SERVER_ASSIGNORS", "Assignments", "TopicIdPartition"]

TopicIdPartition = tuple[UUID, int]
"""A topic's id and the partition's index."""

Assignments = dict[str, set[TopicIdPartition]]
"""The partitions of each member."""

Topics = Mapping[UUID, int]


def _uniform(
    members: Mapping[str, frozenset[UUID]], topics: Topics, before: Mapping[str, set[TopicIdPartition]]
) -> Assignments:
    """As even as possible; a member keeps what it has, up to its even number of partitions."""
    partitions = [(topic_id, index) for topic_id, count in sorted(topics.items()) for index in range(count)]
    assignments: Assignments = {member_id: set() for member_id in members}
    free = set(partitions)
    quotient, remainder = divmod(len(partitions), len(members)) if members else (0, 0)
    # The members with the most partitions are the first to keep one more than the others.
    for member_id in sorted(members, key=lambda one: (-len(before.get(one, ())), one)):
        quota = quotient + (remainder > 0)
        kept = sorted(
            partition
            for partition in before.get(member_id, ())
            if partition in free and partition[0] in members[member_id]
        )
        assignments[member_id] = set(kept[:quota])
        remainder -= len(assignments[member_id]) > quotient
        free -= assignments[member_id]
    for partition in sorted(free):
        subscribers = [member_id for member_id, subscription in members.items() if partition[0] in subscription]
        if subscribers:
            assignments[min(subscribers, key=lambda one: (len(assignments[one]), one))].add(partition)
    return assignments


def _range(
    members: Mapping[str, frozenset[UUID]], topics: Topics, before: Mapping[str, set[TopicIdPartition]]
) -> Assignments:
    """Consecutive partitions of each topic for each member."""
    assignments: Assignments = {member_id: set() for member_id in members}
    for topic_id, count in topics.items():
        subscribers = sorted(member_id for member_id, subscription in members.items() if topic_id in subscription)
        quotient, remainder = divmod(count, len(subscribers)) if subscribers else (0, 0)
        start = 0
        for index, member_id in enumerate(subscribers):
            end = start + quotient + (index < remainder)
            assignments[member_id].update((topic_id, partition) for partition in range(start, end))
            start = end
    return assignments


SERVER_ASSIGNORS: Final[
    Mapping[str, Callable[[Mapping[str, frozenset[UUID]], Topics, Mapping[str, set[TopicIdPartition]]], Assignments]]
] = {"uniform": _uniform, "range": _range}
"""By Kafka's names; the first is the default if no member requests one (`group.consumer.assignors`)."""
