"""The metrics of a relay."""

from __future__ import annotations

from collections.abc import Callable

from aioprod.metrics import Metrics
from aioprod.metrics.families import MILLISECONDS, SECONDS
from aioprod.relay.health import Lag

__all__ = ["RelayMetrics"]


class RelayMetrics(Metrics):
    """Counters since the relay was created, and current gauges."""

    def __init__(self, lag: Callable[[], Lag] = lambda: Lag(0, 0.0)) -> None:
        super().__init__()
        self.records = self.counter("relay_records_total", "Records of the source that are in Kafka for good.")
        self._runs = self.counter("relay_runs_total", "Runs of records that were delivered, each in one transaction.")
        self._run_size = self.histogram("relay_run_size", "Records of a run.")
        self._run_time = self.histogram(
            "relay_run_time", "From the first send of a run to its commit.", unit=MILLISECONDS
        )
        self.failures = self.counter("relay_failures_total", "Tries that failed, after each of which it starts again.")
        self.gauge("relay_lag_records", "Records that were read and are not in Kafka yet.", lambda: lag().records)
        self.gauge(
            "relay_lag_age",
            "The time since the oldest of these was read; 0 without one.",
            lambda: lag().oldest_age_s,
            SECONDS,
        )

    def delivered(self, count: int, seconds: float) -> None:
        """Count a run of so many records, and the time from its first send to its commit."""
        self.records.add(count)
        self._runs.add()
        self._run_size.record(count)
        self._run_time.record(seconds * 1000)
