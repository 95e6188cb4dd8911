"""A coroutine as a command: SIGINT and SIGTERM cancel it, so that it can close its clients in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["fast_loop", "run_command"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def fast_loop() -> LoopFactory | None:
    """What makes the loops of uvloop, None where that is not installed: asyncio's own are used then.

    For commands that move many records: importing it costs the others more than it saves.
    """
    try:
        from uvloop import new_event_loop
    except ImportError:
        return None
    factory: LoopFactory = new_event_loop
    return factory


def run_command(command: Coroutine[Any, Any, int], loop_factory: LoopFactory | None = None) -> int:
    """Run a command on an event loop of its own; returns its exit status.

    SIGTERM does what SIGINT (Ctrl-C) does: it cancels the command, once. Raises KeyboardInterrupt after that.
    """

    async def watched() -> int:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()

        is_ended = False

        def end() -> None:
            nonlocal is_ended
            is_ended = True
            task.cancel()

        with contextlib.suppress(NotImplementedError):  # Windows has no handlers of signals.
            loop.add_signal_handler(signal.SIGTERM, end)
        try:
            return await command
        except asyncio.CancelledError:
            if is_ended:
                raise KeyboardInterrupt from None
            raise

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(watched())
