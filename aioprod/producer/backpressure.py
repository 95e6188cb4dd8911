"""Waiting for memory: senders that wait for `buffer.memory`, and `drain()`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aioprod.errors import AioprodError, BufferFullError
from aioprod.metrics import Counter
from aioprod.producer.batching.buffer_memory import MemoryBudget, Reservation

__all__ = ["MemoryWaiters"]

_DRAINED: Final = 0.5
"""The share of `buffer.memory` that is free when `drain()` returns, so that the next sends fit."""


class MemoryWaiters:
    """Lets senders wait, in order, until their record fits."""

    def __init__(
        self,
        budget: MemoryBudget,
        loop: asyncio.AbstractEventLoop,
        end_lingers: Callable[[], None],
        wait_time_ns: Counter,
    ) -> None:
        self._wait_time_ns = wait_time_ns
        """Counts how long senders have waited."""
        self._budget = budget
        self._loop = loop
        self._end_lingers = end_lingers
        """Called when a sender starts to wait: open batches leave now."""

    async def reserve(self, size: int, timeout_s: float) -> Reservation:
        """Wait for `size` bytes; raises BufferFullError after `timeout_s`.

        The memory is reserved until the caller calls `give_back`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._wait(size, keep=True)
        except TimeoutError as error:
            raise BufferFullError(
                f"buffer.memory={self._budget.limit} stayed full for {timeout_s:g} s: {self._budget.records} records "
                f"with {self._budget.used} bytes wait for their delivery.",
                hint="The cluster takes less than is sent, or can't be reached; raise buffer.memory or send less.",
            ) from error

    async def drain(self) -> None:
        """Wait until `_DRAINED` is free, if less is; lets the loop run at least once."""
        await asyncio.sleep(0)
        budget = self._budget
        wanted = max(budget.rejected, int(budget.limit * _DRAINED))
        if budget.rejected or budget.waiting or not budget.fits(wanted):
            await self._wait(wanted, keep=False)
            budget.rejected = 0

    async def _wait(self, size: int, *, keep: bool) -> Reservation:
        waiter: asyncio.Future[None] = self._loop.create_future()
        reservation = self._budget.wait(size, waiter, keep=keep)
        self._end_lingers()
        self.freed()
        start = self._loop.time()
        try:
            await waiter
        except BaseException:
            self.give_back(reservation)
            raise
        finally:
            self._wait_time_ns.add(round((self._loop.time() - start) * 1e9))
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

    def close(self, error: AioprodError) -> None:
        """Fail all waiters with this error."""
        for reservation in self._budget.dissolve():
            waiter = reservation.waiter
            assert isinstance(waiter, asyncio.Future)
            if not waiter.done():
                waiter.set_exception(error.again())
