"""The assignors of Java's consumer as pure functions of partitions and subscriptions, and measures of assignments."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aioprod.group.assignors.comparison import Balance, Comparison, Move, balance, compare, skew
from aioprod.group.assignors.model import Assignor, Subscription
from aioprod.group.assignors.range import RangeAssignor
from aioprod.group.assignors.round_robin import RoundRobinAssignor
from aioprod.group.assignors.sticky.assignor import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "ASSIGNORS",
    "Assignor",
    "Balance",
    "Comparison",
    "CooperativeStickyAssignor",
    "Move",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "balance",
    "compare",
    "skew",
]

_EACH: Final[tuple[Assignor, ...]] = (
    RangeAssignor(),
    RoundRobinAssignor(),
    StickyAssignor(),
    CooperativeStickyAssignor(),
)

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({assignor.name: assignor for assignor in _EACH})
"""The assignors by name; the names are Java's."""
