"""Measures assignments: the balance of one, and the moves between two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from aioprod.errors import UsageError
from aioprod.group.assignors.java_order import text_order
from aioprod.types import TopicPartition

__all__ = ["Balance", "Cause", "Comparison", "Move", "Owned", "Sizes", "balance", "compare", "skew"]

Owned: TypeAlias = Mapping[str, Iterable[TopicPartition]]
"""The partitions of each member, as assignors return them."""

Sizes: TypeAlias = Mapping[TopicPartition, int] | Mapping[TopicPartition, float]
"""The size of each partition: bytes, records a second, or whatever is to be even; from 0 to `_SIZE_MAX`."""

_SIZE_MAX: Final = 2**63 - 1
"""The largest size of a partition: the sum of any number of them is finite."""

ROWS_SHOWN: Final = 40
"""A table with more rows shows its first and its last ones."""

Cause: TypeAlias = Literal["left", "joined", "balance"]


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that moved from one member to another."""

    partition: TopicPartition
    source: str
    target: str
    size: float
    """1 where no sizes are given."""
    cause: Cause
    """`left` if the source has left the group, else `joined` if the target is new in it, else `balance`."""


@dataclass(frozen=True)
class Balance:
    """The balance of one assignment; members are in the order in which assignors sort them.

    A member without partitions counts: its load is 0. Without members all measures are 0, but for `skew`, which is 1.
    """

    owned: Mapping[str, tuple[TopicPartition, ...]]
    """Each member's partitions, in order of topic and partition."""
    sizes: Mapping[TopicPartition, float]
    """The size of each partition: 1 where none are given (`is_weighted` is false)."""
    is_weighted: bool

    @cached_property
    def loads(self) -> Mapping[str, float]:
        """The load of each member: the sum of the sizes of its partitions, or their number where no sizes are given."""
        return MappingProxyType({member: sum(map(self.sizes.__getitem__, tps)) for member, tps in self.owned.items()})

    @property
    def largest(self) -> float:
        """The load of the busiest member: it decides how far the group falls behind."""
        return max(self.loads.values(), default=0)

    @property
    def least(self) -> float:
        """The load of the least busy member."""
        return min(self.loads.values(), default=0)

    @property
    def mean(self) -> float:
        """The mean load of a member."""
        return sum(self.loads.values()) / len(self.loads) if self.loads else 0.0

    @property
    def spread(self) -> float:
        """The largest load less the least. Counted in partitions and with equal subscriptions, 0 or 1 is the best."""
        return self.largest - self.least

    @property
    def skew(self) -> float:
        """The largest load as a multiple of the mean: 1 is even, 2 means that the busiest member has twice the mean."""
        return skew(self.loads.values())

    @cached_property
    def score(self) -> float:
        """The sum of the load differences of all pairs of members, which Java's sticky assignor minimizes."""
        # In order, the n-th load is the larger one in n pairs and the smaller one in all others that it is in.
        ordered = sorted(self.loads.values())
        last = len(ordered) - 1
        return sum(load * (2 * place - last) for place, load in enumerate(ordered))

    def table(self, *, rows_max: int | None = ROWS_SHOWN) -> str:
        """Each member's load and partitions, and the balance, as text in columns.

        Of more than `rows_max` members the busiest and the least busy ones are shown; None shows all, and all of their
        partitions.
        """
        from aioprod.group.assignors.tables import balance_text  # Imported to print only.

        return balance_text(self, rows_max)

    def __str__(self) -> str:
        return self.table()


@dataclass(frozen=True)
class Comparison:
    """Two assignments of one group, one after the other. All is in order of topic and partition."""

    moved: tuple[Move, ...]
    """The partitions with different members before and after."""
    kept: int
    """How many partitions did not move."""
    kept_size: float
    new: Mapping[TopicPartition, str]
    """Partition that had no member before -> its member."""
    gone: Mapping[TopicPartition, str]
    """Partition that has no member any more -> its last one. It was deleted or unsubscribed, or is being revoked in the
    first round of a cooperative rebalance."""
    joined: tuple[str, ...]
    """The members that are in the second assignment only."""
    left: tuple[str, ...]
    """The members that are in the first assignment only."""
    before: Balance
    after: Balance

    @cached_property
    def moved_size(self) -> float:
        """The sum of the sizes of the moved partitions."""
        return sum(move.size for move in self.moved)

    @property
    def moved_share(self) -> float:
        """The moved part, by size, of the partitions that have a member before and after: 0 is perfectly sticky."""
        whole = self.moved_size + self.kept_size
        return self.moved_size / whole if whole else 0.0

    def moved_because(self, cause: Cause) -> int:
        """How many partitions moved for this cause."""
        return sum(move.cause == cause for move in self.moved)

    def table(self, *, rows_max: int | None = ROWS_SHOWN) -> str:
        """The moves by source and target, each member's load before and after, and both balances, as text in columns.

        Of more than `rows_max` members, or pairs of them, the first and the last ones are shown, in order of load; None
        shows all, and all of their partitions.
        """
        from aioprod.group.assignors.tables import comparison_text  # As above.

        return comparison_text(self, rows_max)

    def __str__(self) -> str:
        return self.table()


