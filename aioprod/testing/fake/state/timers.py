"""Timers of a fake cluster, by the event loop's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Cancel", "Timers"]

Cancel = Callable[[], None]
"""Cancels a scheduled call; without effect once it has run."""


class Timers:
    """Scheduled calls; exceptions that they raise go to `errors`."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors
        self._handles: set[asyncio.TimerHandle] = set()

    @staticmethod
    def now() -> float:
        """The loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def later(self, delay_s: float, work: Callable[[], None]) -> Cancel:
        """Call `work` in `delay_s` seconds, unless it is cancelled or `close` is called before."""

        def run() -> None:
            self._handles.discard(handle)
            try:
                work()
            except Exception as error:
                self._errors.append(error)

        def cancel() -> None:
            self._handles.discard(handle)
            handle.cancel()

        handle = asyncio.get_running_loop().call_later(delay_s, run)
        self._handles.add(handle)
        return cancel

    def close(self) -> None:
        """Cancel all calls that have not run yet."""
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()
