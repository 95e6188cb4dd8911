"""When a client has to look at its deadlines: one coroutine sleeps until the next one."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

__all__ = ["Scheduler"]

_TIMER_LATE_S: Final = 0.0005
"""uvloop rounds delays to whole milliseconds: without this a timer may ring before what it is for is due."""


class Scheduler:
    """Runs the work of a client whenever one of its deadlines has passed; an idle client has one timer at most.

    That of a producer does what is due in all its parts, its `Client` among them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._due = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._sleeper: asyncio.Future[None] | None = None

    async def run(self, work: Callable[[float], float]) -> None:
        """Call `work` with the time, sleep until the time that it returns, or until woken, for ever."""
        while True:
            await self.run_once(work)

    async def run_once(self, work: Callable[[float], float]) -> None:
        """Call `work` with the time, and sleep until the time that it returns, or until woken."""
        self._due = math.inf
        # The work itself may make something due earlier.
        self._due = min(work(self._clock()), self._due)
        await self._sleep()

    async def _sleep(self) -> None:
        delay = self._due - self._clock()
        if delay <= 0.0:
            await asyncio.sleep(0)
            return
        self._sleeper = self._loop.create_future()
        if delay < math.inf:
            self._timer = self._loop.call_later(delay + _TIMER_LATE_S, self.wake)
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def wake(self) -> None:
        """Run the work soon: something may be due."""
        if self._sleeper is None:
            self._due = -math.inf
        elif not self._sleeper.done():
            self._sleeper.set_result(None)

    def wake_at(self, due: float) -> None:
        """Run the work at `due`, in monotonic seconds, if not before."""
        if due >= self._due:
            return
        self._due = due
        if self._sleeper is not None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(max(0.0, due - self._clock()) + _TIMER_LATE_S, self.wake)
