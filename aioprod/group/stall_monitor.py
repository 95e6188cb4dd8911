"""Logs a warning, repeatedly, when a member makes no progress, and logs when that is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from aioprod.group.explain import WaitCause
from aioprod.group.member_log import MemberLog

__all__ = ["CHECK_INTERVAL_S", "REPEAT_S", "StallMonitor"]

CHECK_INTERVAL_S: Final = 5.0
"""The time between two checks."""
REPEAT_S: Final = 30.0
"""The time after which an unchanged cause is logged again."""


@dataclass(slots=True)
class _Stall:
    """When a cause was seen first, and when it was logged last."""

    since: float
    logged_at: float = -math.inf


class StallMonitor:
    """Checks periodically what a member of a group waits for; a cause that lasts for its `patience_s` is logged.

    `causes` returns those of a member that is subscribed to these topics.
    """

    def __init__(
        self, log: MemberLog, causes: Callable[[frozenset[str]], Iterable[WaitCause]], clock: Callable[[], float]
    ) -> None:
        self._log = log
        self._causes = causes
        self._clock = clock
        self._stalls: dict[str, _Stall] = {}

    async def run(self, topics: Callable[[], frozenset[str]]) -> None:
        """Check until cancelled; `topics` returns the current subscription."""
        while True:
            self.check(topics(), self._clock())
            await asyncio.sleep(CHECK_INTERVAL_S)

    def check(self, topics: frozenset[str], now: float) -> None:
        """Log causes that have lasted too long, and those that were logged and are over."""
        causes = {cause.subject: cause for cause in self._causes(topics)}
        for subject in self._stalls.keys() - causes.keys():
            stall = self._stalls.pop(subject)
            if stall.logged_at > -math.inf:
                self._log.info("no longer waits for %s, after %.0f s", subject, now - stall.since)
        for subject, cause in causes.items():
            stall = self._stalls.setdefault(subject, _Stall(now))
            lasted_s = now - stall.since
            # A timer may be early by less than the resolution of the clock.
            tolerance_s = CHECK_INTERVAL_S / 2
            if lasted_s >= cause.patience_s - tolerance_s and now >= stall.logged_at + REPEAT_S - tolerance_s:
                stall.logged_at = now
                self._log.warning("has waited for %s for %.0f s: %s", subject, lasted_s, cause.explanation)
