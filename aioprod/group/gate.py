"""Who may act now: the user, who works at a record, or the group, which gives partitions up and takes others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["Gate"]


class Gate:
    """Keeps the two apart: the group acts between two records only, and no record is given out meanwhile.

    `is_away` while the user holds a record, `is_waiting` while one is asked for. `interrupt` has the iterator that
    waits for a record come back.
    """

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.is_away = False
        self.is_waiting = False
        self._interrupt = interrupt
        self._is_open = False
        self._is_held = False
        self._wanted = 0
        self._group: asyncio.Task[None] | None = None
        self._user_came = asyncio.Event()
        self._group_went = asyncio.Event()

    @property
    def is_taken(self) -> bool:
        """Whether the group acts, waits for the user to be done, or does not know yet whether it has to."""
        return (self._is_held or self._wanted > 0) and not self._is_open

    @property
    def is_inside(self) -> bool:
        """Whether it is the group that runs just now: one of its callbacks."""
        return self._group is not None and asyncio.current_task() is self._group

    def open(self) -> None:
        """Nobody waits for the other any longer: the member is at its end."""
        self._is_open = True
        self._user_came.set()
        self._group_went.set()

    def hold(self, is_held: bool) -> None:
        """Something has happened: no record is given out before it is known what the group makes of it."""
        self._is_held = is_held
        if not is_held:
            self._group_went.set()

    def came(self) -> None:
        """The user is done with the record."""
        self.is_away = False
        if self._wanted:
            self._user_came.set()

    async def free(self) -> None:
        """Wait until the group has acted."""
        while self.is_taken:
            self._group_went.clear()
            await self._group_went.wait()

    @asynccontextmanager
    async def between_records(self) -> AsyncIterator[None]:
        """Wait for the user to be done with the record; none is given out before the end of the block."""
        self._wanted += 1
        try:
            while self.is_away and not self._is_open:
                self._user_came.clear()
                await self._user_came.wait()
            if self.is_waiting:
                self._interrupt()
            self._group = asyncio.current_task()
            yield
        finally:
            self._group = None
            self._wanted -= 1
            self._group_went.set()
