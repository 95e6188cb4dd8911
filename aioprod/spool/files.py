"""The files of one folder: what a spool does with a disk, and nothing else."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Final, Protocol
from weakref import WeakSet

from aioprod.errors import SpoolError

try:
    import fcntl
except ImportError as error:
    raise ImportError("Spools need flock(), which Linux and macOS have, and this system has not.") from error

__all__ = [
    "READER",
    "TEMPORARY",
    "WRITER",
    "Files",
    "FolderFiles",
    "is_disk_full",
    "is_locked",
    "lock",
    "put",
    "replace",
]

WRITER: Final = "writer.lock"
READER: Final = "reader.lock"

TEMPORARY: Final = ".tmp"
"""The suffix of files that are being written: one that is found later is not whole, and means nothing."""
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What systems say of a disk that has no room."""


class Files(Protocol):
    """The files of a folder by name. Calls block, and raise OSError; what was not synced is gone after a power cut."""

    def sizes(self) -> Mapping[str, int]:
        """The names of all files, and their sizes in bytes."""
        ...

    def read(self, name: str, at: int, size: int) -> bytes:
        """These bytes of a file, fewer at its end."""
        ...

    def write(self, name: str, at: int, data: bytes) -> None:
        """Write all of `data` at an offset; creates the file. Where that fails, some of it may be written."""
        ...

    def truncate(self, name: str, size: int) -> None:
        """Cut a file."""
        ...

    def sync(self, name: str) -> None:
        """Return when all that was written to a file is on the disk."""
        ...

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of the file that has it."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file."""
        ...

    def sync_names(self) -> None:
        """Return when creations, renames and removals are on the disk."""
        ...

    def done(self, name: str) -> None:
        """Keep nothing open for a file: it is not written to or synced any more."""
        ...

    def lock(self, name: str) -> bool:
        """Lock the folder under a name, for as long as the process lives or until `close`; False if another has it."""
        ...

    def close(self) -> None:
        """Close all files, and release the locks."""
        ...


def replace(files: Files, name: str, data: bytes) -> None:
    """Give a file this content: after a crash it has either the old one or all of the new one."""
    temporary = name + TEMPORARY
    files.remove(temporary)  # A crash may have left a longer one.
    files.write(temporary, 0, data)
    put(files, temporary, name)


def put(files: Files, temporary: str, name: str) -> None:
    """Give a file that is whole its name, when all of it is on the disk."""
    files.sync(temporary)
    files.rename(temporary, name)
    files.sync_names()


def is_disk_full(error: OSError) -> bool:
    """Whether the disk has no room."""
    return error.errno in _FULL


def lock(files: Files, name: str, folder: str) -> None:
    """Lock a folder under a name; raises SpoolError where another process has it."""
    if not files.lock(name):
        raise SpoolError(
            f"Another process has the spool {folder} open.",
            hint="Give each process a folder of its own, or have one `aioprod spool drain` relay them all.",
        )


class FolderFiles:
    """A folder of the system, which is created if it is not there."""

    def __init__(self, folder: Path) -> None:
        _create(folder)
        self._folder = folder
        self._open: dict[str, int] = {}
        self._locks: list[int] = []
        _opened.add(self)
        # Also a check that the folder can be read; and renames are synced by it.
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sizes(self) -> Mapping[str, int]:
        """The names of all files, and their sizes in bytes."""
        found = {}
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # Another process has removed it.
                    if entry.is_file():
                        found[entry.name] = entry.stat().st_size
        return found

    def read(self, name: str, at: int, size: int) -> bytes:
        """These bytes of a file, fewer at its end."""
        # Opened each time: a thread that reads shares no descriptor with the one that writes.
        descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size, at)
        finally:
            os.close(descriptor)

    def write(self, name: str, at: int, data: bytes) -> None:
        """Write all of `data` at an offset; creates the file."""
        descriptor = self._descriptor_of(name, os.O_CREAT)
        left = memoryview(data)
        while left:
            written = os.pwrite(descriptor, left, at)
            left, at = left[written:], at + written

    def truncate(self, name: str, size: int) -> None:
        """Cut a file."""
        os.ftruncate(self._descriptor_of(name, 0), size)

    def sync(self, name: str) -> None:
        """Return when all that was written to a file is on the disk."""
        descriptor = self._descriptor_of(name, 0)
        _sync_data(descriptor)
        if os.fstat(descriptor).st_nlink == 0:  # The next start would not find what is in it.
            raise FileNotFoundError(errno.ENOENT, "the file was removed", name)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name, in place of the file that has it."""
        self.done(name)
        self.done(to)
        os.rename(self._folder / name, self._folder / to)

    def remove(self, name: str) -> None:
        """Delete a file."""
        self.done(name)
        (self._folder / name).unlink(missing_ok=True)

    def sync_names(self) -> None:
        """Return when creations, renames and removals are on the disk."""
        os.fsync(self._descriptor)

    def done(self, name: str) -> None:
        """Keep nothing open for a file."""
        found = self._open.pop(name, None)
        if found is not None:
            os.close(found)

    def lock(self, name: str) -> bool:
        """Lock the folder under a name; the system gives the lock up when the process dies."""
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_ours = _locked(descriptor, fcntl.LOCK_EX)
            if not is_ours:
                sleep(_GLANCE_S)
                is_ours = _locked(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        if is_ours:
            self._locks.append(descriptor)
        else:
            os.close(descriptor)
        return is_ours

    def close(self) -> None:
        """Close all files, and release the locks."""
        for name in list(self._open):
            self.done(name)
        self.unlock()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def unlock(self) -> None:
        """Release the locks."""
        while self._locks:
            os.close(self._locks.pop())

    def _descriptor_of(self, name: str, flags: int) -> int:
        found = self._open.get(name)
        if found is None:
            found = self._open[name] = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        return found


_opened: WeakSet[FolderFiles] = WeakSet()


def _after_fork() -> None:
    """A child of this process has its locks, too: a worker that outlives it would keep the next one out."""
    for files in list(_opened):
        files.unlock()


os.register_at_fork(after_in_child=_after_fork)


def _create(folder: Path) -> None:
    """Create a folder, and bring its name and those of new folders above it to the disk."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _create(folder.parent)
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_locked(folder: Path, name: str) -> bool:
    """Whether a process has a folder locked under a name. It is looked at for a moment, for which `lock` waits."""
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


_GLANCE_S: Final = 0.02
"""Longer than `is_locked` takes."""


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_data(descriptor: int) -> None:
    """Where the system has a call that also empties the cache of the disk, use it; else the one for data alone."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)
