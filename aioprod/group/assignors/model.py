"""The arguments of assignors in one normal form: sorted topics, their partitions and racks, sorted members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import UsageError
from aioprod.group.assignors.java_order import text_order
from aioprod.types import TopicPartition

__all__ = ["Assignment", "Assignor", "Group", "Partitions", "Subscription", "normalized"]

Partitions: TypeAlias = Mapping[str, int] | Mapping[str, Sequence[PartitionInfo]]
"""The partition count of each topic, or, to use racks (KIP-881), the `PartitionInfo`s."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""The partitions of each member; every member is in it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The subscription of one member of a group, as it sends it with JoinGroup.

    Members with a `group_instance_id` come before the others and keep their order when they restart (range and
    round-robin).
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    """The partitions that it has, as of `generation`."""
    generation: int = -1
    """The generation of the group in which it got them; -1: unknown."""
    rack: str | None = None
    """Its `client.rack`."""
    user_data: bytes | None = None
    """From its assignor: sticky assignors read from it the owned partitions or the generation, as older members send
    them."""
    group_instance_id: str | None = None


class Assignor(Protocol):
    """Assigns partitions to members.

    For `Member` it may also have `cooperative`, True if members keep what they own while they rejoin and no partition
    is assigned to a member before its owner has revoked it (KIP-429), and a method `user_data(previous, generation)`:
    bytes or None to add to the subscription, from the last assignment of this member, None before the first one, and
    its generation.
    """

    name: str

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member, independent of the order of the arguments."""
        ...


@dataclass(frozen=True)
class Group:
    """The members, and the topics with a subscriber, both in the order in which Java sorts text."""

    members: dict[str, Subscription]
    topics: dict[str, list[TopicPartition]]
    racks: dict[TopicPartition, frozenset[str]]

    @cached_property
    def subscribed(self) -> dict[str, frozenset[str]]:
        """The subscribed topics of each member, without those that have no partitions."""
        known: dict[tuple[str, ...], frozenset[str]] = {}  # most members have the same subscription
        return {
            member: known.setdefault(tuple(subscription.topics), frozenset(self.topics.keys() & subscription.topics))
            for member, subscription in self.members.items()
        }

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """The subscribers of each topic."""
        readers: dict[str, list[str]] = {topic: [] for topic in self.topics}
        for member, topics in self.subscribed.items():
            for topic in topics:
                readers[topic].append(member)
        return readers

    @cached_property
    def partition_count(self) -> int:
        """The number of partitions to assign."""
        return sum(map(len, self.topics.values()))

    @cached_property
    def by_instance(self) -> list[str]:
        """The members, static ones first in the order of their instance id."""

        def order(member: str) -> tuple[bool, bytes]:
            instance = self.members[member].group_instance_id
            return instance is None, text_order(member if instance is None else instance)

        return sorted(self.members, key=order)

    def uses_racks(self, members: Sequence[str], partitions: Sequence[TopicPartition]) -> bool:
        """Whether racks matter: members and replicas have some in common, and not every partition has a replica in each
        of them.
        """
        of_members = {rack for member in members if (rack := self.members[member].rack)}
        of_partitions = [self.racks.get(partition, frozenset()) for partition in partitions]
        everywhere = frozenset().union(*of_partitions)
        return not of_members.isdisjoint(everywhere) and any(racks != everywhere for racks in of_partitions)


def normalized(partitions: Partitions, members: Mapping[str, Subscription]) -> Group:
    """The arguments of `assign` in order; `UsageError` for a negative number of partitions."""
    subscribed = {topic for subscription in members.values() for topic in subscription.topics}
    topics: dict[str, list[TopicPartition]] = {}
    racks: dict[TopicPartition, frozenset[str]] = {}
    for topic in sorted(subscribed.intersection(partitions), key=text_order):
        known = partitions[topic]
        if isinstance(known, int):
            if known < 0:
                raise UsageError(f"Topic {topic!r} can't have {known} partitions.")
            indexes: list[int] = list(range(known))
        else:
            indexes = sorted(info.partition for info in known)
            for info in known:
                tp = TopicPartition(topic, info.partition)
                racks[tp] = frozenset(node.rack for node in info.replicas if node.rack is not None)
        if indexes:
            topics[topic] = [TopicPartition(topic, index) for index in indexes]
    ordered = {member: members[member] for member in sorted(members, key=text_order)}
    return Group(ordered, topics, racks)
