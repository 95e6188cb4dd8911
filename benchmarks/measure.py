"""Measurements of a contender process: CPU time, memory, latencies, and how long its event loop is blocked."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.job import Job, Measurement
from tests.support.process_costs import LoopBeat, cpu_s, peak_mb, resident_mb

__all__ = ["ROUND", "SLICE", "Meter", "Tally", "percentile", "run_measured"]

SLICE = 500
"""Records between two loop iterations, for calls that never wait, and between two samples of the latency."""
ROUND = 10_000
"""The records of one bulk call, and of futures that are awaited together."""


def percentile(values: list[float], percent: float) -> float:
    """Return the value that `percent` of the values don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Tally:
    """Counts acknowledged records, and collects the sampled latencies in seconds."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.latencies_s: list[float] = []

    def on_delivery(self, metadata: object, error: object) -> None:
        """The callback of aioprod."""
        if error is None:
            self.acknowledged += 1

    def on_message(self, error: object, message: object) -> None:
        """The callback of confluent-kafka."""
        if error is None:
            self.acknowledged += 1

    def timed(self, callback: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        """Return the callback for a record that is sent now and whose latency is sampled."""
        start = time.perf_counter()

        def delivered(first: Any, second: Any) -> None:
            self.latencies_s.append(time.perf_counter() - start)
            callback(first, second)

        return delivered

    def watch(self, future: asyncio.Future[Any], start: float) -> None:
        """Sample the latency of a future whose record was sent at `start`; the caller counts it."""
        future.add_done_callback(lambda _: self.latencies_s.append(time.perf_counter() - start))


class Meter:
    """CPU time and memory of this process: memory from its creation, the rest from `start()`."""

    def __init__(self) -> None:
        self._start_mb = resident_mb()
        self._wall = 0.0
        self._cpu = 0.0

    def start(self) -> None:
        """Begin to measure, after the warm-up."""
        gc.collect()
        self._wall = time.perf_counter()
        self._cpu = cpu_s()

    def measurement(
        self, job: Job, tally: Tally, gap_s: float | None, settings: dict[str, Any], versions: dict[str, str]
    ) -> Measurement:
        """Return the measurement since `start()`. Raises AssertionError unless every record was acknowledged."""
        used_s = cpu_s() - self._cpu
        wall_s = time.perf_counter() - self._wall
        assert tally.acknowledged == job.records, f"{tally.acknowledged} of {job.records} records were acknowledged."
        peak = peak_mb()
        latencies_s = tally.latencies_s
        return Measurement(
            records=job.records,
            cpu_us=round(used_s / job.records * 1e6, 4),
            records_per_s=round(job.records / wall_s),
            peak_mb=round(peak, 1),
            growth_mb=round(peak - self._start_mb, 1),
            p50_us=round(percentile(latencies_s, 50) * 1e6, 1) if latencies_s else None,
            p99_us=round(percentile(latencies_s, 99) * 1e6, 1) if latencies_s else None,
            gap_ms=None if gap_s is None else round(gap_s * 1e3, 2),
            settings=settings,
            versions=versions,
        )


async def run_measured(
    job: Job,
    meter: Meter,
    work: Callable[[int, Tally], Awaitable[None]],
    settings: dict[str, Any],
    versions: dict[str, str],
) -> Measurement:
    """Run `work` to warm up, then measure it, on the running loop."""
    await work(job.warm_up, Tally())
    if job.tuned:
        from aioprod.tuning import tune  # Not at the top: the processes of the peers don't import aioprod.

        tune()
    tally = Tally()
    beat = LoopBeat(job.beat)
    meter.start()
    beat.start()
    await work(job.records, tally)
    beat.stop()
    return meter.measurement(job, tally, beat.gap_s, settings, versions)
