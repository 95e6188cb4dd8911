"""One reading of a clock for both times of a record: when it was accepted, and its timestamp."""

from __future__ import annotations

import time
from time import monotonic  # Of the module, not of its .pxd, in which `time` is that of C.
from typing import Final

__all__ = ["Clock"]

_AGREED_NS: Final = 10_000_000
"""How long the difference between the two clocks is taken as it was: a change of the time of day counts after that."""


class Clock:
    """Monotonic time, and the time of day that belongs to it; a test may put another one in its place.

    A subclass with a `now_ns` of its own has to define `seconds`, too.
    """

    seconds = staticmethod(monotonic)
    """Monotonic time in seconds, as everything but the timestamps of records counts it.

    It is read many times for each request: the builtin function costs no call of Python.
    """

    def __init__(self) -> None:
        self._difference_ns = 0
        self._agreed_until_ns = 0

    def now_ns(self) -> int:
        """Monotonic time in nanoseconds."""
        return time.monotonic_ns()

    def timestamp_ms(self, now_ns: int) -> int:
        """Milliseconds since the epoch at a monotonic time that has just been read."""
        if now_ns >= self._agreed_until_ns:
            self._difference_ns = time.time_ns() - now_ns
            self._agreed_until_ns = now_ns + _AGREED_NS
        return (now_ns + self._difference_ns) // 1_000_000
