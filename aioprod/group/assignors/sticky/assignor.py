"""Balanced assignment that leaves partitions where they are as far as it can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aioprod.group.assignors.model import Assignment, Group, Partitions, Subscription, normalized
from aioprod.group.assignors.sticky.claims import Claim, ReadClaim, judged
from aioprod.group.assignors.sticky.constrained import Constrained
from aioprod.group.assignors.sticky.general import General
from aioprod.group.assignors.sticky.user_data import decode_generation, decode_sticky, encode_generation, encode_sticky
from aioprod.types import TopicPartition

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]


class StickyAssignor:
    """As even as possible, then as few moves as possible (KIP-54, KIP-341).

    What members own counts by generation: the newer claim wins, and two claims of one generation both lose. All is as
    with Java's 4.3 but three flaws: it keeps partitions that no longer exist, and then gives others away twice or
    fails; it may give partitions to a member without topics; and while it balances it gives partitions back to who had
    them in an older generation, also to one that has stopped reading their topic. Here none of these happens.
    """

    name = "sticky"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """Who gets what: first what the member keeps, then what is new to it."""
        assignment, _ = _assigned(normalized(partitions, members), _eager_claim)
        return assignment

    def user_data(self, previous: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
        """What the member had in that generation: it gives all up before it joins anew, and says here what it was."""
        return None if previous is None else encode_sticky(previous, generation)


class CooperativeStickyAssignor:
    """The sticky assignment less what has to be given up first (KIP-429).

    A partition that moves is nobody's until its owner has revoked it; the next rebalance, which follows at once,
    gives it to its new owner.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """Who gets what of the partitions that are free to be given."""
        group = normalized(partitions, members)
        assignment, moving = _assigned(group, _cooperative_claim)
        if moving is None:
            moving = _moving(group, assignment)
        return {member: [tp for tp in owned if moving.get(tp) != member] for member, owned in assignment.items()}

    def user_data(self, previous: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
        """The generation of what the member owns: newer leaders read it from the subscription itself."""
        return encode_generation(generation)


def _assigned(group: Group, read: ReadClaim) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and which partitions change hands, where that is known on the way."""
    if not group.topics:
        return {member: [] for member in group.members}, {}
    claims = judged(group, read)
    first, *others = (set(subscription.topics) for subscription in group.members.values())
    if all(topics == first for topics in others):
        constrained = Constrained(group, claims)
        return constrained.build(), constrained.moving
    return General(group, claims).build(), None


def _eager_claim(subscription: Subscription) -> Claim:
    if subscription.user_data:
        return decode_sticky(subscription.user_data)
    return list(subscription.owned), subscription.generation


def _cooperative_claim(subscription: Subscription) -> Claim:
    generation = subscription.generation
    if generation == -1 and subscription.user_data is not None:
        generation = decode_generation(subscription.user_data)
    return list(subscription.owned), generation


def _moving(group: Group, assignment: Assignment) -> dict[TopicPartition, str]:
    """What one member gets and another one still owns."""
    added: dict[TopicPartition, str] = {}
    given_up: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = set(group.members[member].owned)
        added.update((tp, member) for tp in partitions if tp not in owned)
        given_up |= owned.difference(partitions)
    return {tp: member for tp, member in added.items() if tp in given_up}
