"""A group's rebalances, one after the other, on paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from aioprod.group.assignors import Assignor, Subscription
from aioprod.types import TopicPartition

__all__ = ["Assigned", "partition_count", "rebalances"]

Assigned: TypeAlias = Mapping[str, Sequence[TopicPartition]]

_ROUNDS_MAX: Final = 10
"""A cooperative assignor needs two, an eager one a single one."""


def rebalances(
    assignor: Assignor, topics: Mapping[str, int], members: Mapping[str, Subscription], before: Assigned
) -> list[Assigned]:
    """The assignment of one rebalance after the other, until all partitions of subscribed topics are assigned.

    `before` is what members have; an assignor that looks at that finds it in what they own, as of one generation.
    """
    read = {topic for subscription in members.values() for topic in subscription.topics}
    whole = sum(count for topic, count in topics.items() if topic in read)
    assigned = [before]
    while len(assigned) <= _ROUNDS_MAX:
        owned = assigned[-1]
        subscribed = {
            member: replace(each, owned=owned.get(member, ()), generation=len(assigned) if member in owned else -1)
            for member, each in members.items()
        }
        assigned.append(assignor.assign(topics, subscribed))
        if partition_count(assigned[-1]) == whole:
            break
    return assigned[1:]


def partition_count(assigned: Assigned) -> int:
    """How many partitions are assigned."""
    return sum(map(len, assigned.values()))
