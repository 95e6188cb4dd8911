"""The instruments of a client by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from aioprod.metrics.families import NUMBER, Family, Kind, Unit
from aioprod.metrics.instruments import Counter, Gauge, Histogram, Instrument

__all__ = ["Metrics", "Reporter"]

_Held = TypeVar("_Held", bound=Instrument)


class Reporter(Protocol):
    """Gets all metrics once in each `metrics.sample.window.ms`; may have `configure(config)` and `close()` too."""

    def report(self, snapshot: Mapping[str, float]) -> None:
        """Take the present values; runs on the event loop, so it must be quick."""


class Metrics:
    """A registry of instruments; each name is used once."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}

    def counter(self, name: str, doc: str, unit: Unit = NUMBER) -> Counter:
        """Make a counter and hold it; raises ValueError for a name that is taken."""
        return self._hold(Counter(name, doc, unit))

    def gauge(
        self,
        name: str,
        doc: str,
        read: Callable[[], float | None] = lambda: 0,
        unit: Unit = NUMBER,
        kind: Kind = "gauge",
    ) -> Gauge:
        """Make a gauge and hold it; raises ValueError for a name that is taken."""
        return self._hold(Gauge(name, doc, read, unit, kind))

    def total(self, name: str, doc: str, unit: Unit = NUMBER) -> Gauge:
        """Make a gauge of a total that another part counts; raises ValueError for a name that is taken."""
        return self._hold(Gauge(name, doc, unit=unit, kind="counter"))

    def histogram(
        self,
        name: str,
        doc: str,
        parts: tuple[str, ...] = ("avg", "max"),
        unit: Unit = NUMBER,
        low: int = 0,
        high: int = 16,
    ) -> Histogram:
        """Make a histogram and hold it; raises ValueError for a name that is taken."""
        return self._hold(Histogram(name, doc, parts, unit, low, high))

    def snapshot(self) -> dict[str, float]:
        """Return every present value by name."""
        values: dict[str, float] = {}
        for instrument in self._instruments.values():
            values |= instrument.readings()
        return values

    def families(self) -> list[Family]:
        """Return what monitoring systems collect: every name once, those without a value too."""
        return [instrument.family() for instrument in self._instruments.values()]

    def describe(self) -> dict[str, str]:
        """Return the meaning of every name in a snapshot."""
        return {name: instrument.doc for instrument in self._instruments.values() for name in instrument.names()}

    def snapshot_names(self) -> dict[str, tuple[str, ...]]:
        """Return under which names a snapshot has the values of each family."""
        return {instrument.family().name: instrument.names() for instrument in self._instruments.values()}

    def _hold(self, instrument: _Held) -> _Held:
        if instrument.name in self._instruments:
            raise ValueError(f"There is a metric named {instrument.name!r} already.")
        self._instruments[instrument.name] = instrument
        return instrument
