"""Counters, gauges and histograms, cheap enough to be always on: updated per batch and request, not per record.

Names are those of Java's producer metrics, in snake_case. Everything counts from the start of the producer; there is no
clock here, so rates are the difference of two snapshots over the time between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

__all__ = ["Counter", "Gauge", "Histogram", "Instrument", "Metrics", "ProducerMetrics", "Reporter"]

_Held = TypeVar("_Held", bound="Instrument")

BUCKETS_PER_DOUBLING = 32
BUCKET_OF_ONE = 2**20
"""No float is so many buckets below 1: the numbers of all are over 0, which is that of zero."""


class Reporter(Protocol):
    """Gets all metrics once in each `metrics.sample.window.ms`; may have `configure(config)` and `close()` too."""

    def report(self, snapshot: Mapping[str, float]) -> None:
        """Take the present values; runs on the event loop, so it must be quick."""


class Instrument(Protocol):
    """What a registry holds: a name, its meaning, and what it adds to a snapshot."""

    @property
    def name(self) -> str:
        """The name, or the first part of its names."""

    @property
    def doc(self) -> str:
        """The meaning in a sentence, with the unit."""

    def readings(self) -> dict[str, float]:
        """Return the present values by their full names."""


class Counter:
    """A total that only grows."""

    __slots__ = ("doc", "name", "value")

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.doc = doc
        self.value = 0

    def add(self, count: int = 1) -> None:
        """Count `count` more."""
        self.value += count

    def readings(self) -> dict[str, float]:
        """Return the total under the counter's name."""
        return {self.name: self.value}


class Gauge:
    """A value that is read for each snapshot; None is no value."""

    __slots__ = ("_read", "doc", "name")

    def __init__(self, name: str, doc: str, read: Callable[[], float | None] = lambda: 0) -> None:
        self.name = name
        self.doc = doc
        self._read = read

    def observe(self, read: Callable[[], float | None]) -> None:
        """Read the value from the part that has it, from now on."""
        self._read = read

    def readings(self) -> dict[str, float]:
        """Return the present value, if there is one, under the gauge's name."""
        value = self._read()
        return {} if value is None else {self.name: value}


class Histogram:
    """How values are spread: average and maximum are exact, percentiles within 1.1 % of a recorded value.

    `parts` names what goes into a snapshot: "avg", "max" or a percentile such as "p99". Without values all are 0.
    """

    __slots__ = ("_bucket", "_buckets", "_in_bucket", "count", "doc", "max", "name", "parts", "total")

    def __init__(self, name: str, doc: str, parts: tuple[str, ...] = ("avg", "max")) -> None:
        self.name = name
        self.doc = doc
        self.parts = parts
        self.count = 0
        self.total = 0.0
        self.max = 0.0
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
        bucket = int(math.log2(value) * BUCKETS_PER_DOUBLING + BUCKET_OF_ONE) if value > 0 else 0
        if bucket != self._bucket:
            self._count_bucket()
            self._bucket = bucket
        self._in_bucket += 1

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

    def readings(self) -> dict[str, float]:
        """Return each part under the histogram's name followed by the part's."""
        return {f"{self.name}_{part}": self._part(part) for part in self.parts}

    def _part(self, part: str) -> float:
        if part == "avg":
            return self.average
        return self.max if part == "max" else self.percentile(float(part[1:]))


def _middle(bucket: int) -> float:
    return 2.0 ** ((bucket - BUCKET_OF_ONE + 0.5) / BUCKETS_PER_DOUBLING) if bucket else 0.0


