"""A condition variable of the event loop, with a timeout and without a lock."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Any

__all__ = ["Waiters"]


class Waiters:
    """Callers that wait for a change; each re-checks its own condition when it is woken."""

    def __init__(self) -> None:
        # In order of arrival, which is the order in which they are woken.
        self._waiters: dict[asyncio.Future[None], None] = {}

    async def wait(self, timeout_s: float, futures: Iterable[asyncio.Future[Any]] = ()) -> None:
        """Wait for `notify_all`, or until one of `futures` is done, for `timeout_s` at most (infinity: no limit)."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        timeout = None if math.isinf(timeout_s) else max(0.0, timeout_s)
        try:
            await asyncio.wait([waiter, *futures], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiters[waiter]

    def notify_all(self) -> None:
        """Wake all waiters so that they re-check their condition."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
