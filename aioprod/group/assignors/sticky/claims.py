"""The claims of members to the partitions that they own, and how conflicts between claims are resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from aioprod.group.assignors.java_order import hash_ordered
from aioprod.group.assignors.model import Assignment, Group, Subscription
from aioprod.types import TopicPartition

__all__ = ["Claim", "Claims", "ReadClaim", "resolve_claims"]

Claim: TypeAlias = tuple[list[TopicPartition], int]
"""The partitions that a member claims to own, and the generation of that (-1: unknown)."""

ReadClaim: TypeAlias = Callable[[Subscription], Claim]


@dataclass(slots=True)
class Claims:
    """The accepted claims."""

    owned: Assignment = field(default_factory=dict)
    """The accepted partitions of each member."""
    disputed: set[TopicPartition] = field(default_factory=set)
    """Partitions that were claimed twice in one generation: no one keeps them."""
    former: dict[TopicPartition, str] = field(default_factory=dict)
    """Partition -> its owner in an older generation, which gets it back if the balance allows."""


def resolve_claims(group: Group, read: ReadClaim) -> Claims:
    """Resolve the claims of all members, in the order in which Java does; the newer generation wins."""
    existing = {tp for partitions in group.topics.values() for tp in partitions}
    claimed = {member: read(group.members[member]) for member in hash_ordered(group.members)}
    claims = Claims()
    owner: dict[TopicPartition, str] = {}
    owned: dict[str, dict[TopicPartition, None]] = {member: {} for member in claimed}
    for member, (partitions, generation) in claimed.items():
        for tp in partitions:
            if tp not in existing:
                continue
            other = owner.get(tp)
            if other is None:
                owned[member][tp] = None
                owner[tp] = member
                continue
            # Java compares with the generation in the other member's subscription, even if its user data has another
            # one.
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
    claims.former = _former(claimed)
    return claims


def _former(claimed: dict[str, Claim]) -> dict[TopicPartition, str]:
    newest = max((generation for _, generation in claimed.values()), default=-1)
    latest: dict[TopicPartition, tuple[int, str]] = {}
    for member, (partitions, generation) in claimed.items():
        if generation < newest:
            for tp in partitions:
                if tp not in latest or generation > latest[tp][0]:
                    latest[tp] = (generation, member)
    return {tp: member for tp, (_, member) in latest.items()}
