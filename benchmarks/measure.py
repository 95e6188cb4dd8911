"""Measurements of a contender process: CPU time, memory, latencies, and how long its event loop is blocked."""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.job import Beat, Job, Measurement

__all__ = ["ROUND", "SLICE", "LoopBeat", "Meter", "Tally", "cpu_s", "percentile", "resident_mb", "run_measured"]

SLICE = 500
"""Records between two loop iterations, for calls that never wait, and between two samples of the latency."""
ROUND = 10_000
"""The records of one bulk call, and of futures that are awaited together."""
BEAT_S = 0.001


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


class LoopBeat:
    """The longest thread CPU time between two beats of the running loop.

    It is CPU time because wall time on a busy machine measures other processes.
    """

    def __init__(self, beat: Beat) -> None:
        self.gap_s: float | None = None
        self._loop = asyncio.get_running_loop()
        self._each_turn = beat == "turn"
        self._runs = beat != "none"
        self._last = 0.0

    def start(self) -> None:
        """Begin with the current loop iteration."""
        if self._runs:
            self.gap_s = 0.0
            self._last = time.thread_time()
            self._again()

    def stop(self) -> None:
        """Stop; the time since the last beat counts."""
        if self._runs:
            self._note()
            self._runs = False

    def _again(self) -> None:
        if self._each_turn:
            self._loop.call_soon(self._beat)
        else:
            self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        if self._runs:
            self._note()
            self._again()

    def _note(self) -> None:
        now = time.thread_time()
        self.gap_s = max(self.gap_s or 0.0, now - self._last)
        self._last = now


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
        peak_mb = _peak_mb()
        latencies_s = tally.latencies_s
        return Measurement(
            records=job.records,
            cpu_us=round(used_s / job.records * 1e6, 4),
            records_per_s=round(job.records / wall_s),
            peak_mb=round(peak_mb, 1),
            growth_mb=round(peak_mb - self._start_mb, 1),
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


def cpu_s() -> float:
    """The CPU time of this process so far, of all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _peak_mb() -> float:
    """Return the peak memory of this process. On Linux the child inherits `ru_maxrss` over fork and exec, so its own
    peak is read from /proc."""
    own = _status_mb("VmHWM")
    if own is not None:
        return own
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def resident_mb() -> float:
    """Return the current resident memory; if it can't be read, the peak."""
    now = _status_mb("VmRSS")
    return _peak_mb() if now is None else now


def _status_mb(name: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 2**10
    return None
