"""What the members say they own, and who is believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aioprod.group.assignors.java_order import hash_ordered
from aioprod.group.assignors.model import Assignment, Group, Subscription
from aioprod.types import TopicPartition

__all__ = ["Claim", "Claims", "ReadClaim", "judged"]

Claim: TypeAlias = tuple[list[TopicPartition], int]
"""The partitions that a member says it owns, and of which generation of the group (-1: it does not say)."""

ReadClaim: TypeAlias = Callable[[Subscription], Claim]


@dataclass(slots=True)
class Claims:
    """`owned` per member as far as it is believed; `disputed`: two of one generation claim it, neither keeps it.

    `former` names who had a partition in an older generation than the newest: it gets it back if the balance allows.
    """

    owned: Assignment = field(default_factory=dict)
    disputed: set[TopicPartition] = field(default_factory=set)
    former: dict[TopicPartition, str] = field(default_factory=dict)


def judged(group: Group, read: ReadClaim) -> Claims:
    """The claims of all members, taken in the order in which Java meets them; the newer generation is believed."""
    existing = {tp for partitions in group.topics.values() for tp in partitions}
    said = {member: read(group.members[member]) for member in hash_ordered(group.members)}
    claims = Claims()
    owner: dict[TopicPartition, str] = {}
    owned: dict[str, dict[TopicPartition, None]] = {member: {} for member in said}
    for member, (partitions, generation) in said.items():
        for tp in partitions:
            if tp not in existing:
                continue
            other = owner.get(tp)
            if other is None:
                owned[member][tp] = None
                owner[tp] = member
                continue
            # Java compares with what the other one said in its subscription, also where its user data say more.
            others_generation = group.members[other].generation
            if generation == others_generation:
                claims.disputed.add(tp)
                owned[other].pop(tp, None)
                owner[tp] = member
            elif generation > others_generation:
                owned[other].pop(tp, None)
                owned[member][tp] = None
                owner[tp] = member
    claims.owned = {member: list(partitions) for member, partitions in owned.items()}
    claims.former = _former(said)
    return claims


def _former(said: dict[str, Claim]) -> dict[TopicPartition, str]:
    newest = max((generation for _, generation in said.values()), default=-1)
    latest: dict[TopicPartition, tuple[int, str]] = {}
    for member, (partitions, generation) in said.items():
        if generation < newest:
            for tp in partitions:
                if tp not in latest or generation > latest[tp][0]:
                    latest[tp] = (generation, member)
    return {tp: member for tp, (_, member) in latest.items()}
