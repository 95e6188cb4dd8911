"""What a plan found out, in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aioprod.console.tables import key_text
from aioprod.group.assignors import skew

__all__ = ["Growth", "HotKey", "Layout", "PlanReport", "Switch"]


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the keys with most rows."""

    key: bytes | None
    """None stands for the rows without a key."""
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One partitioner at one number of partitions."""

    partitioner: str
    count: int
    rows: tuple[int, ...]
    """Of each partition."""
    bytes: tuple[int, ...]
    """Of each partition."""
    keys: tuple[int, ...]
    """How many different ones each partition has."""
    spread_rows: int = 0
    """Rows that no key puts anywhere: each partition has an equal share of them."""
    largest_rows: int = 0
    """Rows of the largest key that decides on a partition."""
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """How many rows each member reads, by assignor."""

    @property
    def skew(self) -> float:
        """Rows of the busiest partition by the mean of all: 1 is even."""
        return skew(self.rows)

    @property
    def bytes_skew(self) -> float:
        """The same of the bytes."""
        return skew(self.bytes)

    @property
    def busiest_share(self) -> float:
        """The part of all rows that the busiest partition has."""
        return max(self.rows) / sum(self.rows)

    @property
    def bound_share(self) -> float:
        """The part of all rows that some partition has at any count: one key is never split."""
        return self.largest_rows / sum(self.rows)

    def member_skew(self, assignor: str) -> float:
        """Rows of the busiest member by the mean of all members."""
        return skew(self.members[assignor])


@dataclass(frozen=True, slots=True)
class Growth:
    """What changes its partition, and loses its order there, when `count` partitions become `to`."""

    partitioner: str
    count: int
    to: int
    rows: int
    keys: int


@dataclass(frozen=True, slots=True)
class Switch:
    """What changes its partition when `partitioner` is replaced by `to`."""

    partitioner: str
    to: str
    count: int
    rows: int
    keys: int


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What `plan` found: totals, a result for each partitioner and count, and what it recommends."""

    key: str
    value: str
    """What the bytes of a value are of."""
    rows: int
    """Of all the data."""
    bytes: int
    """Of all keys and values."""
    keys: int
    """How many different ones there are."""
    keyless_rows: int
    hot_keys: tuple[HotKey, ...]
    results: tuple[Layout, ...]
    growth: tuple[Growth, ...]
    switches: tuple[Switch, ...]
    consumers: int | None
    partitioner: str
    """The recommended one."""
    count: int
    """The recommended one."""
    recommendation: str
    """Why."""

    def result(self, partitioner: str, count: int) -> Layout:
        """The result of one partitioner and count; KeyError if it was not counted."""
        for layout in self.results:
            if (layout.partitioner, layout.count) == (partitioner, count):
                return layout
        raise KeyError((partitioner, count))

    def to_json(self) -> str:
        """All of it as JSON text; the result of a partitioner and count is an object in the list `results`."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts, lists, numbers and texts."""
        return {
            "key": self.key,
            "value": self.value,
            "rows": self.rows,
            "bytes": self.bytes,
            "keys": self.keys,
            "keyless_rows": self.keyless_rows,
            "consumers": self.consumers,
            "recommendation": {"partitioner": self.partitioner, "count": self.count, "text": self.recommendation},
            "hot_keys": [
                {
                    "key": None if hot.key is None else key_text(hot.key, at_most=None),
                    "rows": hot.rows,
                    "bytes": hot.bytes,
                    "share": hot.rows / self.rows,
                }
                for hot in self.hot_keys
            ],
            "results": [
                {
                    "partitioner": layout.partitioner,
                    "count": layout.count,
                    "rows": list(layout.rows),
                    "bytes": list(layout.bytes),
                    "keys": list(layout.keys),
                    "spread_rows": layout.spread_rows,
                    "max_over_mean_rows": layout.skew,
                    "max_over_mean_bytes": layout.bytes_skew,
                    "bound_share": layout.bound_share,
                    "members": {name: list(loads) for name, loads in layout.members.items()},
                }
                for layout in self.results
            ],
            "growth": [
                {"partitioner": one.partitioner, "from": one.count, "to": one.to, "rows": one.rows, "keys": one.keys}
                for one in self.growth
            ],
            "switches": [
                {"from": one.partitioner, "to": one.to, "count": one.count, "rows": one.rows, "keys": one.keys}
                for one in self.switches
            ],
        }
