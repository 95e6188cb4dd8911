"""`Window`: the time in which a process is measured."""

from __future__ import annotations

import time

from benchmarks.distance.job import Measurement
from benchmarks.measure import Tally, percentile
from tests.support.process_costs import cpu_s, peak_mb

__all__ = ["Window"]


class Window:
    """Begins when it is made: what the tally has then does not count."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._acknowledged = tally.acknowledged
        tally.latencies_s.clear()
        self._start = time.perf_counter(), cpu_s()

    def measurement(self) -> Measurement:
        """What has happened until now."""
        wall_s, used_s = time.perf_counter() - self._start[0], cpu_s() - self._start[1]
        records = self._tally.acknowledged - self._acknowledged
        latencies_s = self._tally.latencies_s
        p50_ms, p99_ms = (
            round(percentile(latencies_s, percent) * 1000, 3) if latencies_s else None for percent in (50, 99)
        )
        return Measurement(
            records_per_s=round(records / wall_s, 1),
            cpu_us=round(used_s / records * 1e6, 3) if records else 0.0,
            peak_mb=round(peak_mb(), 1),
            p50_ms=p50_ms,
            p99_ms=p99_ms,
        )
