"""What is measured: round trips, partitions and values, and which contenders take part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count, product
from typing import Any, Final

from aioprod.routing.hashes import murmur2_partition
from aioprod.testing.kafka.jars import DEFAULT_VERSION

__all__ = [
    "BY_HAND",
    "CONTENDERS",
    "PARTITIONS",
    "ROUND_TRIPS_MS",
    "VALUE_SIZES",
    "Cell",
    "Contender",
    "by_hand",
    "cells",
]

ROUND_TRIPS_MS: Final = (0.2, 5.0, 50.0, 250.0, 500.0)
PARTITIONS: Final = (1, 12, 1000)
VALUE_SIZES: Final = (100, 10_000)
_DELAYED_FROM_MS: Final = 1.0
"""Event loops wait no shorter time than this; shorter round trips are those of the loop itself."""
_WARM_UP_S: Final = 1.0
_WARM_UP_ROUND_TRIPS: Final = 2


@dataclass(frozen=True, slots=True)
class Cell:
    """One place of the table."""

    round_trip_ms: float
    partitions: int
    value_size: int

    @property
    def title(self) -> str:
        """In words."""
        partitions = "1 partition" if self.partitions == 1 else f"{self.partitions:,} partitions"
        return f"{self.round_trip_ms:g} ms, {partitions}, {self.value_size:,} B"

    @property
    def topic(self) -> str:
        """Its topic's name."""
        return f"distance-{self.round_trip_ms:g}-{self.partitions}-{self.value_size}"

    @property
    def delay_s(self) -> float:
        """What is added to the time that the machine takes itself."""
        return self.round_trip_ms / 1000 if self.round_trip_ms >= _DELAYED_FROM_MS else 0.0

    @property
    def warm_up_s(self) -> float:
        """What passes before it is measured: a second, or two round trips."""
        return max(_WARM_UP_S, _WARM_UP_ROUND_TRIPS * self.round_trip_ms / 1000)

    @property
    def keys(self) -> tuple[str, ...]:
        """One for each partition, by Java's partitioner, in the order of the partitions; none for one partition."""
        if self.partitions == 1:
            return ()
        found: dict[int, str] = {}
        for number in count():
            found.setdefault(murmur2_partition(b"%d" % number, self.partitions), str(number))
            if len(found) == self.partitions:
                break
        return tuple(found[index] for index in range(self.partitions))


def cells(round_trips_ms: Iterable[float], partitions: Iterable[int], value_sizes: Iterable[int]) -> list[Cell]:
    """All cells of these."""
    return [Cell(*one) for one in product(round_trips_ms, partitions, value_sizes)]


@dataclass(frozen=True, slots=True)
class Contender:
    """`client` with its own names of `settings`; `title` stands in the table, as does what its records `may` suffer.

    Of those with the same title only the best of a cell is shown.
    """

    name: str
    title: str
    client: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    may: str = ""


CONTENDERS: Final = (
    Contender("aioprod", "aioprod", "aioprod"),
    Contender("java", f"Java {DEFAULT_VERSION}", "java"),
    Contender("idempotent", "confluent-kafka, idempotent", "confluent", {"enable.idempotence": True}),
    Contender("confluent", "confluent-kafka", "confluent", {}, "be doubled, change places"),
)
BY_HAND: Final[tuple[Mapping[str, Any], ...]] = (
    {"batch_size": 64 * 1024},
    {"batch_size": 256 * 1024, "max_request_size": 4 * 1024 * 1024},
    {"batch_size": 256 * 1024, "max_request_size": 4 * 1024 * 1024, "linger_ms": 100, "adaptive_linger": False},
    {"batch_size": 1_000_000},
    {"batch_size": 1_000_000, "max_request_size": 16 * 1024 * 1024},
)
"""Settings of aioprod that may be better than the defaults. A broker takes batches of 1,048,588 bytes."""


def by_hand(given: Iterable[Mapping[str, Any]]) -> list[Contender]:
    """Contenders with these settings of aioprod."""
    return [
        Contender(f"by-hand-{number}", "aioprod, best by hand", "aioprod", settings)
        for number, settings in enumerate(given, start=1)
    ]
