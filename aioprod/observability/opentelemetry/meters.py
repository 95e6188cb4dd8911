"""A client's metrics as instruments of OpenTelemetry, read when they are collected.

Two have the names of the conventions: `messaging.client.operation.duration` and `messaging.client.sent.messages`. The
others are those of docs/metrics.md: `aioprod.` and the name without unit and `_total`, which an exporter adds. The API
has no histogram that is read at collection, so each of ours is a count and a sum: `aioprod.request_latency.count`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final
from weakref import ref

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from aioprod import __version__
from aioprod.metrics.families import Buckets, Family
from aioprod.observability.opentelemetry import attributes as names
from aioprod.observability.reading import Observed, read_families
from aioprod.producer import Producer

__all__ = ["observe"]

_DURATION_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

_SEND: Final = {names.OPERATION: "send"}
_LABELS: Final = {"topic": names.DESTINATION}
"""Labels of families that the conventions name in another way."""


def observe(client: Observed, *, meter_provider: MeterProvider | None = None, durations: bool = False) -> None:
    """Have a producer's or member's metrics collected by a meter provider, by default the global one.

    With `durations` a producer records `messaging.client.operation.duration`, too: the SDK takes
    time for each batch then, where all else costs nothing between two collections.

    It does not keep the client alive. Call it once per client, before or after its start.
    """
    meter = metrics.get_meter("aioprod", __version__, meter_provider=meter_provider, schema_url=names.SCHEMA_URL)
    reading = _Reading(client)
    for family in client.metric_families():
        _register(meter, family, reading)
    if isinstance(client, Producer):
        _register_sent(meter, reading)
        if durations:
            _record_durations(meter, client, reading)


class _Reading:
    """The families of a client, read once for all instruments of one collection."""

    def __init__(self, client: Observed) -> None:
        self.attributes = {names.SYSTEM: "kafka", names.CLIENT_ID: client.client_id}
        self._client = ref(client)
        self._families: dict[str, Family] = {}
        self._taken: set[str] = set()

    def observations(
        self, instrument: str, family: str, value: Callable[[float | Buckets], float], more: dict[str, str]
    ) -> list[Observation]:
        """What one instrument observes; a second call for it begins another collection."""
        if not self._families or instrument in self._taken:
            client = self._client()
            self._families = {} if client is None else {one.name: one for one in read_families(client)}
            self._taken.clear()
        self._taken.add(instrument)
        if family not in self._families:
            return []
        return [
            Observation(
                value(point.value),
                self.attributes | more | {_LABELS.get(label, label): text for label, text in point.labels.items()},
            )
            for point in self._families[family].points
        ]


def _register(meter: Meter, family: Family, reading: _Reading) -> None:
    name = f"aioprod.{family.name.removesuffix('_total').removesuffix(f'_{family.unit.word}')}"
    unit = family.unit.symbol
    if family.kind == "histogram":
        for part, part_unit, value in (("count", "1", _count), ("sum", unit, _total)):
            read = _reader(reading, f"{name}.{part}", family.name, value)
            meter.create_observable_counter(f"{name}.{part}", [read], part_unit, family.doc)
        return
    read = _reader(reading, name, family.name, _number)
    if family.kind == "counter":
        meter.create_observable_counter(name, [read], unit, family.doc)
    else:
        meter.create_observable_gauge(name, [read], unit, family.doc)


def _register_sent(meter: Meter, reading: _Reading) -> None:
    name = "messaging.client.sent.messages"
    read = _reader(reading, name, "topic_record_send_total", _number, _SEND)
    meter.create_observable_counter(name, [read], "{message}", "Messages that the producer attempted to send.")


def _record_durations(meter: Meter, producer: Producer, reading: _Reading) -> None:
    durations = meter.create_histogram(
        "messaging.client.operation.duration",
        "s",
        "Duration from the making of a batch of messages to its acknowledgement.",
        explicit_bucket_boundaries_advisory=_DURATION_BOUNDS,
    )
    attributes = reading.attributes | _SEND

    def record(duration_ms: float) -> None:
        durations.record(duration_ms / 1000, attributes)

    producer._engine.meters.metrics.record_delivery_time.listener = record


def _reader(
    reading: _Reading,
    instrument: str,
    family: str,
    value: Callable[[float | Buckets], float],
    more: dict[str, str] | None = None,
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: reading.observations(instrument, family, value, more or {})


def _number(value: float | Buckets) -> float:
    assert not isinstance(value, Buckets)
    return value


def _count(value: float | Buckets) -> float:
    assert isinstance(value, Buckets)
    return sum(value.counts)


def _total(value: float | Buckets) -> float:
    assert isinstance(value, Buckets)
    return value.total
