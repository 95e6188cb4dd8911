"""What the iterator of a member hears of the group: errors to raise, and that the member is at its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from aioprod.group.fetcher import Fetcher
from aioprod.group.following import Following
from aioprod.group.gate import Gate
from aioprod.group.runner import Runner

__all__ = ["Outlet"]


class Outlet:
    """Stands between what runs in the background and the iterator.

    Apart from the member, so that nothing that runs refers to that: one that its users let go of is noticed.
    `errors` are to be raised one by one, `failure` ended the member.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        self.gate = Gate(self.look_again)
        self.errors: deque[Exception] = deque()
        self.failure: BaseException | None = None
        self.is_closing = False
        self._closing = asyncio.Event()
        self._fetcher = fetcher

    async def run(self, runner: Runner, following: Following) -> None:
        """Let the member take part in its group until it has left; no record is given out after that."""
        try:
            # What it joins with is known then; it would have to join a second time.
            await self._unless_closing(following.begin())
            await runner.run(following.run())
        except Exception as error:
            self.failure = error
        finally:
            self.close()

    def close(self) -> None:
        """Give out no more records; the iterator that waits for one comes back."""
        self.is_closing = True
        self._closing.set()
        self.gate.open()
        self.look_again()

    async def _unless_closing(self, work: Coroutine[Any, Any, None]) -> None:
        """Do that; break it off when the member is closed."""
        task, closing = asyncio.create_task(work), asyncio.create_task(self._closing.wait())
        try:
            await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            for one in (task, closing):
                one.cancel()
            await asyncio.wait([task, closing])

    def failed(self, error: Exception) -> None:
        """Raise this where the next record is asked for."""
        self.errors.append(error)
        self.look_again()

    def look_again(self) -> None:
        """Have the iterator that waits for a record come back."""
        if self.gate.is_waiting:
            self._fetcher.interrupt()
