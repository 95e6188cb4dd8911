"""Calls that may never return, such as those of a user's function, in at most one thread."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar, cast

__all__ = ["OneThread"]

_T = TypeVar("_T")


class OneThread:
    """Runs the calls of one source in at most one thread of the event loop's executor.

    A thread can't be cancelled: a call that hangs keeps its thread after a timeout. If each retry used another one, the
    executor would soon be exhausted, and certificates, name look-ups and SCRAM need it too.
    """

    def __init__(self) -> None:
        self._running: asyncio.Future[Any] | None = None

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run `call` once the previous call has ended; return or raise its result."""
        while self._running is not None and not self._running.done():
            await asyncio.wait((self._running,))
        return await self.joined(call)

    async def joined(self, call: Callable[[], _T]) -> _T:
        """Return or raise the result of the call that is still running; if there is none, run `call`."""
        if self._running is None or self._running.done():
            context = contextvars.copy_context()
            self._running = asyncio.get_running_loop().run_in_executor(None, context.run, call)
            self._running.add_done_callback(_seen)
        return cast(_T, await asyncio.shield(self._running))


def _seen(ended: asyncio.Future[Any]) -> None:
    """Retrieve the exception: after a timeout there is no waiter, and asyncio would log it."""
    if not ended.cancelled():
        ended.exception()
