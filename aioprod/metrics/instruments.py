"""Counters, gauges and histograms, cheap enough to be always on: updated per batch and request, not per record.

Everything counts from the start of its client; there is no clock here, so rates are the difference of two snapshots
over the time between them.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Final, Protocol

from aioprod.metrics import native
from aioprod.metrics.families import NUMBER, Buckets, Family, Kind, Point, Unit, family_name

__all__ = ["Counter", "Gauge", "Histogram", "Instrument"]

_BUCKETS_PER_DOUBLING: Final = 32
_LOWEST: Final = -10 * _BUCKETS_PER_DOUBLING
_HIGHEST: Final = 24 * _BUCKETS_PER_DOUBLING
"""The buckets that are counted in an array: from a microsecond in ms to 16 MB. The others, rare ones, are in a dict."""
_BUCKET_OF_ZERO: Final = -1_000_000
"""The bucket of the value 0: no other float is so many buckets below 1."""


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
    """A value that is read for each snapshot; None is not a value. `kind` is "counter" for one that only grows."""

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
        "_high",
        "_low",
        "_rare",
        "_usual",
        "_zeros",
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
        self._zeros = 0
        self._usual: array[int] | None = None
        self._rare: dict[int, int] = {}

    def record(self, value: float, count: int = 1) -> None:
        """Take a value, not negative, `count` times, in constant time."""
        self.count += count
        self.total += value * count
        if value > self.max:
            self.max = value
        # Rounded up: a bucket includes its upper bound.
        bucket = native.whole(math.ceil(math.log2(value) * _BUCKETS_PER_DOUBLING)) if value > 0 else _BUCKET_OF_ZERO
        if _LOWEST <= bucket < _HIGHEST and self._usual is not None:
            self._usual[bucket - _LOWEST] += count
        else:
            self._count(bucket, count)
        if self.listener is not None:
            for _ in range(count):
                self.listener(value)

    def add(self, other: Histogram) -> None:
        """Take all values of another one; the listener does not get them."""
        self.count += other.count
        self.total += other.total
        self.max = max(self.max, other.max)
        for bucket, count in other._buckets():
            self._count(bucket, count)

    def _count(self, bucket: int, count: int) -> None:
        if bucket == _BUCKET_OF_ZERO:
            self._zeros += count
        elif _LOWEST <= bucket < _HIGHEST:
            if self._usual is None:
                self._usual = array("q", bytes(8 * (_HIGHEST - _LOWEST)))
            self._usual[bucket - _LOWEST] += count
        else:
            self._rare[bucket] = self._rare.get(bucket, 0) + count

    def _buckets(self) -> list[tuple[int, int]]:
        """The buckets that have values, with their number, in ascending order."""
        found = list(self._rare.items())
        if self._zeros:
            found.append((_BUCKET_OF_ZERO, self._zeros))
        if self._usual is not None:
            found += [(at + _LOWEST, count) for at, count in enumerate(self._usual) if count]
        found.sort()
        return found

    @property
    def average(self) -> float:
        """The mean of all values."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` of all values don't exceed."""
        wanted = math.ceil(self.count * percent / 100)
        seen = 0
        for bucket, count in self._buckets():
            seen += count
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
        counts = [0] * (self._high - self._low + 2)
        for bucket, count in self._buckets():
            # The power of two at or above the bucket's upper bound.
            power = -(-bucket // _BUCKETS_PER_DOUBLING)
            counts[min(max(power - self._low, 0), len(counts) - 1)] += count
        bounds = tuple(self.unit.scale * 2.0**power for power in range(self._low, self._high + 1))
        return Buckets(bounds, tuple(counts), self.total * self.unit.scale)

    def family(self) -> Family:
        """Return the buckets in base units."""
        return _single(self.name, "histogram", self.unit, self.doc, self.buckets())


def _middle(bucket: int) -> float:
    return 0.0 if bucket == _BUCKET_OF_ZERO else 2.0 ** ((bucket - 0.5) / _BUCKETS_PER_DOUBLING)


def _single(name: str, kind: Kind, unit: Unit, doc: str, value: float | Buckets | None) -> Family:
    if value is None:
        points: tuple[Point, ...] = ()
    else:
        points = (Point({}, value if isinstance(value, Buckets) else value * unit.scale),)
    return Family(family_name(name, kind, unit), kind, unit, doc, (), points)
