"""Bringing records to the disk: all that wait are one group, which is written and synced by one call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from aioprod._logger import Logger
from aioprod.errors import AioprodError, BufferFullError, SpoolError
from aioprod.spool.files import Files, is_disk_full
from aioprod.spool.gathering import NOW, Forming, Gathering
from aioprod.spool.layout import GROUP_BYTES, NAME_BYTES, SEGMENT_BYTES, Group, Segment, file_name, group_header
from aioprod.spool.reading import Position
from aioprod.spool.segments import Segments, Tail
from aioprod.spool.storage import Storage
from aioprod.wire.buffer import Buffer

__all__ = ["GroupCommit", "GroupWriter", "Written"]

_logger = Logger("aioprod.spool")

_LINGER_S: Final = 0.005
"""How long records that no caller waits for wait for others."""


class Written(Protocol):
    """Is notified of what became of some records."""

    def kept(self, first: Position) -> None:
        """They are on the disk, and have numbers from this one on."""
        ...

    def failed(self, error: AioprodError) -> None:
        """They are not on the disk, or that is not known: `error.may_be_stored` says it."""
        ...


class GroupWriter:
    """Writes groups to the end of the last segment."""

    def __init__(
        self, files: Files, segments: Segments, tail: Tail, segment_bytes: int, new_name: Callable[[int], bytes]
    ) -> None:
        self._files = files
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._new_name = new_name
        self.tail = tail
        self._is_rolling = False
        """Whether a segment was begun, and that has failed: its file may be there, and nothing goes before it."""
        self.failure: SpoolError | None = None
        """Why nothing can be written until the spool is opened again."""

    def write(self, parts: Sequence[Buffer], count: int) -> Group:
        """Write records, and return when they are on the disk. Blocks.

        Raises BufferFullError where the disk has no room; the next call may be more lucky. Raises SpoolError where the
        disk does not do what it should: what is on it is not known then, and every later call raises the same.
        """
        if self.failure is not None:
            raise self.failure.again()
        size = sum(map(len, parts))
        try:
            is_full = self.tail.has_records and self.tail.at + GROUP_BYTES + size > self._segment_bytes
            if is_full or self._is_rolling:
                self._roll()
            group = Group(self.tail.at, self.tail.number, count, size, self._new_name(NAME_BYTES))
            self._append(b"".join((group_header(group, self._segments.seed), *parts)))
            self._files.sync(self.tail.name)
        except _NoRoomError as error:
            raise BufferFullError(
                f"The disk of the spool has no room for {size} bytes more: {error.strerror}.",
                hint="Nothing that it holds is lost. Room comes back as records are delivered.",
            ) from error
        except Exception as error:  # of any type: what is on the disk is not known
            raise self._fail(error) from error
        previous = group.name if count else self.tail.previous
        self.tail = Tail(self.tail.name, group.end, group.next, previous)
        return group

    @property
    def is_segment_full(self) -> bool:
        """Whether the last segment has more than it should: it can be removed only when another one follows it."""
        return self.tail.has_records and self.tail.at >= self._segment_bytes

    def end_segment(self) -> None:
        """Begin a segment while there is nothing to write. Blocks. A failure is that of the next `write`."""
        if self.failure is not None:
            return
        try:
            self._roll()
        except _NoRoomError:
            pass
        except Exception as error:
            self._fail(error)

    def _append(self, data: bytes) -> None:
        try:
            self._files.write(self.tail.name, self.tail.at, data)
        except OSError as error:
            if not is_disk_full(error):
                raise
            # Synced, as the next group may go to another segment, and this one would end with a part of a group.
            self._files.truncate(self.tail.name, self.tail.at)
            self._files.sync(self.tail.name)
            raise _NoRoomError(*error.args) from error

    def _roll(self) -> None:
        """Begin a segment. All groups before it are on the disk."""
        segment = Segment(self.tail.number, self.tail.previous)
        self._is_rolling = True
        try:
            self._segments.begin(segment)
        except OSError as error:
            if is_disk_full(error):
                raise _NoRoomError(*error.args) from error
            raise
        self._is_rolling = False
        self._files.done(self.tail.name)
        self.tail = self.tail._replace(name=file_name(segment.base), at=SEGMENT_BYTES)

    def _fail(self, error: Exception) -> SpoolError:
        """Fail for good: after an error the system may forget what it has not written, and say that all is well."""
        with suppress(OSError):  # No other process is to read what is shown and may not be on the disk.
            self._files.truncate(self.tail.name, self.tail.at)
        reason = error.strerror if isinstance(error, OSError) else ""
        self.failure = SpoolError(
            f"The spool could not bring {self.tail.name} to the disk: {reason or repr(error)}.",
            hint="What it has acknowledged is on the disk. Start the process again when the disk is well.",
        )
        self.failure.may_be_stored = True
        _logger.error("%s Nothing is accepted until the spool is opened again.", self.failure)
        return self.failure.again()


class _NoRoomError(OSError):
    """The disk has no room, and all that was written before is as it was."""


class GroupCommit:
    """Collects records while a group is on its way to the disk, and makes them the next one.

    `on_durable` is called for each group on the disk, before its waiters; `on_failed` for each that is not, after them.
    """

    def __init__(
        self,
        writer: GroupWriter,
        storage: Storage,
        on_durable: Callable[[Group], None],
        on_failed: Callable[[Forming, AioprodError], None],
        gathering: Gathering,
    ) -> None:
        self._gathering = gathering
        self._writer = writer
        self._storage = storage
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._done = 0
        """How many records were written, or have failed."""
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self.lingering: asyncio.TimerHandle | None = None
        """Will write what was gathered; None where nothing waits for others."""
        self._task = self._started()

    def begin(self, when: int) -> None:
        """Write what was gathered `NOW`, or `LATER`: within some milliseconds."""
        if when == NOW:
            self._wake.set()
        elif self.lingering is None:
            self.lingering = asyncio.get_running_loop().call_later(_LINGER_S, self.write_now)

    def write_now(self) -> None:
        """Write at once what waits."""
        if self.lingering is not None:
            self.lingering.cancel()
            self.lingering = None
        self._wake.set()

    async def drain(self) -> None:
        """Return when everything that was added before is written, or has failed."""
        last = self._gathering.added
        self.write_now()
        while self._done < last:
            if self._task.done():  # A loop that ends has cancelled it: what was accepted is written all the same.
                self._wake.set()
                self._task = self._started()
            self._moved.clear()
            await self._moved.wait()

    async def close(self) -> None:
        """Write what waits, and end."""
        await self.drain()
        self._task.cancel()
        await asyncio.wait([self._task])

    def _started(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._write_all(), name="aioprod spool writes")
        task.add_done_callback(lambda _: self._moved.set())
        return task

    async def _write_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for _ in range(len(self._gathering.groups)):
                forming = self._gathering.groups.popleft()
                try:
                    await self._write(forming)
                finally:
                    self._done += forming.records
                    self._moved.set()
                if self._writer.is_segment_full:
                    await self._storage.run(self._writer.end_segment, writes=True)

    async def _write(self, forming: Forming) -> None:
        try:
            group = await self._storage.run(lambda: self._writer.write(forming.parts, forming.records), writes=True)
        except AioprodError as error:
            self._gathering.pending_bytes -= forming.size
            for _, _, waiter in forming.waiters:
                waiter.failed(error)
            self._on_failed(forming, error)
            return
        self._gathering.pending_bytes -= forming.size
        self._on_durable(group)
        for index, _, waiter in forming.waiters:
            waiter.kept(Position(group.base + index, group.name))
