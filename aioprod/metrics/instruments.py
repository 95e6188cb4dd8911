"""Counters, gauges and histograms, cheap enough to be always on: updated per batch and request, not per record.

Everything counts from the start of its client; there is no clock here, so rates are the difference of two snapshots
over the time between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from aioprod.metrics.families import NUMBER, Buckets, Family, Kind, Point, Unit, family_name

__all__ = ["Counter", "Gauge", "Histogram", "Instrument"]

BUCKETS_PER_DOUBLING = 32
BUCKET_OF_ONE = 2**20
"""No float is so many buckets below 1: the numbers of all are over 0, which is that of zero."""


class Instrument(Protocol):
    """What a registry holds: a name, its meaning, and what it adds to a snapshot."""

    @property
    def name(self) -> str:
        """The name, or the first part of its names."""

    @property
    def doc(self) -> str:
        """The meaning in a sentence; `unit` has the unit."""

    def names(self) -> tuple[str, ...]:
        """Return the names that it has in snapshots."""

    def readings(self) -> dict[str, float]:
        """Return the present values by their full names."""

    def family(self) -> Family:
        """Return the present value in base units."""


class Counter:
    """A total that only grows."""

    __slots__ = ("doc", "name", "unit", "value")

    def __init__(self, name: str, doc: str, unit: Unit = NUMBER) -> None:
        self.name = name
        self.doc = doc
        self.unit = unit
        self.value = 0

    def add(self, count: int = 1) -> None:
        """Count `count` more."""
        self.value += count

    def names(self) -> tuple[str, ...]:
        """Return the counter's name."""
        return (self.name,)

    def readings(self) -> dict[str, float]:
        """Return the total under the counter's name."""
        return {self.name: self.value}

    def family(self) -> Family:
        """Return the total in base units."""
        return _single(self.name, "counter", self.unit, self.doc, self.value)


class Gauge:
    """A value that is read for each snapshot; None is no value. `kind` is "counter" for one that only grows."""

    __slots__ = ("_read", "doc", "kind", "name", "unit")

    def __init__(
        self,
        name: str,
        doc: str,
        read: Callable[[], float | None] = lambda: 0,
        unit: Unit = NUMBER,
        kind: Kind = "gauge",
    ) -> None:
        self.name = name
        self.doc = doc
        self.unit = unit
        self.kind = kind
        self._read = read

    def observe(self, read: Callable[[], float | None]) -> None:
        """Read the value from the part that has it, from now on."""
        self._read = read

    def names(self) -> tuple[str, ...]:
        """Return the gauge's name."""
        return (self.name,)

    def readings(self) -> dict[str, float]:
        """Return the present value, if there is one, under the gauge's name."""
        value = self._read()
        return {} if value is None else {self.name: value}

    def family(self) -> Family:
        """Return the present value, if there is one, in base units."""
        return _single(self.name, self.kind, self.unit, self.doc, self._read())


class Histogram:
    """How values are spread: average and maximum are exact, percentiles within 1.1 % of a recorded value.

    `parts` names what goes into a snapshot: "avg", "max" or a percentile such as "p99". Without values all are 0.
    The bounds of a family's buckets are the powers of two from 2**`low` to 2**`high` of the unit. A `listener` gets
    each value, in the unit, when it is recorded.
    """

    __slots__ = (
        "_bucket",
        "_buckets",
        "_high",
        "_in_bucket",
        "_low",
        "count",
        "doc",
        "listener",
        "max",
        "name",
        "parts",
        "total",
        "unit",
    )

    def __init__(
        self,
        name: str,
        doc: str,
        parts: tuple[str, ...] = ("avg", "max"),
        unit: Unit = NUMBER,
        low: int = 0,
        high: int = 16,
    ) -> None:
        self.name = name
        self.doc = doc
        self.parts = parts
        self.unit = unit
        self.listener: Callable[[float], object] | None = None
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        self._low = low
        self._high = high
        self._buckets: dict[int, int] = {}
        # Values in a row are often in the same bucket: they are counted here first.
        self._bucket = 0
        self._in_bucket = 0

    def record(self, value: float) -> None:
        """Take one value, not negative, in constant time."""
        self.count += 1
        self.total += value
        if value > self.max:
            self.max = value
        # Rounded up: a bucket includes its upper bound.
        bucket = 2 * BUCKET_OF_ONE - int(BUCKET_OF_ONE - math.log2(value) * BUCKETS_PER_DOUBLING) if value > 0 else 0
        if bucket != self._bucket:
            self._count_bucket()
            self._bucket = bucket
        self._in_bucket += 1
        if self.listener is not None:
            self.listener(value)

    def _count_bucket(self) -> None:
        self._buckets[self._bucket] = self._buckets.get(self._bucket, 0) + self._in_bucket
        self._in_bucket = 0

    @property
    def average(self) -> float:
        """The mean of all values."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` of all values don't exceed."""
        self._count_bucket()
        wanted = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(_middle(bucket), self.max)
        return self.max

    def names(self) -> tuple[str, ...]:
        """Return the histogram's name followed by that of each part."""
        return tuple(f"{self.name}_{part}" for part in self.parts)

    def readings(self) -> dict[str, float]:
        """Return each part under the histogram's name followed by the part's."""
        return {f"{self.name}_{part}": self._part(part) for part in self.parts}

    def _part(self, part: str) -> float:
        if part == "avg":
            return self.average
        return self.max if part == "max" else self.percentile(float(part[1:]))

    def buckets(self) -> Buckets:
        """Return how many values lie between the bounds, in base units."""
        self._count_bucket()
        counts = [0] * (self._high - self._low + 2)
        for bucket, count in self._buckets.items():
            # The power of two at or above the bucket's upper bound.
            power = -((BUCKET_OF_ONE - bucket) // BUCKETS_PER_DOUBLING) if bucket else self._low
            counts[min(max(power - self._low, 0), len(counts) - 1)] += count
        bounds = tuple(self.unit.scale * 2.0**power for power in range(self._low, self._high + 1))
        return Buckets(bounds, tuple(counts), self.total * self.unit.scale)

    def family(self) -> Family:
        """Return the buckets in base units."""
        return _single(self.name, "histogram", self.unit, self.doc, self.buckets())


def _middle(bucket: int) -> float:
    return 2.0 ** ((bucket - BUCKET_OF_ONE - 0.5) / BUCKETS_PER_DOUBLING) if bucket else 0.0


def _single(name: str, kind: Kind, unit: Unit, doc: str, value: float | Buckets | None) -> Family:
    if value is None:
        points: tuple[Point, ...] = ()
    else:
        points = (Point({}, value if isinstance(value, Buckets) else value * unit.scale),)
    return Family(family_name(name, kind, unit), kind, unit, doc, (), points)
