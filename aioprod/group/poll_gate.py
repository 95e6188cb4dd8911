"""Mutual exclusion between the application and rebalances: the assignment changes only between two polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aioprod.group.available_records import AvailableRecords

__all__ = ["PollGate"]


class PollGate:
    """Lets either the application process records, or the runner revoke and assign partitions.

    `interrupt` makes a waiting poll return. Records `available` are withdrawn by whatever comes before the next one.
    """

    def __init__(self, interrupt: Callable[[], None], available: AvailableRecords) -> None:
        self.is_processing = False
        """The application has a record and has not polled again."""
        self.is_polling = False
        """The application waits for a record."""
        self._interrupt = interrupt
        self._available = available
        self._is_released = False
        self._is_blocked = False
        self._rebalances = 0
        self._callback_task: asyncio.Task[None] | None = None
        self._polled = asyncio.Event()
        self._unblocked = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether no record may be returned: a rebalance acts or waits for its turn, or the next step is not known."""
        return (self._is_blocked or self._rebalances > 0) and not self._is_released

    @property
    def is_quiet(self) -> bool:
        """Whether neither a poll nor a rebalance waits for the gate, so that the next record may come at once."""
        return not (self._rebalances or self._is_blocked or self.is_polling or self._is_released)

    @property
    def is_in_callback(self) -> bool:
        """Whether the current task runs a rebalance, and so one of its callbacks."""
        return self._callback_task is not None and asyncio.current_task() is self._callback_task

    def release(self) -> None:
        """Wake both sides for good; the member is closing."""
        self._available.withdraw()
        self._is_released = True
        self._polled.set()
        self._unblocked.set()

    def block(self, is_blocked: bool) -> None:
        """Return no record until the membership has decided what follows from an event."""
        self._available.withdraw()
        self._is_blocked = is_blocked
        if not is_blocked:
            self._unblocked.set()

    def begin_poll(self) -> None:
        """The application has processed its record, and waits for the next one."""
        self._available.withdraw()
        self.is_processing = False
        self.is_polling = True
        if self._rebalances:
            self._polled.set()

    def end_poll(self, *, has_record: bool) -> None:
        """The poll returns a record, which the application processes, or it raises."""
        self.is_processing = has_record
        self.is_polling = False

    async def wait_until_open(self) -> None:
        """Wait until records may be returned."""
        while self.is_closed:
            self._unblocked.clear()
            await self._unblocked.wait()

    @asynccontextmanager
    async def between_polls(self) -> AsyncIterator[None]:
        """Wait until the application polls; no record is returned before the end of the block."""
        self._available.withdraw()
        self._rebalances += 1
        try:
            while self.is_processing and not self._is_released:
                self._polled.clear()
                await self._polled.wait()
            if self.is_polling:
                self._interrupt()
            self._callback_task = asyncio.current_task()
            yield
        finally:
            self._callback_task = None
            self._rebalances -= 1
            self._unblocked.set()
