"""The sticky assignors: a balanced assignment that moves as few partitions as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aioprod.group.assignors.model import Assignment, Group, Partitions, Subscription, normalized
from aioprod.group.assignors.sticky.claims import Claim, ReadClaim, resolve_claims
from aioprod.group.assignors.sticky.constrained import Constrained
from aioprod.group.assignors.sticky.general import General
from aioprod.group.assignors.sticky.user_data import decode_generation, decode_sticky, encode_generation, encode_sticky
from aioprod.types import TopicPartition

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]


class StickyAssignor:
    """As even as possible, then as few moves as possible (KIP-54, KIP-341).

    A partition that two members claim stays with the claim of the newer generation. Of two claims of one generation
    neither counts. The results are those of Java 4.3 but for three flaws, which are not copied: Java keeps partitions
    that no longer exist, and then assigns others twice or fails; it may assign partitions to a member without topics;
    and while it balances it returns partitions to their owner of an older generation, even if that has unsubscribed
    from the topic.
    """

    name = "sticky"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member: first those that it keeps, then the new ones."""
        assignment, _ = _assigned(normalized(partitions, members), _eager_claim)
        return assignment

    def user_data(self, previous: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
        """The last assignment and its generation: an eager member has revoked all partitions when it rejoins."""
        return None if previous is None else encode_sticky(previous, generation)


class CooperativeStickyAssignor:
    """The sticky assignment without the partitions that have to be revoked first (KIP-429).

    A partition that moves is assigned to no member until its owner has revoked it; the next rebalance, which follows at
    once, assigns it to its new owner.
    """

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member, without those that another member still owns."""
        group = normalized(partitions, members)
        assignment, moving = _assigned(group, _cooperative_claim)
        if moving is None:
            moving = _moving(group, assignment)
        return {member: [tp for tp in owned if moving.get(tp) != member] for member, owned in assignment.items()}

    def user_data(self, previous: Iterable[TopicPartition] | None, generation: int) -> bytes | None:
        """The generation of the owned partitions; newer leaders read it from the subscription itself."""
        return encode_generation(generation)


def _assigned(group: Group, read: ReadClaim) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and the moving partitions with their new owners, or None if they have to be computed."""
    if not group.topics:
        return {member: [] for member in group.members}, {}
    claims = resolve_claims(group, read)
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
    """The partitions that are assigned to one member and still owned by another, with their new owners."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = set(group.members[member].owned)
        added.update((tp, member) for tp in partitions if tp not in owned)
        revoked |= owned.difference(partitions)
    return {tp: member for tp, member in added.items() if tp in revoked}
