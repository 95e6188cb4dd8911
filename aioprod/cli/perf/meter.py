"""What a load has done so far: records, bytes, latencies, by the second and in all."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from aioprod.metrics import Histogram

__all__ = ["MIB", "LoopGap", "Meter", "RoundTrip", "Second", "peak_rss_mb"]

MIB: Final = 2**20
"""The bytes of an MB, as Kafka's own tools count them."""
_BEAT_S: Final = 0.005
_DIGITS: Final = 3


class Second(NamedTuple):
    """The records whose outcome came in second `at` of the load: how many, and their latencies in ms."""

    at: int
    records: int
    p50: float
    p99: float
    max: float


class RoundTrip(NamedTuple):
    """What a producer saw of the way to the brokers and back."""

    request_p50_ms: float
    batch_bytes_avg: int
    full_ratio: float
    """For how much of the time a batch waited for a place in flight, at the broker where that was the most."""


class Meter:
    """Counts the outcomes of records; `begin()` starts it, `end()` stops its clocks.

    `delivered` and `failed` are records, `errors` what these failed with, by kind, and `gap_ms` is the longest time for
    which the loop was busy, None where there is none. Noting a record is cheap, as that is part of what is measured.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.failed = 0
        self.bytes = 0
        self.errors: Counter[str] = Counter()
        self.seconds: list[Second] = []
        self.gap_ms: float | None = None
        self.round_trip: RoundTrip | None = None
        """None where the client does not say, or nothing is sent."""
        self.began = self._ended = 0.0
        self._cpu_began_s = self._cpu_ended_s = 0.0
        self._is_running = False
        self._earlier = _histogram()
        self._second = _histogram()
        self._at = 0
        self._second_ends = 0.0

    def begin(self) -> None:
        """The load begins now."""
        self.began, self._cpu_began_s = self.clock(), time.process_time()
        self._second_ends = self.began + 1
        self._is_running = True

    def end(self) -> None:
        """The load is over now; a second call does nothing."""
        if self._is_running:
            self._ended, self._cpu_ended_s = self.clock(), time.process_time()
            self._close_second()
            self._is_running = False

    @property
    def has_begun(self) -> bool:
        """Whether `begin()` was called."""
        return self._is_running or self._ended > 0.0

    @property
    def delivered(self) -> int:
        """The records that were acknowledged."""
        return self._earlier.count + self._second.count

    @property
    def latency(self) -> Histogram:
        """Their latencies in ms."""
        latency = _histogram()
        latency.add(self._earlier)
        latency.add(self._second)
        return latency

    @property
    def elapsed_s(self) -> float:
        """Since the beginning, or from it to the end."""
        return (self.clock() if self._is_running else self._ended) - self.began

    @property
    def cpu_s(self) -> float:
        """The CPU time of this process in that time, of all its threads."""
        return (time.process_time() if self._is_running else self._cpu_ended_s) - self._cpu_began_s

    def note(self, start: float, size: int, count: int = 1) -> None:
        """Some records that were handed over at `start` are acknowledged now; `size` is their bytes together.

        What comes after the end, while the producer is closed, does not count.
        """
        if not self._is_running:
            return
        now = self.clock()
        if now >= self._second_ends:
            self._close_second()
            self._at = int(now - self.began)
            self._second_ends = self.began + self._at + 1
        self._second.record((now - start) * 1000, count)
        self.bytes += size

    def note_failed(self, error: BaseException, count: int = 1) -> None:
        """Some records failed; after the end that does not count."""
        if not self._is_running:
            return
        self.failed += count
        self.errors[type(error).__name__] += count

    def _close_second(self) -> None:
        second = self._second
        if second.count:
            self.seconds.append(
                Second(self._at, second.count, second.percentile(50), second.percentile(99), second.max)
            )
            self._earlier.add(second)
            self._second = _histogram()

    def document(self) -> dict[str, Any]:
        """The figures, for JSON: seconds and ms, MB as Kafka's own tools count them."""
        elapsed_s = self.elapsed_s
        latency = self.latency
        return {
            "records": self.delivered,
            "failed": self.failed,
            "errors": dict(self.errors),
            "seconds": round(elapsed_s, _DIGITS),
            "records_per_s": round(self.delivered / elapsed_s, 1) if elapsed_s else 0.0,
            "mb_per_s": round(self.bytes / MIB / elapsed_s, _DIGITS) if elapsed_s else 0.0,
            "latency_ms": {
                **{f"p{percent:g}": round(latency.percentile(percent), _DIGITS) for percent in (50, 95, 99, 99.9)},
                "max": round(latency.max, _DIGITS),
                "avg": round(latency.average, _DIGITS),
            },
            "cpu_s": round(self.cpu_s, _DIGITS),
            "peak_rss_mb": peak_rss_mb(),
            "round_trip": None if self.round_trip is None else self.round_trip._asdict(),
            "loop_gap_ms": None if self.gap_ms is None else round(self.gap_ms, _DIGITS),
        }


def _histogram() -> Histogram:
    return Histogram("latency", "Time in ms from the call to the acknowledgement.")


class LoopGap:
    """The longest CPU time of this thread between two beats of the running loop: what others had to wait for.

    It is CPU time because on a busy machine other processes take the rest.
    """

    def __init__(self) -> None:
        self.ms = 0.0
        self._loop = asyncio.get_running_loop()
        self._last_s = time.thread_time()
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def stop(self) -> float:
        """The longest, in ms; no beat comes after that."""
        self._timer.cancel()
        self._note()
        return self.ms

    def _beat(self) -> None:
        self._note()
        self._timer = self._loop.call_later(_BEAT_S, self._beat)

    def _note(self) -> None:
        now_s = time.thread_time()
        self.ms = max(self.ms, (now_s - self._last_s) * 1000)
        self._last_s = now_s


def peak_rss_mb() -> float | None:
    """The most memory that this process had; None where the system does not say."""
    try:  # On Linux a process inherits `ru_maxrss` of the one that started it.
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    except OSError:
        pass
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / MIB if sys.platform == "darwin" else peak / 1024, 1)
