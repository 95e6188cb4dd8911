"""Each topic by itself, cut into ranges; racks are matched first where that changes nobody's share (KIP-881)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from aioprod.group.assignors.java_order import text_order
from aioprod.group.assignors.model import Assignment, Group, Partitions, Subscription, normalized
from aioprod.types import TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """Cuts each topic into ranges, one for each of its members in order; the first ones get what is left over.

    Partition n of topics with the same members and number of partitions goes to one member (co-partitioning). With
    several topics the left-overs add up for the first members.
    """

    name = "range"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """Who gets what, in order of topic and partition."""
        group = normalized(partitions, members)
        assignment: Assignment = {member: [] for member in group.members}
        shares = [_Shares(topic, group, assignment) for topic in group.topics]
        if any(share.uses_racks for share in shares):
            _match_racks(shares)
        for share in shares:
            share.cut(lambda member, tp: True)
        for assigned in assignment.values():
            assigned.sort(key=lambda tp: (text_order(tp.topic), tp.partition))
        return assignment


class _Shares:
    """One topic while it is cut: what is left of it, and how much each member may still get."""

    def __init__(self, topic: str, group: Group, assignment: Assignment) -> None:
        self.members = tuple(member for member in group.by_instance if topic in group.subscribed[member])
        self.partitions = group.topics[topic]
        self.uses_racks = group.uses_racks(self.members, self.partitions)
        self._racks = group.racks
        self._rack_of = {member: group.members[member].rack for member in self.members}
        self._assignment = assignment
        self._unassigned = dict.fromkeys(self.partitions)
        self._each, self._left_over = divmod(len(self.partitions), len(self.members))
        self._got = dict.fromkeys(self.members, 0)

    @property
    def has_racks(self) -> bool:
        """Whether any of its members names a rack."""
        return any(self._rack_of.values())

    def room(self, member: str) -> int:
        """How many partitions the member may still get."""
        return max(0, self._each + (self._left_over > 0) - self._got[member])

    def matches(self, member: str, tp: TopicPartition) -> bool:
        """Whether the partition has a replica in the member's rack; one without a rack takes any."""
        rack = self._rack_of[member]
        return not rack or rack in self._racks.get(tp, ())

    def give(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Hand partitions over."""
        self._assignment[member].extend(partitions)
        self._got[member] += len(partitions)
        if self._got[member] > self._each:
            self._left_over -= 1
        for tp in partitions:
            self._unassigned.pop(tp, None)

    def cut(self, may_get: Callable[[str, TopicPartition], bool]) -> None:
        """Give each member in order the first of what is left, as much as it has room for."""
        for member in self.members:
            if not self._unassigned:
                return
            fitting = (tp for tp in self._unassigned if may_get(member, tp))
            if chosen := list(islice(fitting, self.room(member))):
                self.give(member, chosen)


def _match_racks(shares: Sequence[_Shares]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_Shares]] = {}
    for share in shares:
        # Without a single rack among its members, a topic can take any partition: Java counts no racks for it.
        counted = len(share.partitions) if share.has_racks else 0
        alike.setdefault((share.members, counted), []).append(share)
    for (members, counted), same in alike.items():
        if len(same) > 1:
            _match_co_partitioned(members, counted, same)
        elif same[0].uses_racks:
            same[0].cut(same[0].matches)


def _match_co_partitioned(members: Sequence[str], count: int, shares: Sequence[_Shares]) -> None:
    """Give partition n of all topics to the first member whose rack has a replica of each of them."""
    remaining = list(members)
    for index in range(count):
        for member in remaining:
            if all(share.room(member) and share.matches(member, share.partitions[index]) for share in shares):
                for share in shares:
                    share.give(member, share.partitions[index : index + 1])
                if not any(share.room(member) for share in shares):
                    remaining.remove(member)
                break
