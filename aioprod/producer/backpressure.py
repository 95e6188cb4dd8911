"""Waiting for memory: senders that wait for `buffer.memory`, and `drain()`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aioprod.errors import AioprodError, BufferFullError
from aioprod.metrics import Counter
from aioprod.producer.batching.buffer_memory import MemoryBudget, Reservation

if TYPE_CHECKING:
    from aioprod.producer.batching.partition import Partition, Topic

__all__ = ["MemoryWaiters", "running_task"]

_DRAINED: Final = 0.5
"""The share of `buffer.memory` that is free when `drain()` returns, so that the next sends fit."""


class MemoryWaiters:
    """Lets senders wait, in order, until their record fits."""

    def __init__(
        self,
        budget: MemoryBudget,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        end_lingers: Callable[[], None],
        wait_time_ns: Counter,
    ) -> None:
        self._wait_time_ns = wait_time_ns
        """Counts how long senders have waited."""
        self._budget = budget
        self._loop = loop
        self._clock = clock
        """Monotonic time in seconds."""
        self._end_lingers = end_lingers
        """Called when a sender starts to wait: open batches leave now."""
        self._until_freed: list[asyncio.Future[None]] = []
        """Callers of `drain()` that look again when memory was freed, or when what is stuck was looked at."""

    async def reserve(
        self,
        size: int,
        timeout_s: float,
        place: Partition | Topic | None = None,
        earlier: Reservation | None = None,
    ) -> Reservation:
        """Wait for `size` bytes, for a record for `place` if that is known; raises BufferFullError after `timeout_s`.

        The memory is reserved until the caller calls `give_back`. With the `earlier` reservation that was of no use to
        it, the caller keeps its order, and the time counts from there.
        """
        waited_s = 0.0 if earlier is None else self._clock() - earlier.since
        try:
            async with asyncio.timeout(max(0.0, timeout_s - waited_s)):
                return await self._wait(size, keep=True, place=place, earlier=earlier)
        except TimeoutError as error:
            budget = self._budget
            largest = budget.stuck.largest(self._clock())
            raise BufferFullError(
                f"buffer.memory={budget.limit} stayed full for {timeout_s:g} s: {budget.records} records "
                f"with {budget.used} bytes wait for their delivery{'; ' + largest if largest else ''}.",
                hint="The cluster takes less than is sent, or can't be reached; raise buffer.memory or send less.",
            ) from error

    async def drain(self) -> None:
        """Wait until `_DRAINED` is free, if less is; lets the loop run at least once.

        What can't move is not counted while something else moves. A task whose last record found no room as it is for
        something stuck then waits for room for that.
        """
        budget = self._budget
        last = budget.stuck.last_full()
        await asyncio.sleep(0)
        while budget.stuck.nothing_moves and budget.used > budget.limit * _DRAINED:
            await self._next_freed()
        if last.place is not None and last.size:
            await self.drain_share(last.place, last.size)
            return
        usable = budget.capacity - budget.stuck.used
        wanted = max(budget.rejected, int(usable * _DRAINED))
        if budget.rejected or budget.waiting or not budget.fits(wanted):
            await self._wait(wanted, keep=False)
            budget.rejected = 0

    async def drain_share(self, place: Partition | Topic, size: int) -> None:
        """Wait until `place`, which is stuck, may take `size` bytes, or moves."""
        await self._wait(size, keep=False, place=place)

    async def _next_freed(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._until_freed.append(waiter)
        self._end_lingers()
        await self._timed(waiter)

    async def _timed(self, waiter: asyncio.Future[None]) -> None:
        start = self._clock()
        try:
            await waiter
        finally:
            self._wait_time_ns.add(round((self._clock() - start) * 1e9))

    async def _wait(
        self, size: int, *, keep: bool, place: Partition | Topic | None = None, earlier: Reservation | None = None
    ) -> Reservation:
        waiter: asyncio.Future[None] = self._loop.create_future()
        reservation = self._budget.wait(size, waiter, keep=keep, place=place, earlier=earlier)
        reservation.since = self._clock() if earlier is None else earlier.since
        self._end_lingers()
        self.freed()
        try:
            await self._timed(waiter)
        except BaseException:
            self.give_back(reservation)
            raise
        return reservation

    def give_back(self, reservation: Reservation) -> None:
        """Return a reservation, used or not, and grant what is left to the next waiters."""
        self._budget.end(reservation)
        self.freed()

    def freed(self) -> None:
        """Grant freed memory to the waiters, in order."""
        for reservation in self._budget.grant():
            waiter = reservation.waiter
            assert isinstance(waiter, asyncio.Future)
            if waiter.done():
                self._budget.end(reservation)
            else:
                waiter.set_result(None)
        if self._until_freed:
            for drain in self._take_until_freed():
                if not drain.done():
                    drain.set_result(None)

    def _take_until_freed(self) -> list[asyncio.Future[None]]:
        waiters, self._until_freed = self._until_freed, []
        return waiters

    def close(self, error: AioprodError) -> None:
        """Fail all waiters with this error."""
        waiters = [reservation.waiter for reservation in self._budget.dissolve()]
        for waiter in (*waiters, *self._take_until_freed()):
            assert isinstance(waiter, asyncio.Future)
            if not waiter.done():
                waiter.set_exception(error.again())


def running_task() -> object:
    """The task that runs now; None outside of any, as in a callback."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
