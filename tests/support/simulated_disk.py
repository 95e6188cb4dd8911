"""A disk in memory for spools: what processes see of it, and what is left after a crash.

`Disk` outlives the processes, each of which has `SimulatedFiles` of its own. After a power cut a file has what was
synced, and of the later writes any pieces; a name stands for any of the files that it stood for since the
last `sync_names`. A sync that fails is the one of Linux until 2018: data that was not written is forgotten, reads show
it until memory is needed for something else, and the next sync says that all is well.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from random import Random
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

from aioprod.spool.storage import Storage
from tests.support.simulated_process import Process

__all__ = ["Crashed", "Disk", "SimulatedFiles", "failing", "run_process", "storage_of"]

PIECES: Final = (64, 512)
"""The bytes that a disk writes as a whole: a sector, and less than that."""

_T = TypeVar("_T")

Write: TypeAlias = tuple[int, bytes] | int
"""Bytes at an offset, or the size to which a file is cut."""


class Crashed(BaseException):
    """The process is dead: whatever it would still do does not happen."""


class _File:
    def __init__(self) -> None:
        self.seen = bytearray()
        """What reads return."""
        self.disk = bytearray()
        """What was synced."""
        self.writes: list[Write] = []
        """What came since."""
        self.has_lost = False
        """Whether something that is seen will never be on the disk."""

    def write(self, write: Write) -> None:
        _apply(self.seen, write)
        self.writes.append(write)

    def sync(self) -> None:
        for write in self.writes:
            _apply(self.disk, write)
        self.writes.clear()

    def sync_some(self, random: Random, *, keeps_sizes: bool = False) -> None:
        """Bring any pieces of the writes to the disk, and forget the others; `keeps_sizes`: files are cut for sure."""
        share = random.choice((0.0, 0.0, 0.1, 0.5, 0.9, 1.0))
        size = random.choice(PIECES)
        for write in self.writes:
            for piece in _pieces(write, size):
                if random.random() < share or (keeps_sizes and isinstance(piece, int)):
                    _apply(self.disk, piece)
        if len(self.disk) < len(self.seen) and random.random() < 0.3:
            self.disk.extend(bytes(len(self.seen) - len(self.disk)))
        self.writes.clear()
        self.has_lost = self.disk != self.seen

    def evict(self) -> None:
        """Read from the disk what memory had kept."""
        self.seen = bytearray(self.disk)
        for write in self.writes:
            _apply(self.seen, write)
        self.has_lost = False


class Disk:
    """A folder on a disk with so many bytes."""

    def __init__(self, random: Random, capacity: int = 1 << 40) -> None:
        self.random = random
        self.capacity = capacity
        self.names: dict[str, _File] = {}
        self.locks: dict[str, SimulatedFiles] = {}
        self._earlier: dict[str, list[_File | None]] = {}
        """What names have stood for since they were synced."""

    # --- what processes do

    def name(self, name: str, file: _File | None) -> None:
        """Let a name stand for this file, or for none."""
        self._earlier.setdefault(name, []).append(self.names.get(name))
        if file is None:
            self.names.pop(name, None)
        else:
            self.names[name] = file

    def sync_names(self) -> None:
        """Bring the names to the disk, but for those that the system has forgotten."""
        self._earlier = {name: earlier for name, earlier in self._earlier.items() if earlier[-1] is _FORGOTTEN}

    def sync_some_names(self) -> None:
        """Bring some names to the disk; of the others the disk has what it had, and never gets them."""
        for earlier in self._earlier.values():
            if self.random.random() < 0.5:
                earlier[1:] = [_FORGOTTEN]
        self.sync_names()

    @property
    def room(self) -> int:
        """The bytes that are free."""
        return self.capacity - sum(len(file.seen) for file in self.names.values())

    # --- what happens to it

    def kill(self) -> None:
        """All processes are dead. The system keeps what they have written."""
        self.locks.clear()
        self.evict()

    def evict(self) -> None:
        """Memory is needed for something else: that the system has forgotten some writes may show now."""
        for file in self.names.values():
            if file.has_lost and self.random.random() < 0.5:
                file.evict()

    def cut_power(self) -> None:
        """All processes are dead, and what was not synced is there, in part or not at all."""
        self.locks.clear()
        for name, earlier in self._earlier.items():
            if earlier[-1] is _FORGOTTEN:
                file: _File | None = earlier[0]
            else:
                some = [file for file in earlier if file is not _FORGOTTEN]
                file = self.random.choice([*some, self.names.get(name)])
            if file is None:
                self.names.pop(name, None)
            else:
                self.names[name] = file
        self._earlier.clear()
        for file in self.names.values():
            file.sync_some(self.random)
            file.evict()

    def copy(self) -> Disk:
        """Another disk with the same files."""
        other = Disk(self.random, self.capacity)
        for name, file in self.names.items():
            other.put(name, bytes(file.seen))
        return other

    def put(self, name: str, data: bytes) -> None:
        """Give a file this content, from outside."""
        file = self.names[name] = _File()
        file.seen, file.disk = bytearray(data), bytearray(data)

    def content(self, name: str) -> bytes:
        """What reads of a file return."""
        return bytes(self.names[name].seen)

    def flip(self, name: str, bit: int) -> None:
        """Change a bit of a file."""
        data = bytearray(self.content(name))
        data[bit // 8] ^= 1 << bit % 8
        self.put(name, bytes(data))


class SimulatedFiles:
    """The files of a disk as one process has them. The process crashes at the call with number `crash_at`.

    `before` is called with the name of each call and that of its file; what it raises fails the call.
    """

    def __init__(
        self, disk: Disk, *, crash_at: int | None = None, before: Callable[[str, str], None] | None = None
    ) -> None:
        self.disk = disk
        self.crash_at = crash_at
        self.before = before
        self.steps = 0
        """How many calls there were."""
        self.is_dead = False

    def crash(self) -> NoReturn:
        """From now on nothing is done any more."""
        self.is_dead = True
        raise Crashed

    def _step(self, call: str, name: str) -> None:
        if self.is_dead:
            raise Crashed
        self.steps += 1
        if self.steps == self.crash_at:
            self.crash()
        if self.before is not None:
            self.before(call, name)

    def _file(self, name: str) -> _File:
        file = self.disk.names.get(name)
        if file is None:
            raise _error(errno.ENOENT)
        return file

    # --- calls

    def sizes(self) -> Mapping[str, int]:
        """The sizes of the files."""
        self._step("sizes", "")
        return {name: len(file.seen) for name, file in self.disk.names.items()}

    def read(self, name: str, at: int, size: int) -> bytes:
        """Read what the system has."""
        self._step("read", name)
        return bytes(self._file(name).seen[at : at + size])

    def write(self, name: str, at: int, data: bytes) -> None:
        """Write; a crash or a full disk leaves some of it."""
        if self.steps + 1 == self.crash_at and not self.is_dead and name in self.disk.names:
            some = data[: self.disk.random.randint(0, len(data))]
            self.disk.names[name].write((at, some))
        self._step("write", name)
        if name not in self.disk.names:
            self.disk.name(name, _File())
        file = self._file(name)
        room = self.disk.room + max(len(file.seen) - at, 0)
        if room < len(data):
            if room > 0:
                file.write((at, data[: self.disk.random.randint(0, room)]))
            raise _error(errno.ENOSPC)
        file.write((at, data))

    def truncate(self, name: str, size: int) -> None:
        """Cut a file."""
        self._step("truncate", name)
        self._file(name).write(size)

    def sync(self, name: str) -> None:
        """Bring the writes to the disk, or forget some of them."""
        try:
            self._step("sync", name)
        except OSError:
            self._file(name).sync_some(self.disk.random, keeps_sizes=True)
            raise
        self._file(name).sync()

    def rename(self, name: str, to: str) -> None:
        """Rename a file."""
        self._step("rename", name)
        file = self._file(name)
        self.disk.name(to, file)
        self.disk.name(name, None)

    def remove(self, name: str) -> None:
        """Delete a file if it is there."""
        self._step("remove", name)
        if name in self.disk.names:
            self.disk.name(name, None)

    def sync_names(self) -> None:
        """Bring the names to the disk, or only some of them."""
        try:
            self._step("sync_names", "")
        except OSError:
            self.disk.sync_some_names()
            raise
        self.disk.sync_names()

    def done(self, name: str) -> None:
        """There are no descriptors."""

    def lock(self, name: str) -> bool:
        """Lock the folder under this name."""
        self._step("lock", name)
        if name not in self.disk.names:
            self.disk.name(name, _File())
        return self.disk.locks.setdefault(name, self) is self

    def close(self) -> None:
        """Release the locks."""
        for name in [name for name, owner in self.disk.locks.items() if owner is self]:
            del self.disk.locks[name]


class _Calls:
    """Calls in the loop what would be called in a thread; it takes up to `slow_s` seconds.

    The caller may be cancelled before it is made, and after it. A call at which the process dies never ends.
    """

    def __init__(self, files: SimulatedFiles, slow_s: float, on_crash: Callable[[], None]) -> None:
        self._files = files
        self._random = files.disk.random
        self._slow_s = slow_s
        self._on_crash = on_crash

    async def run(self, function: Callable[[], _T], *, writes: bool) -> _T:
        if self._files.is_dead:
            raise Crashed
        await self._pause()
        try:
            result = function()
        except Crashed:
            self._on_crash()
            await asyncio.get_running_loop().create_future()
            raise
        await self._pause()
        return result

    async def _pause(self) -> None:
        await asyncio.sleep(self._random.random() * self._slow_s if self._slow_s else 0)

    def close(self) -> None:
        """There are no threads."""


def storage_of(files: SimulatedFiles, *, slow_s: float = 0.0, on_crash: Callable[[], None] = lambda: None) -> Storage:
    """What a spool has of its surroundings, simulated; `on_crash` is called when its process has died by a call."""
    return Storage(files, _Calls(files, slow_s, on_crash), files.disk.random.randbytes, "folder")


async def run_process(
    files: SimulatedFiles, work: Callable[[Storage], Coroutine[Any, Any, None]], *, slow_s: float = 0.0
) -> None:
    """Run `work` until it ends or its process dies by a call of these files."""
    process = Process()
    try:
        await process.run(work(storage_of(files, slow_s=slow_s, on_crash=process.kill)))
    finally:
        files.is_dead = True


def failing(call: str, code: int, *, times: int = 1, name: str = "") -> Callable[[str, str], None]:
    """Something to do before each call: fail the first `times` ones of this kind, for names that begin so."""
    left = times

    def before(kind: str, of: str) -> None:
        nonlocal left
        if kind == call and of.startswith(name) and left:
            left -= 1
            raise _error(code)

    return before


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def _apply(data: bytearray, write: Write) -> None:
    if isinstance(write, int):
        del data[write:]
        return
    at, some = write
    if at > len(data):
        data.extend(bytes(at - len(data)))
    data[at : at + len(some)] = some


def _pieces(write: Write, size: int) -> Iterator[Write]:
    """The parts of a write that a disk may do without the others."""
    if isinstance(write, int):
        yield write
        return
    at, data = write
    begin = 0
    while begin < len(data):
        end = min(len(data), begin + size - (at + begin) % size)
        yield at + begin, data[begin:end]
        begin = end


_FORGOTTEN: Final = _File()
"""Ends the list of a name that will not be on the disk."""
