"""Calls that may never return, such as those of a user's function, in one thread at most."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["OneThread"]

_T = TypeVar("_T")


class OneThread:
    """One thread of the loop's executor, for the calls of one source.

    A thread can't be ended: a call that hangs keeps its own after a time-out. With another thread for each try they
    would all be taken before long, and certificates, names and SCRAM have need of them, too.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], _T]) -> _T:
        """What `call` returns or raises, once the call before it has ended."""
        while self._running is not None and not self._running.done():
            await asyncio.wait((self._running,))
        return await self.joined(call)

    async def joined(self, call: Callable[[], _T]) -> _T:
        """What the call that still runs returns or raises; if none does, what `call` does."""
        if self._running is None or self._running.done():
            context = contextvars.copy_context()
            self._running = asyncio.get_running_loop().run_in_executor(None, context.run, call)
            self._running.add_done_callback(_seen)
        return cast(_T, await asyncio.shield(self._running))


def _seen(ended: asyncio.Future[Any]) -> None:
    """Retrieve the exception: after a time-out there is no waiter, and asyncio would log it."""
    if not ended.cancelled():
        ended.exception()
