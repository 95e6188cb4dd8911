"""Logs failed records without waiter: the first of a kind in full, then how many more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from aioprod._log_rate_limit import WINDOW_S
from aioprod._logger import Logger
from aioprod._words import counted, seconds_of

__all__ = ["UnreadFailures"]

_logger = Logger("aioprod.producer")

KINDS_MAX: Final = 1000
"""So many kinds of failures are counted at a time; a kind is a place and a class of causes."""


class _More(NamedTuple):
    since: float
    records: int
    last: str


class UnreadFailures:
    """Logs the first failure of a kind at once, and once in ten seconds how many records more failed like it.

    Records without waiters may fail a thousand times a second, and for one reason.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._more: dict[tuple[str, type | None, int], _More] = {}

    def log_failure(self, place: str, cause: BaseException | None, level: int, records: int, said: str) -> None:
        """Records failed at a place, such as `orders-0`; `said`, which and why, is logged at `level` or counted."""
        kind = (place, None if cause is None else type(cause), level)
        now = self._clock()
        known = self._more.get(kind)
        if known is None:
            if len(self._more) >= KINDS_MAX:
                self.close()
            self._more[kind] = _More(now, 0, "")
            _logger.log(level, "%s", said)
            return
        self._more[kind] = more = _More(known.since, known.records + records, said)
        if now - more.since >= WINDOW_S:
            self._log_more(kind, more, now)
            self._more[kind] = _More(now, 0, "")

    def close(self) -> None:
        """Log what was counted and not logged yet."""
        now = self._clock()
        for kind, more in self._more.items():
            self._log_more(kind, more, now)
        self._more.clear()

    def _log_more(self, kind: tuple[str, type | None, int], more: _More, now: float) -> None:
        if more.records:
            place, _, level = kind
            _logger.log(
                level,
                "%s of %s failed in the same way within %s, the last: %s",
                counted(more.records, "more record"),
                place,
                seconds_of(now - more.since),
                more.last,
            )
