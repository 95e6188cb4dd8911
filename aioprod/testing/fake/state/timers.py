"""What a fake cluster does later, by the event loop's own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["CallOff", "Timers"]

CallOff = Callable[[], None]
"""Makes a call that is to come not happen; harmless once it has."""


class Timers:
    """Calls to come; what they raise goes to `errors`."""

    def __init__(self, errors: list[Exception]) -> None:
        self._errors = errors
        self._handles: set[asyncio.TimerHandle] = set()

    @staticmethod
    def now() -> float:
        """The loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def later(self, delay_s: float, work: Callable[[], None]) -> CallOff:
        """Call `work` in `delay_s` seconds, unless it is called off or `close` comes first."""

        def run() -> None:
            self._handles.discard(handle)
            try:
                work()
            except Exception as error:
                self._errors.append(error)

        def call_off() -> None:
            self._handles.discard(handle)
            handle.cancel()

        handle = asyncio.get_running_loop().call_later(delay_s, run)
        self._handles.add(handle)
        return call_off

    def close(self) -> None:
        """Forget all that has not happened yet."""
        for handle in self._handles:
            handle.cancel()
        self._handles.clear()