def skew(loads: Collection[float]) -> float:
    """The largest load as a multiple of the mean, 1 where there is no load."""
    return max(loads) * len(loads) / whole if (whole := sum(loads)) else 1.0


def balance(assignment: Owned, *, sizes: Sizes | None = None) -> Balance:
    """Measure the balance of an assignment.

    Raises UsageError for a partition with two members, and for one whose size is missing or invalid.
    """
    return _balance(_sorted(assignment, "The assignment"), sizes)


def compare(before: Owned, after: Owned, *, sizes: Sizes | None = None) -> Comparison:
    """Compare two assignments; `sizes` has one for each of their partitions.

    Raises UsageError for a partition that has two members in one of them, and for one whose size is missing or is no
    number from 0 to 2**63 - 1.
    """
    owned_before = _sorted(before, "The assignment before")
    owned_after = _sorted(after, "The assignment after")
    had, has = _owners(owned_before), _owners(owned_after)
    moved: list[Move] = []
    kept: list[TopicPartition] = []
    for tp in sorted(had.keys() & has.keys(), key=_order):
        source, target = had[tp], has[tp]
        if source == target:
            kept.append(tp)
            continue
        cause: Cause = "left" if source not in owned_after else "joined" if target not in owned_before else "balance"
        moved.append(Move(tp, source, target, _size(tp, sizes), cause))
    return Comparison(
        moved=tuple(moved),
        kept=len(kept),
        kept_size=sum(_size(tp, sizes) for tp in kept),
        new=MappingProxyType({tp: has[tp] for tp in sorted(has.keys() - had.keys(), key=_order)}),
        gone=MappingProxyType({tp: had[tp] for tp in sorted(had.keys() - has.keys(), key=_order)}),
        joined=tuple(member for member in owned_after if member not in owned_before),
        left=tuple(member for member in owned_before if member not in owned_after),
        before=_balance(owned_before, sizes),
        after=_balance(owned_after, sizes),
    )


def _order(tp: TopicPartition) -> tuple[bytes, int]:
    return text_order(tp.topic), tp.partition


def _sorted(assignment: Owned, what: str) -> dict[str, tuple[TopicPartition, ...]]:
    owned = {
        member: tuple(sorted((TopicPartition(*tp) for tp in assignment[member]), key=_order))
        for member in sorted(assignment, key=text_order)
    }
    twice = [tp for tp, count in Counter(tp for tps in owned.values() for tp in tps).items() if count > 1]
    if twice:
        topic, partition = min(twice)
        members = [member for member, tps in owned.items() if min(twice) in tps]
        raise UsageError(f"{what} gives partition {partition} of {topic!r} away twice: to {' and '.join(members)}.")
    return owned


def _owners(owned: Mapping[str, tuple[TopicPartition, ...]]) -> dict[TopicPartition, str]:
    return {tp: member for member, tps in owned.items() for tp in tps}


def _balance(owned: dict[str, tuple[TopicPartition, ...]], sizes: Sizes | None) -> Balance:
    of_each = {tp: _size(tp, sizes) for tps in owned.values() for tp in tps}
    return Balance(MappingProxyType(owned), MappingProxyType(of_each), sizes is not None)


def _size(tp: TopicPartition, sizes: Sizes | None) -> float:
    if sizes is None:
        return 1
    size: Any = sizes.get(tp)
    is_number = isinstance(size, Real)
    if not is_number or not 0 <= size <= _SIZE_MAX:
        raise UsageError(
            f"Partition {tp.partition} of {tp.topic!r} has the size {size!r}: each needs a number from 0 to 2**63 - 1."
        )
    weight: float = size
    return weight
