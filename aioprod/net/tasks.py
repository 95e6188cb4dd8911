"""Background tasks whose exceptions are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["Supervisor"]


class Supervisor:
    """Owns background tasks: calls `failed` with the exception of any of them, and cancels them all on `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[BaseException], object]) -> None:
        self._loop = loop
        self.failed = failed
        # In order: a simulation runs the same way each time.
        self._tasks: dict[asyncio.Task[None], None] = {}

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run `work` in the background; `failed` is called with its exception, except cancellation."""
        task = self._loop.create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
