"""The sticky algorithm where all members subscribe to the same topics: each gets the lower quota, some one more."""

from __future__ import annotations

from collections.abc import Sequence

from aioprod.group.assignors.java_order import text_order
from aioprod.group.assignors.model import Assignment, Group
from aioprod.group.assignors.sticky.claims import Claims
from aioprod.group.assignors.sticky.racks import Racks
from aioprod.types import TopicPartition

__all__ = ["Constrained"]


class Constrained:
    """Computes one assignment: members keep owned partitions up to the quota, then the others are dealt in order."""

    def __init__(self, group: Group, claims: Claims) -> None:
        self.moving: dict[TopicPartition, str] = {}
        """Partition that changes its owner -> the new owner."""
        self._group = group
        self._racks = Racks(group)
        self._claims = claims
        self._assignment: Assignment = {member: [] for member in group.members}
        self._revoked_from: dict[TopicPartition, str] = {}
        self._min_quota, self._max_quota_members = divmod(group.partition_count, len(group.members))
        self._max_quota = self._min_quota + (self._max_quota_members > 0)
        self._max_quota_filled = 0
        self._below: list[str] = []  # members below the lower quota
        self._at: list[str] = []  # members at the lower quota, which may get one more

    def build(self) -> Assignment:
        """The assignment; every member has the lower or the higher quota."""
        for member, owned in self._claims.owned.items():
            self._keep(member, owned)
        self._below.sort(key=text_order)
        self._at.sort(key=text_order)
        kept = {tp for partitions in self._assignment.values() for tp in partitions}
        rest = [tp for partitions in self._group.topics.values() for tp in partitions if tp not in kept]
        if any(subscription.rack for subscription in self._group.members.values()):
            rest = self._racks.by_rarity(rest)
        if self._racks.in_use:
            rest = self._deal_within_racks(rest)
        self._deal(rest)
        return self._assignment

    def _keep(self, member: str, owned: Sequence[TopicPartition]) -> None:
        kept: list[TopicPartition] = []
        for tp in sorted(owned, key=lambda tp: (tp.partition, text_order(tp.topic))):
            if self._racks.mismatch(member, tp):
                self._revoked_from[tp] = member
            elif tp not in self._claims.disputed:
                kept.append(tp)
        quota = len(kept)
        if quota < self._min_quota:
            self._below.append(member)
        elif quota >= self._max_quota and self._max_quota_filled < self._max_quota_members:
            quota = self._max_quota
            self._max_quota_filled += 1
            if self._max_quota_filled == self._max_quota_members:
                self._at.clear()
        else:
            quota = self._min_quota
            if self._max_quota_filled < self._max_quota_members:
                self._at.append(member)
        self._assignment[member] += kept[:quota]
        self._revoked_from.update(dict.fromkeys(kept[quota:], member))

    def _deal_within_racks(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Deal the partitions that a member can read within its rack, and return the rest."""
        left: list[TopicPartition] = []
        turn = 0
        for tp in partitions:
            index = self._racks.next_member(tp, self._below, turn)
            if index is not None:
                member = self._below[index]
                self._assign(tp, member)
                if len(self._assignment[member]) >= self._min_quota:
                    del self._below[index]
                    if self._min_quota < self._max_quota and self._max_quota_filled < self._max_quota_members:
                        self._at.append(member)
                else:
                    index += 1
                turn = index % len(self._below) if self._below else 0
            elif (index := self._racks.next_member(tp, self._at, 0)) is not None:
                self._assign(tp, self._at.pop(index))
                self._max_quota_filled += 1
                if self._max_quota_filled == self._max_quota_members:
                    self._at.clear()
            else:
                left.append(tp)
        return left

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        """Deal to those below the lower quota in turn, then one each to those at it."""
        turn = taken = 0
        for tp in partitions:
            if not self._below:
                self._assign(tp, self._at[taken])
                taken += 1
                continue
            turn %= len(self._below)
            member = self._below[turn]
            self._assign(tp, member)
            if len(self._assignment[member]) == self._min_quota:
                del self._below[turn]
                self._at.append(member)
                # Java's iterator continues behind the removed member, and restarts only at the end.
            else:
                turn += 1

    def _assign(self, tp: TopicPartition, member: str) -> None:
        self._assignment[member].append(tp)
        if self._revoked_from.get(tp, member) != member or tp in self._claims.disputed:
            self.moving[tp] = member
