"""Mutual exclusion between the application and rebalances: the assignment changes only between two polls."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aioprod.group.available_records import AvailableRecords
from aioprod.group.unfinished import Unfinished

__all__ = ["PollGate"]


class PollGate:
    """Lets either the application process records, or the runner revoke and assign partitions.

    `interrupt` makes a waiting poll return. Records `available` are withdrawn by whatever comes before the next one.
    """

    def __init__(self, interrupt: Callable[[], None], available: AvailableRecords, unfinished: Unfinished) -> None:
        self.is_processing = False
        """The application has a record and has not polled again."""
        self.is_polling = False
        """The application waits for a record."""
        self._interrupt = interrupt
        self._available = available
        self._unfinished = unfinished
        self._is_ending = False
        """No more records are returned."""
        self._is_released = False
        """Rebalances no longer wait for the application."""
        self._poller: weakref.ref[asyncio.Task[Any]] | None = None
        """The task that polled last."""
        self._is_blocked = False
        self._rebalances = 0
        self._callback_task: asyncio.Task[None] | None = None
        self._polled = asyncio.Event()
        self._ended = asyncio.Event()
        """No poll is to come, or none that would return records."""
        self._unblocked = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether no record may be returned: a rebalance acts or waits for its turn, or the next step is not known."""
        return (self._is_blocked or self._rebalances > 0) and not self._is_ending

    @property
    def is_quiet(self) -> bool:
        """Whether neither a poll nor a rebalance waits for the gate, so that the next record may come at once."""
        return not (self._rebalances or self._is_blocked or self.is_polling or self._is_ending)

    @property
    def is_in_callback(self) -> bool:
        """Whether the current task runs a rebalance, and so one of its callbacks."""
        return self._callback_task is not None and asyncio.current_task() is self._callback_task

    @property
    def has_callback(self) -> bool:
        """Whether a rebalance runs, in any task."""
        return self._callback_task is not None

    @property
    def _is_poller(self) -> bool:
        return self._poller is not None and self._poller() is asyncio.current_task()

    def polls_no_more(self) -> None:
        """The current task does not poll any more: if it has before, what is in its hand stays unfinished."""
        if self._is_poller:
            self._ended.set()

    def end_polls(self) -> None:
        """Return no more records: this poll and each later one ends at once."""
        self._available.withdraw()
        self._is_ending = True
        self._unblocked.set()

    def release(self) -> None:
        """Wake both sides for good; the member is closing."""
        self.end_polls()
        self._is_released = True
        self._polled.set()
        self._ended.set()

    async def until_finished(self, timeout_s: float) -> None:
        """After `end_polls`: wait until the application has finished what is in its hand, for `timeout_s` at most.

        It has when it polls again, and that poll ends. None is to come when the task that polled has ended, or is the
        one that waits.
        """
        poller = None if self._poller is None else self._poller()
        if not (self.is_processing or self.is_polling) or poller is None or poller.done() or self._is_poller:
            return
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait([ended, poller], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()

    def block(self, is_blocked: bool) -> None:
        """Return no record until the membership has decided what follows from an event."""
        self._available.withdraw()
        self._is_blocked = is_blocked
        if not is_blocked:
            self._unblocked.set()

    def begin_poll(self) -> None:
        """The application has processed its record, and waits for the next one."""
        self._available.withdraw()
        self._unfinished.polled()
        self.is_processing = False
        self.is_polling = True
        task = asyncio.current_task()
        self._poller = None if task is None else weakref.ref(task)
        if self._rebalances:
            self._polled.set()

    def end_poll(self, *, has_record: bool) -> None:
        """The poll returns a record, which the application processes, or it raises."""
        self.is_processing = has_record
        self.is_polling = False
        if self._is_ending and not has_record:
            self._ended.set()

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
