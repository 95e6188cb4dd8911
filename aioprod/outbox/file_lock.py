"""A lock between the processes of one machine: a file that one of them has locked."""

from __future__ import annotations

import asyncio
import fcntl
import os
from typing import Final

from aioprod._logger import Logger

__all__ = ["FileLock"]

_logger = Logger("aioprod.outbox")

_AGAIN_S: Final = 0.1
"""How often a process that waits for the lock tries."""


class FileLock:
    """Held from `acquire` to `release`, or until the process dies."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    async def acquire(self) -> None:
        """Wait until no other process has it; raises OSError where the file can't be created."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(descriptor):
                _logger.info("Another relay has %s; this one waits for its end.", self._path)
                while not _locked(descriptor):  # noqa: ASYNC110  # no event of this process
                    await asyncio.sleep(_AGAIN_S)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Let another process have it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
