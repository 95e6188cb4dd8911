"""A process within an event loop: a coroutine, and all tasks that it starts. Killed, none of them goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, copy_context
from typing import Any, Final

__all__ = ["Process"]

_CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
_ROUNDS_MAX: Final = 100
"""How often a task may catch that it is cancelled."""


class Process:
    """Runs one coroutine."""

    def __init__(self) -> None:
        self.is_dead = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._death = asyncio.Event()
        self.context = copy_context()
        """In which its callbacks are called: what they start is the process's, too."""
        self.context.run(_CURRENT.set, self)

    def kill(self) -> None:
        """Let nothing of it go on, from now on."""
        self.is_dead = True
        self._death.set()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` until it ends, or the process is killed; raises what it raises. Nothing of it is left then."""
        asyncio.get_running_loop().set_task_factory(_new_task)  # type: ignore[arg-type]
        working = self.context.run(asyncio.ensure_future, work)
        dying = asyncio.ensure_future(self._death.wait())
        try:
            await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
            has_ended = working.done() and not self.is_dead
        finally:
            self.is_dead = True
            dying.cancel()
            await self._end_tasks()
        if has_ended:
            await working
        elif not working.cancelled():
            working.exception()  # It was killed as it ended.

    async def _end_tasks(self) -> None:
        for _ in range(_ROUNDS_MAX):
            if not self._tasks:
                return
            for task in list(self._tasks):
                task.cancel()
            await asyncio.sleep(0)
        raise AssertionError(f"These tasks can't be cancelled: {self._tasks}")

    def own(self, task: asyncio.Task[Any]) -> None:
        """Add a task to the process."""
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        if self.is_dead:
            task.cancel()

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self.is_dead and not task.cancelled():
            task.exception()  # Nobody is left to look at it.


def _new_task(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, **options)
    process = _CURRENT.get()
    if process is not None:
        process.own(task)
    return task
