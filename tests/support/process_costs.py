"""What a process costs: CPU time, memory, and how long its event loop is blocked."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import Literal

__all__ = ["Beat", "LoopBeat", "cpu_s", "peak_mb", "resident_mb"]

Beat = Literal["timer", "turn", "none"]
"""When a `LoopBeat` looks at the clock: each millisecond, in each iteration of the loop, or never."""

BEAT_S = 0.001


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


def cpu_s() -> float:
    """The CPU time of this process so far, of all its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_mb() -> float:
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
    return peak_mb() if now is None else now


def _status_mb(name: str) -> float | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 2**10
    return None
