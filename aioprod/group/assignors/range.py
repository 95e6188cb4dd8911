"""The range assignor. It matches racks first, as far as that changes no member's number of partitions (KIP-881)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from aioprod.group.assignors.java_order import text_order
from aioprod.group.assignors.model import Assignment, Group, Partitions, Subscription, normalized
from aioprod.types import TopicPartition

__all__ = ["RangeAssignor"]


class RangeAssignor:
    """Cuts each topic into ranges, one for each of its subscribers in order; the first ones get one partition more.

    Partition n of topics with the same members and number of partitions goes to one member (co-partitioning). With
    several topics the first members get one more of each.
    """

    name = "range"

    def assign(self, partitions: Partitions, members: Mapping[str, Subscription]) -> Assignment:
        """The partitions of each member, in order of topic and partition."""
        group = normalized(partitions, members)
        assignment: Assignment = {member: [] for member in group.members}
        topics = [_TopicRanges(name, group, assignment) for name in group.topics]
        if any(topic.uses_racks for topic in topics):
            _match_racks(topics)
        for topic in topics:
            topic.cut(lambda member, tp: True)
        for assigned in assignment.values():
            assigned.sort(key=lambda tp: (text_order(tp.topic), tp.partition))
        return assignment


class _TopicRanges:
    """One topic while it is assigned: its unassigned partitions, and how many each member may still get."""

    def __init__(self, topic: str, group: Group, assignment: Assignment) -> None:
        self.members = tuple(member for member in group.by_instance if topic in group.subscribed[member])
        self.partitions = group.topics[topic]
        self.uses_racks = group.uses_racks(self.members, self.partitions)
        self._racks = group.racks
        self._rack_of = {member: group.members[member].rack for member in self.members}
        self._assignment = assignment
        self._unassigned = dict.fromkeys(self.partitions)
        self._each, self._remainder = divmod(len(self.partitions), len(self.members))
        self._counts = dict.fromkeys(self.members, 0)

    @property
    def has_racks(self) -> bool:
        """Whether any of its members names a rack."""
        return any(self._rack_of.values())

    def remaining(self, member: str) -> int:
        """How many partitions the member may still get."""
        return max(0, self._each + (self._remainder > 0) - self._counts[member])

    def matches(self, member: str, tp: TopicPartition) -> bool:
        """Whether the partition has a replica in the member's rack, or the member has no rack."""
        rack = self._rack_of[member]
        return not rack or rack in self._racks.get(tp, ())

    def assign(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Assign partitions to a member."""
        self._assignment[member].extend(partitions)
        self._counts[member] += len(partitions)
        if self._counts[member] > self._each:
            self._remainder -= 1
        for tp in partitions:
            self._unassigned.pop(tp, None)

    def cut(self, may_get: Callable[[str, TopicPartition], bool]) -> None:
        """Assign to each member in order the first unassigned partitions, as many as it may still get."""
        for member in self.members:
            if not self._unassigned:
                return
            fitting = (tp for tp in self._unassigned if may_get(member, tp))
            if chosen := list(islice(fitting, self.remaining(member))):
                self.assign(member, chosen)


def _match_racks(topics: Sequence[_TopicRanges]) -> None:
    alike: dict[tuple[tuple[str, ...], int], list[_TopicRanges]] = {}
    for topic in topics:
        # Java ignores the racks of a topic whose subscribers have none.
        counted = len(topic.partitions) if topic.has_racks else 0
        alike.setdefault((topic.members, counted), []).append(topic)
    for (members, counted), same in alike.items():
        if len(same) > 1:
            _match_co_partitioned(members, counted, same)
        elif same[0].uses_racks:
            same[0].cut(same[0].matches)


def _match_co_partitioned(members: Sequence[str], count: int, topics: Sequence[_TopicRanges]) -> None:
    """Assign partition n of all topics to the first member whose rack has a replica of each of them."""
    remaining = list(members)
    for index in range(count):
        for member in remaining:
            if all(topic.remaining(member) and topic.matches(member, topic.partitions[index]) for topic in topics):
                for topic in topics:
                    topic.assign(member, topic.partitions[index : index + 1])
                if not any(topic.remaining(member) for topic in topics):
                    remaining.remove(member)
                break
