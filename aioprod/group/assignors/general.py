"""Sticky assignment where members read different topics: keep what can be kept, then move until it is balanced."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

from aioprod.group.assignors.claims import Claims
from aioprod.group.assignors.java_order import text_order
from aioprod.group.assignors.model import Assignment, Group
from aioprod.group.assignors.movements import Movements
from aioprod.group.assignors.racks import Racks
from aioprod.types import TopicPartition

__all__ = ["General"]


class _ByLoad:
    """Members in the order of how many partitions they have, then of their names."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._order = sorted((len(partitions), text_order(member), member) for member, partitions in assignment.items())

    def __iter__(self) -> Iterator[str]:
        return (member for _, _, member in self._order)

    def discard(self, member: str) -> None:
        """Take a member out, before its load changes."""
        entry = (len(self._assignment[member]), text_order(member), member)
        del self._order[bisect_left(self._order, entry)]

    def add(self, member: str) -> None:
        """Put a member in, with the load that it has now."""
        insort(self._order, (len(self._assignment[member]), text_order(member), member))

    def loads(self) -> tuple[int, int]:
        """The least and the largest number of partitions."""
        return self._order[0][0], self._order[-1][0]


class General:
    """One assignment on its way."""

    def __init__(self, group: Group, claims: Claims) -> None:
        self._group = group
        self._racks = Racks(group)
        self._former = claims.former
        self._assignment = claims.owned
        self._owner: dict[TopicPartition, str] = {}
        self._movements = Movements()
        self._least: dict[str, str] = {}
        self._uneven: tuple[TopicPartition, str] | None = None
        order = sorted(group.topics, key=lambda topic: (len(group.readers[topic]), text_order(topic)))
        self._partitions = [tp for topic in order for tp in group.topics[topic]]

    def build(self) -> Assignment:
        """The assignment, as balanced as moving single partitions can make it."""
        has_to_revoke = self._drop_what_cannot_stay()
        unassigned = [tp for tp in self._partitions if tp not in self._owner]
        self._by_load = _ByLoad(self._assignment)
        is_first = self._by_load.loads()[1] == 0
        self._assign(unassigned)

        movable = [tp for tp in self._partitions if len(self._group.readers[tp.topic]) > 1]
        fixed = [member for member in self._assignment if not self._can_change(member)]
        for member in fixed:
            self._by_load.discard(member)
        before = {member: list(partitions) for member, partitions in self._assignment.items()}
        if not has_to_revoke:
            fresh = set(unassigned)
            self._balance([tp for tp in movable if tp in fresh])
        has_moved = self._balance(movable)
        # The members that can't change add the same to both scores.
        if not is_first and has_moved and _unevenness(self._assignment, fixed) >= _unevenness(before, fixed):
            return before
        return self._assignment

    def _drop_what_cannot_stay(self) -> bool:
        """Keep what its owner still reads, in its rack; returns whether anything was taken away."""
        has_to_revoke = False
        for member, owned in self._assignment.items():
            kept = [
                tp
                for tp in owned
                if tp.topic in self._group.subscribed[member] and not self._racks.mismatch(member, tp)
            ]
            has_to_revoke = has_to_revoke or len(kept) < len(owned)
            self._assignment[member] = kept
            self._owner.update(dict.fromkeys(kept, member))
        return has_to_revoke

    def _assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Give each to the least loaded of its readers, within racks first."""
        if self._racks.in_use:
            partitions = [tp for tp in partitions if not self._assign_one(tp, within_rack=True)]
        for tp in partitions:
            self._assign_one(tp, within_rack=False)

    def _assign_one(self, tp: TopicPartition, *, within_rack: bool) -> bool:
        for member in self._by_load:
            if tp.topic in self._group.subscribed[member] and not (within_rack and self._racks.mismatch(member, tp)):
                self._by_load.discard(member)
                self._assignment[member].append(tp)
                self._owner[tp] = member
                self._by_load.add(member)
                return True
        return False

    def _can_change(self, member: str) -> bool:
        """Whether it lacks a partition that it could have, or has one that another member could have."""
        topics = self._group.subscribed[member]
        if len(self._assignment[member]) < sum(len(self._group.topics[topic]) for topic in topics):
            return True
        return any(len(self._group.readers[tp.topic]) > 1 for tp in self._assignment[member])

    def _balance(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions to less loaded readers until no move helps; returns whether any was moved."""
        has_moved = False
        moves = True
        while moves:
            moves = False
            for tp in partitions:
                if self._is_balanced():
                    break
                if (target := self._better_owner(tp)) is not None:
                    self._move(self._movements.better(tp, self._owner[tp], target), target)
                    moves = has_moved = True
        return has_moved

    def _better_owner(self, tp: TopicPartition) -> str | None:
        """The member that had it in an older generation, else the least loaded one; None if neither has less."""
        load = len(self._assignment[self._owner[tp]])
        former = self._former.get(tp)
        if former is not None and load > len(self._assignment[former]) + 1 and self._reads(former, tp):
            return former
        least = self._least_loaded(tp.topic)
        return least if load > len(self._assignment[least]) + 1 else None

    def _reads(self, member: str, tp: TopicPartition) -> bool:
        return tp.topic in self._group.subscribed[member]

    def _least_loaded(self, topic: str) -> str:
        least = self._least.get(topic)
        if least is None:
            least = next(member for member in self._by_load if topic in self._group.subscribed[member])
            self._least[topic] = least
        return least

    def _is_balanced(self) -> bool:
        """Whether no reader of a topic has two partitions less than the owner of one of the topic's partitions."""
        least, most = self._by_load.loads()
        if least >= most - 1:
            return True
        # Most moves leave the last found imbalance in place: it is looked at before a new one is searched for.
        if self._uneven is None or not self._is_uneven(*self._uneven):
            self._uneven = self._imbalance()
        return self._uneven is None

    def _is_uneven(self, tp: TopicPartition, member: str) -> bool:
        return len(self._assignment[self._owner[tp]]) > len(self._assignment[member]) + 1

    def _imbalance(self) -> tuple[TopicPartition, str] | None:
        for topic, partitions in self._group.topics.items():
            if len(self._group.readers[topic]) > 1:
                least = self._least_loaded(topic)
                for tp in partitions:
                    if self._is_uneven(tp, least):
                        return tp, least
        return None

    def _move(self, tp: TopicPartition, target: str) -> None:
        source = self._owner[tp]
        self._by_load.discard(source)
        self._by_load.discard(target)
        self._movements.record(tp, source, target)
        self._assignment[source].remove(tp)
        self._assignment[target].append(tp)
        self._owner[tp] = target
        self._by_load.add(target)
        self._by_load.add(source)
        self._least.clear()


def _unevenness(assignment: Assignment, without: Sequence[str]) -> int:
    """Sum of the differences in load over all pairs of members, as Java scores a balance."""
    left_out = set(without)
    loads = sorted(len(partitions) for member, partitions in assignment.items() if member not in left_out)
    # In sorted order the load at index i is added i times and taken away len - 1 - i times.
    return sum(load * (2 * index - len(loads) + 1) for index, load in enumerate(loads))
