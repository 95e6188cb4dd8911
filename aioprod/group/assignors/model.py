"""What an assignor is given, brought into one form: sorted topics, their partitions and racks, sorted members."""

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
"""Per topic its number of partitions, or, so that racks count (KIP-881), what is known of each."""

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""Per member its partitions; every member is in it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What one member of a group brings to a rebalance.

    `owned` are the partitions that it has, as of the group's generation `generation` (-1: it does not say). `rack` is
    its `client.rack`, `user_data` what its assignor said for itself: where it is given, sticky assignors read the
    owned partitions or the generation from it, as older members send them. Members with a `group_instance_id` come
    before the others and keep their order when they restart (range and round-robin).
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes | None = None
    group_instance_id: str | None = None


class Assignor(Protocol):
    """Divides partitions among members.

    For `Member` it may also have `cooperative`, True if members keep what they own while they join anew and nothing is
    given to a member before its owner has given it up (KIP-429), and a method `user_data(previous, generation)`: bytes
    or None to tell the leader's assignor, from the partitions that this member was assigned last (None: never any), in
    that generation.
    """

    name: str

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """Who gets what; the order of the arguments makes no difference, topics that nobody reads are left out."""
        ...


@dataclass(frozen=True)
class Group:
    """The members and the topics that at least one of them reads, both in the order in which Java sorts text."""

    members: dict[str, Subscription]
    topics: dict[str, list[TopicPartition]]
    racks: dict[TopicPartition, frozenset[str]]

    @cached_property
    def subscribed(self) -> dict[str, frozenset[str]]:
        """Per member the topics that it reads and that have partitions."""
        known: dict[tuple[str, ...], frozenset[str]] = {}  # most members read what others read, too
        return {
            member: known.setdefault(tuple(subscription.topics), frozenset(self.topics.keys() & subscription.topics))
            for member, subscription in self.members.items()
        }

    @cached_property
    def readers(self) -> dict[str, list[str]]:
        """Per topic the members that read it."""
        readers: dict[str, list[str]] = {topic: [] for topic in self.topics}
        for member, topics in self.subscribed.items():
            for topic in topics:
                readers[topic].append(member)
        return readers

    @cached_property
    def partition_count(self) -> int:
        """How many partitions there are to divide."""
        return sum(map(len, self.topics.values()))

    @cached_property
    def by_instance(self) -> list[str]:
        """The members, static ones first in the order of their instance id."""

        def order(member: str) -> tuple[bool, bytes]:
            instance = self.members[member].group_instance_id
            return instance is None, text_order(member if instance is None else instance)

        return sorted(self.members, key=order)

    def uses_racks(self, members: Sequence[str], partitions: Sequence[TopicPartition]) -> bool:
        """Whether racks can make a difference: some are shared by readers and replicas, and not by all partitions."""
        of_members = {rack for member in members if (rack := self.members[member].rack)}
        of_partitions = [self.racks.get(partition, frozenset()) for partition in partitions]
        everywhere = frozenset().union(*of_partitions)
        return not of_members.isdisjoint(everywhere) and any(racks != everywhere for racks in of_partitions)


def normalized(partitions: Partitions, members: Mapping[str, Subscription]) -> Group:
    """The arguments of `assign` in order; `UsageError` for a negative number of partitions."""
    wanted = {topic for subscription in members.values() for topic in subscription.topics}
    topics: dict[str, list[TopicPartition]] = {}
    racks: dict[TopicPartition, frozenset[str]] = {}
    for topic in sorted(wanted.intersection(partitions), key=text_order):
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
