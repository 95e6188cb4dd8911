"""What a spool has of its surroundings: files, threads and random numbers. The simulation has others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from aioprod._logger import Logger
from aioprod.errors import SpoolError
from aioprod.spool.files import Files, FolderFiles

__all__ = ["Storage", "Threads", "unusable"]

_logger = Logger("aioprod.spool")

_T = TypeVar("_T")

_IN_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_MOUNTS: Final = Path("/proc/self/mountinfo")


class Threads(Protocol):
    """Runs functions that block."""

    def run(self, function: Callable[[], _T], /) -> Awaitable[_T]:
        """Call it in a thread."""
        ...

    def close(self) -> None:
        """End the threads when they are idle."""
        ...


class Storage:
    """The files of one folder, and what runs their calls."""

    def __init__(self, files: Files, threads: Threads, random_bytes: Callable[[int], bytes], name: str) -> None:
        self._threads = threads
        self.files: Final = files
        self.random_bytes: Final = random_bytes
        self.name: Final = name
        """The folder, for messages."""

    @classmethod
    async def of_folder(cls, folder: Path) -> Self:
        """A folder of the system, created if it is not there; raises SpoolError where it can't be used.

        Warns of a folder that is in memory: the system has nothing to bring to a disk there.
        """
        threads = _TwoThreads()
        try:
            files = await threads.run(lambda: FolderFiles(folder))
            kind = await threads.run(lambda: _file_system(folder))
        except OSError as error:
            threads.close()
            raise unusable(str(folder), error) from error
        if kind in _IN_MEMORY:
            _logger.warning(
                "The folder %s of a spool is in memory (%s): what it holds is lost when the machine restarts. "
                "Give a folder on a disk.",
                folder,
                kind,
            )
        return cls(files, threads, os.urandom, str(folder))

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a function that uses the files."""
        return await self._threads.run(function)

    async def close(self) -> None:
        """Close the files, and release the locks."""
        await self.run(self.files.close)
        self._threads.close()


class _TwoThreads:
    """One writes while the other reads."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(2, "aioprod spool")
        self._loop = asyncio.get_running_loop()

    def run(self, function: Callable[[], _T]) -> Awaitable[_T]:
        return self._loop.run_in_executor(self._executor, function)

    def close(self) -> None:
        self._executor.shutdown(wait=False)


def unusable(name: str, error: OSError) -> SpoolError:
    """The error for a folder that the system does not let this process use."""
    return SpoolError(
        f"The folder {name} can't be used as a spool: {error.strerror or error}.",
        hint="Give a folder that this process may read and write, on a disk with room.",
    )


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder is on, "" where the system does not say it as Linux does."""
    if not _MOUNTS.exists():
        return ""
    best, kind = "", ""
    path = str(folder.resolve())
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        fields = line.split(" ")
        place = fields[4].replace("\\040", " ")
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, fields[fields.index("-") + 1]
    return kind
