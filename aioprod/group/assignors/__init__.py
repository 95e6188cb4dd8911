"""Who reads what: the assignors of Java's consumer, as pure functions of partitions and subscriptions."""

from __future__ import annotations

from aioprod.group.assignors.model import Assignor, Subscription
from aioprod.group.assignors.range import RangeAssignor
from aioprod.group.assignors.round_robin import RoundRobinAssignor
from aioprod.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
]
