"""Metrics as monitoring systems collect them: in base units, with kinds, labels and whole histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = [
    "BYTES",
    "MILLISECONDS",
    "NANOSECONDS",
    "NUMBER",
    "OTHER",
    "SECONDS",
    "Buckets",
    "Family",
    "Kind",
    "Point",
    "Unit",
    "family_name",
]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
"""A counter is a total that only grows until its client ends."""

OTHER: Final = "(other)"
"""The value of a label for all that are beyond the permitted number; no topic can have this name."""


class Unit(NamedTuple):
    """What a value counts: its symbol in UCUM, the last word of a family's name, and its size in base units."""

    symbol: str
    word: str
    scale: float


NUMBER: Final = Unit("1", "", 1.0)
BYTES: Final = Unit("By", "bytes", 1.0)
SECONDS: Final = Unit("s", "seconds", 1.0)
MILLISECONDS: Final = Unit("s", "seconds", 1e-3)
NANOSECONDS: Final = Unit("s", "seconds", 1e-9)

_SPELLED: Final = ("_s", "_ns")
"""How names of instruments end that say their unit."""


class Buckets(NamedTuple):
    """How values are spread."""

    bounds: tuple[float, ...]
    """The upper bound of each bucket, which is included."""
    counts: tuple[int, ...]
    """One more than `bounds`: the last one counts the values above all bounds. No count includes another."""
    total: float
    """The sum of all values."""


class Point(NamedTuple):
    """The value of a family for the labels, whose names are those of the family."""

    labels: Mapping[str, str]
    value: float | Buckets


class Family(NamedTuple):
    """All values of one name, in the unit's base: seconds, bytes, or a number."""

    name: str
    kind: Kind
    unit: Unit
    doc: str
    labels: tuple[str, ...]
    """The names of the labels of all points."""
    points: tuple[Point, ...]
    """There is no point where there is no value yet."""


def family_name(name: str, kind: Kind, unit: Unit) -> str:
    """The name of a family: that of its instrument, with the base unit, and for counters `_total`, at the end.

    https://prometheus.io/docs/practices/naming/
    """
    total = kind == "counter"
    stem = "_".join("bytes" if word == "byte" else word for word in name.removesuffix("_total").split("_"))
    if unit.word and unit.word not in stem.split("_"):
        ending = next((ending for ending in _SPELLED if stem.endswith(ending)), "")
        stem = f"{stem.removesuffix(ending)}_{unit.word}"
    return f"{stem}_total" if total else stem