class Metrics:
    """A registry of instruments; each name is used once."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}

    def counter(self, name: str, doc: str) -> Counter:
        """Make a counter and hold it; raises ValueError for a name that is taken."""
        return self._hold(Counter(name, doc))

    def gauge(self, name: str, doc: str, read: Callable[[], float | None] = lambda: 0) -> Gauge:
        """Make a gauge and hold it; raises ValueError for a name that is taken."""
        return self._hold(Gauge(name, doc, read))

    def histogram(self, name: str, doc: str, parts: tuple[str, ...] = ("avg", "max")) -> Histogram:
        """Make a histogram and hold it; raises ValueError for a name that is taken."""
        return self._hold(Histogram(name, doc, parts))

    def snapshot(self) -> dict[str, float]:
        """Return every present value by name."""
        values: dict[str, float] = {}
        for instrument in self._instruments.values():
            values |= instrument.readings()
        return values

    def describe(self) -> dict[str, str]:
        """Return the meaning of every name in a snapshot, such as the help text of an exporter needs."""
        instruments = self._instruments.values()
        return {name: instrument.doc for instrument in instruments for name in instrument.readings()}

    def _hold(self, instrument: _Held) -> _Held:
        if instrument.name in self._instruments:
            raise ValueError(f"There is a metric named {instrument.name!r} already.")
        self._instruments[instrument.name] = instrument
        return instrument


_PERCENTILES = ("avg", "max", "p50", "p99")


class ProducerMetrics(Metrics):
    """The metrics of a producer. Times are in milliseconds, sizes in bytes, unless a name says otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.record_send_total = self.counter(
            "record_send_total", "Records put into produce requests, those of a retried batch each time."
        )
        self.record_retry_total = self.counter("record_retry_total", "Records of batches that were retried.")
        self.record_error_total = self.counter("record_error_total", "Accepted records that ended in an error.")
        self.batch_split_total = self.counter(
            "batch_split_total", "Batches split because a broker found them too large."
        )
        self.batch_size = self.histogram("batch_size", "Bytes of a batch as sent, after compression.")
        self.records_per_request = self.histogram("records_per_request", "Records in a produce request.", ("avg",))
        self.compression_rate = self.histogram(
            "compression_rate", "Size of a batch after compression, as a part of its size before.", ("avg",)
        )
        self.record_queue_time = self.histogram(
            "record_queue_time", "Time in ms from the making of a batch to its first request.", _PERCENTILES
        )
        self.request_latency = self.histogram(
            "request_latency", "Time in ms from a produce request to its response.", _PERCENTILES
        )
        self.produce_throttle_time = self.histogram(
            "produce_throttle_time", "Time in ms for which a broker throttled the producer."
        )
        self.buffer_total_bytes = self.gauge("buffer_total_bytes", "Bytes that waiting records may use: buffer.memory.")
        self.buffer_available_bytes = self.gauge("buffer_available_bytes", "Bytes of it that are not in use.")
        self.waiting_senders = self.gauge("waiting_senders", "Calls that wait for room in the buffer.")
        self.requests_in_flight = self.gauge("requests_in_flight", "Requests whose response has not come yet.")
        self.connection_count = self.gauge("connection_count", "Connections that are up.")
        self.connection_creation_total = self.counter("connection_creation_total", "Connections made.")
        self.connection_close_total = self.counter("connection_close_total", "Connections closed, by either side.")
        self.successful_authentication_total = self.gauge(
            "successful_authentication_total", "Connections that were set up with TLS or a log-in."
        )
        self.failed_authentication_total = self.gauge(
            "failed_authentication_total", "TLS handshakes and log-ins that failed, log-ins without credentials too."
        )
        self.successful_reauthentication_total = self.gauge(
            "successful_reauthentication_total", "Log-ins that were renewed on their connection."
        )
        self.failed_reauthentication_total = self.gauge(
            "failed_reauthentication_total", "Renewals of log-ins that a broker rejected."
        )
        self.reauthentication_latency_avg = self.gauge(
            "reauthentication_latency_avg", "Time in ms that the renewal of a log-in took, on average."
        )
        self.reauthentication_latency_max = self.gauge(
            "reauthentication_latency_max", "Time in ms that the renewal of a log-in took at most."
        )
        self.credentials_expire_s = self.gauge(
            "credentials_expire_s",
            "Seconds until this client's certificate or token ends, whatever is first; absent without both.",
            lambda: None,
        )
        self.metadata_age_s = self.gauge("metadata_age_s", "Seconds since the last metadata of the cluster.")
        self.loop_gap_max = self.gauge(
            "loop_gap_max",
            "Longest time in ms for which the producer kept the event loop to itself in one go: to fill requests, read "
            "answers, complete futures and run callbacks, or run timers.",
        )
        self.epoch_bumps = self.gauge(
            "epoch_bumps", "Epochs that partitions have begun because one of their batches was not stored."
        )
        self.interceptor_failures = self.gauge("interceptor_failures", "Calls of interceptors that failed.")
