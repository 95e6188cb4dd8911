"""The time between two polls of an application, which `max.poll.interval.ms` limits."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from aioprod.calls.broker_errors import named
from aioprod.calls.session import Session
from aioprod.errors import AioprodError
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.group.poll_gate import PollGate
from aioprod.group.unfinished import Unfinished

__all__ = ["PollTimer"]

_NOTED_S: Final = 0.1
"""A poll is noted once in that time, not with each record: that would wake the background task."""
_CHECK_S: Final = 1.0
"""The longest time between two checks: a poll may be noted while the check sleeps."""


class PollTimer:
    """Knows when the application polled last, and logs once when it has taken longer than allowed."""

    def __init__(
        self, log: MemberLog, gate: PollGate, unfinished: Unfinished, interval_s: float, session: Session
    ) -> None:
        self.polled_at = -math.inf
        """The time of the last poll, or of the end of the last one, to a tenth of a second."""
        self.cause: AioprodError | None = None
        """Says what took too long, from then until the next poll."""
        self._log = log
        self._gate = gate
        self._unfinished = unfinished
        self._interval_s = interval_s
        self._session = session

    @property
    def until(self) -> float:
        """When the next poll is to be noted."""
        return self.polled_at + _NOTED_S

    def note(self, now: float) -> bool:
        """The application polls, or a poll ends; whether others are to note it, too."""
        if now < self.until:
            return False
        self.polled_at = now
        self.cause = None
        return True

    def age_s(self) -> float:
        """How long the application has not polled: 0.0 while it waits for records, and before its first poll."""
        return self._session.clock() - self.polled_at if self._has_ended else 0.0

    @property
    def _has_ended(self) -> bool:
        """Whether the last poll has ended, and the next one has not begun."""
        return self.polled_at > -math.inf and not self._gate.is_polling

    async def run(self) -> None:
        """Check until cancelled."""
        logged_at = -math.inf
        while True:
            # Not the interval without the age: what rounding leaves of it can be too short to sleep for.
            overdue_at = self.polled_at + self._interval_s
            left_s = overdue_at - self._session.clock() if self._has_ended else self._interval_s
            if left_s <= 0.0 and logged_at != self.polled_at:
                logged_at = self.polled_at
                self._log_overdue()
            await asyncio.sleep(min(_CHECK_S, left_s) if left_s > 0.0 else _CHECK_S)

    @property
    def text(self) -> str:
        """How long the application has not polled, and with which record in hand."""
        tp, offset = next(iter(self._unfinished.in_hand.items()), (None, -1))
        where = "" if tp is None else f" with offset {offset} of {named([tp])} in hand"
        return f"The application has not polled for {self.age_s():.1f} s{where}."

    def _log_overdue(self) -> None:
        limit = f"max.poll.interval.ms={self._interval_s * 1000:.0f}"
        self.cause = AioprodError(f"{self.text} {limit} is over.")
        self._log.warning(
            "leaves it until the next poll, and its partitions go to other members: %s",
            self.cause.message,
            extra=place_fields(list(self._unfinished.in_hand)[:1]),
        )
