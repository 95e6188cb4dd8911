"""A program that commits transactions until it is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Final

from integration.support.shared_batches import TAKEN_OVER

__all__ = ["Life"]

_COMMIT_S: Final = 120.0
"""How long a program may take until it has committed once (more)."""


class Life:
    """One run of a program that prints a line for each commit, and "done" at its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        self.process = process
        self._errors = asyncio.create_task(process.stderr.read())

    @classmethod
    async def begin(cls, program: str, *arguments: str) -> Life:
        """Start `integration.support.PROGRAM`."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", f"integration.support.{program}", *arguments)
        return cls(await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe))

    async def commits(self, count: int | None = None) -> bool:
        """Wait for so many commits (None: all); whether it got to its end before."""
        assert self.process.stdout is not None
        while count is None or count > 0:
            async with asyncio.timeout(_COMMIT_S):
                line = await self.process.stdout.readline()
            if line in (b"done\n", b""):
                return line == b"done\n"
            count = None if count is None else count - 1
        return False

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended; it may end by itself at any time.

        By `send_signal` asyncio would reap a process that has just ended, and its watcher not find the exit code.
        """
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    async def end(self) -> None:
        """Kill it if it has not ended; what it printed before is not all that it did. It must not have failed."""
        self.signal(signal.SIGKILL)
        await self.process.wait()
        said = (await self._errors).decode()
        assert self.process.returncode in (0, TAKEN_OVER, -signal.SIGKILL), said
