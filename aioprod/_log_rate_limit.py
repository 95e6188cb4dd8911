"""Limits how many lines of a kind are logged: ten in ten seconds."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["LINES_MAX", "WINDOW_S", "Line", "LogRateLimit"]

WINDOW_S: Final = 10.0
LINES_MAX: Final = 10
"""How many lines of a kind are logged within a window, in seconds."""


class Line(NamedTuple):
    """Whether a line is logged, how many of its kind the window that has just ended left out, and its length."""

    is_logged: bool
    left_out: int
    window_s: float


class LogRateLimit:
    """Counts lines by their kind; `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[float, int]] = {}

    def take(self, kind: str, now: float) -> Line:
        """Count one more line."""
        since, count = self._windows.get(kind, (now, 0))
        window_s, left_out = now - since, 0
        if window_s >= WINDOW_S:
            left_out = max(0, count - LINES_MAX)
            since, count = now, 0
        self._windows[kind] = since, count + 1
        return Line(count < LINES_MAX, left_out, window_s)
