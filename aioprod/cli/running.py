"""A coroutine as a command: SIGINT and SIGTERM cancel it, so that it can close its clients in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

__all__ = ["run_command"]


def run_command(command: Coroutine[Any, Any, int]) -> int:
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

    return asyncio.run(watched())
