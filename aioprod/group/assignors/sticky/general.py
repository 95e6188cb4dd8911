"""The sticky algorithm where subscriptions differ: keep what can be kept, then move partitions until it is balanced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aioprod.group.assignors.java_order import text_order
from aioprod.group.assignors.model import Assignment, Group
from aioprod.group.assignors.sticky.claims import Claims
from aioprod.group.assignors.sticky.least_loaded import LeastLoaded
from aioprod.group.assignors.sticky.movements import Movements
from aioprod.group.assignors.sticky.racks import Racks
from aioprod.types import TopicPartition

__all__ = ["General"]


class General:
    """Computes one assignment."""

    def __init__(self, group: Group, claims: Claims) -> None:
        self._group = group
        self._racks = Racks(group)
        self._former = claims.former
        # The values of the inner dictionaries are not used: they are lists that are quick to remove from.
        self._assigned = {member: dict.fromkeys(owned) for member, owned in claims.owned.items()}
        self._owner: dict[TopicPartition, str] = {}
        self._movements = Movements()
        order = sorted(group.topics, key=lambda topic: (len(group.readers[topic]), text_order(topic)))
        self._partitions = [tp for topic in order for tp in group.topics[topic]]

    def build(self) -> Assignment:
        """The assignment, as balanced as moving single partitions can make it."""
        has_to_revoke = self._drop_invalid()
        unassigned = [tp for tp in self._partitions if tp not in self._owner]
        is_first = not self._owner
        left = self._assign(unassigned, within_rack=True) if self._racks.in_use else unassigned
        self._assign(left, within_rack=False)

        before = self._assignment()
        movable = [tp for tp in self._partitions if len(self._group.readers[tp.topic]) > 1]
        self._least = LeastLoaded(self._group, self._assigned)
        if not has_to_revoke:
            fresh = set(unassigned)
            self._balance([tp for tp in movable if tp in fresh])
        has_moved = self._balance(movable)
        after = self._assignment()
        if not is_first and has_moved and self._unevenness(after) >= self._unevenness(before):
            return before
        return after

    def _assignment(self) -> Assignment:
        return {member: list(partitions) for member, partitions in self._assigned.items()}

    def _drop_invalid(self) -> bool:
        """Drop partitions whose owner has unsubscribed or is in another rack; returns whether there were any."""
        has_to_revoke = False
        for member, assigned in self._assigned.items():
            for tp in list(assigned):
                if tp.topic in self._group.subscribed[member] and not self._racks.mismatch(member, tp):
                    self._owner[tp] = member
                else:
                    del assigned[tp]
                    has_to_revoke = True
        return has_to_revoke

    def _assign(self, partitions: Iterable[TopicPartition], *, within_rack: bool) -> list[TopicPartition]:
        """Assign each to its least loaded subscriber, and return those that have none (within a rack)."""
        least = LeastLoaded(self._group, self._assigned)
        left: list[TopicPartition] = []
        for tp in partitions:
            member = least.within_rack(tp, self._racks) if within_rack else least.reader(tp.topic)
            if member is None:
                left.append(tp)
            else:
                self._assigned[member][tp] = None
                self._owner[tp] = member
        return left

    def _balance(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions to less loaded readers until no move helps; returns whether any was moved."""
        has_moved = False
        moves = True
        while moves:
            moves = False
            for tp in partitions:
                if (target := self._better_owner(tp)) is not None:
                    self._move(self._movements.better(tp, self._owner[tp], target), target)
                    moves = has_moved = True
        return has_moved

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The member that had the partition in an older generation, else the least loaded one; None if it has no lower
        load.
        """
        load_max = len(self._assigned[self._owner[tp]]) - 2
        former = self._former.get(tp)
        if (
            former is not None
            and len(self._assigned[former]) <= load_max
            and tp.topic in self._group.subscribed[former]
        ):
            return former
        least = self._least.reader(tp.topic)
        return least if len(self._assigned[least]) <= load_max else None

    def _move(self, tp: TopicPartition, target: str) -> None:
        source = self._owner[tp]
        self._movements.record(tp, source, target)
        del self._assigned[source][tp]
        self._assigned[target][tp] = None
        self._owner[tp] = target
        self._least.fell(source)

    def _unevenness(self, assignment: Mapping[str, Sequence[TopicPartition]]) -> int:
        """Sum of the differences in load over all pairs of members that could have others, as Java scores a balance."""
        loads = sorted(len(assigned) for member, assigned in assignment.items() if self._has_rivals(member))
        # In sorted order the load at index i is added i times and taken away len - 1 - i times.
        return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))

    def _has_rivals(self, member: str) -> bool:
        return any(len(self._group.readers[topic]) > 1 for topic in self._group.subscribed[member])
