"""The racks of members and replicas, for the sticky algorithms; without effect where racks make no difference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aioprod.group.assignors.model import Group
from aioprod.types import TopicPartition

__all__ = ["Racks"]


class Racks:
    """The racks of members and replicas."""

    def __init__(self, group: Group) -> None:
        self.in_use = group.uses_racks(list(group.members), [tp for tps in group.topics.values() for tp in tps])
        """Whether they make a difference."""
        self._of_member = {member: subscription.rack for member, subscription in group.members.items()}
        self._of_partition = group.racks
        self._members_in: dict[str, int] = {}
        for rack in filter(None, self._of_member.values()):
            self._members_in[rack] = self._members_in.get(rack, 0) + 1

    def mismatch(self, member: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack in which the partition has no replica."""
        rack = self._of_member[member]
        return self.in_use and bool(rack) and rack not in self._of_partition.get(tp, ())

    def by_rarity(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions sorted by how many members can read them within their rack, fewest first."""
        return sorted(
            partitions, key=lambda tp: sum(self._members_in.get(rack, 0) for rack in self._of_partition.get(tp, ()))
        )

    def next_member(self, tp: TopicPartition, members: Sequence[str], start: int) -> int | None:
        """Index of the first member from `start` on, in a circle, in whose rack the partition has a replica."""
        racks = self._of_partition.get(tp, frozenset())
        for turn in range(len(members)):
            index = (start + turn) % len(members)
            if self._of_member[members[index]] in racks:
                return index
        return None
