"""An opened spool: the files of a folder, with what writes, reads and trims them. It is a relay's source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aioprod._logger import Logger
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    MarkerError,
    ProducerClosedError,
    RecordTooLargeError,
    SpoolError,
)
from aioprod.relay.columns import ColumnRows
from aioprod.spool.files import READER, WRITER, is_disk_full, lock
from aioprod.spool.gathering import NO_ROOM, NOW, Forming, Gathering
from aioprod.spool.layout import GROUP_BYTES, SEGMENT_BYTES, SUFFIX, Group, file_name
from aioprod.spool.notes import DELIVERED, END, Identity, create_id, noted_number, read_id, read_note, write_note
from aioprod.spool.reading import Position, SpoolReader
from aioprod.spool.segments import Segments
from aioprod.spool.storage import Storage, unusable
from aioprod.spool.writing import GroupCommit, GroupWriter, Written
from aioprod.wire.buffer import Buffer

__all__ = ["Limits", "Store"]

_logger = Logger("aioprod.spool")

_T = TypeVar("_T")

_OVERHEAD: Final = GROUP_BYTES + SEGMENT_BYTES
"""What the next group may have beside its records."""
_POLL_S: Final = 0.1
"""How often to look for what another process has written, or removed."""


@dataclass(frozen=True)
class Limits:
    """How much a spool may hold."""

    max_bytes: int
    """The bytes of all segments."""
    segment_bytes: int
    pending_bytes: int
    """The bytes in memory that are not on the disk."""


class Store:
    """An opened spool. It writes, reads, or both: another process may do the other.

    As a `Source`, its owner is the folder's id, and a position is the number of a record and the name of its group.
    """

    def __init__(self, storage: Storage, limits: Limits, identity: Identity) -> None:
        self._storage = storage
        self.files: Final = storage.files
        self._limits = limits
        self._segments = Segments(storage.files, identity.spool_id)
        self.spool_id: Final = identity.spool_id
        self._begin: Final = identity.begin
        self._commit: GroupCommit | None = None
        self._writer: GroupWriter | None = None
        self._end = 1
        """The number of the next record. A thread that reads must not see one before its caller was notified."""
        self._reader: SpoolReader | None = None
        self._gathering = Gathering(limits.max_bytes - _OVERHEAD, limits.pending_bytes)
        self._sizes: dict[str, int] = {}
        """The bytes of each segment."""
        self.delivered_position: Position | None = None
        """Up to here records are in Kafka, as far as the folder knows."""
        self._noted = 0
        """The number that the folder's note has."""
        self._on_durable: Callable[[Group], None] | None = None
        self._on_failed: Callable[[Forming, AioprodError], None] | None = None
        self._more = asyncio.Event()
        self._freed = asyncio.Event()
        self._turn = asyncio.Lock()
        self._waiting = 0
        """How many calls wait for room."""
        self._is_closing = False
        self._looking: asyncio.Task[None] | None = None

    @staticmethod
    async def open(
        storage: Storage,
        limits: Limits,
        *,
        writes: bool = True,
        reads: bool = True,
        on_durable: Callable[[Group], None] | None = None,
        on_failed: Callable[[Forming, AioprodError], None] | None = None,
    ) -> Store:
        """Lock the folder, and find the end of its records.

        Raises SpoolError for a folder that another process has, that can't be written, or that is damaged; UsageError.
        """

        def opened() -> tuple[Store, GroupWriter | None]:
            if not writes:
                read_id(storage.files, storage.name)  # A folder that is no spool gets no file of a lock.
            for name, is_locked in ((WRITER, writes), (READER, reads)):
                if is_locked:
                    lock(storage.files, name, storage.name)
            if writes:
                create_id(storage.files, storage.random_bytes)
            store = Store(storage, limits, read_id(storage.files, storage.name))
            return store, store._open_files(writes)

        try:
            store, writer = await storage.run(opened)
        except OSError as error:
            await storage.close()
            raise unusable(storage.name, error) from error
        except BaseException:
            await storage.close()
            raise
        if writer is not None:
            store._writer, store._end = writer, writer.tail.number
            store._commit = GroupCommit(writer, storage, store._note_durable, store._note_failed, store._gathering)
            store._on_durable, store._on_failed = on_durable, on_failed
        if reads:
            end = None if writer is None else lambda: store._end
            store._reader = SpoolReader(
                storage.files, store._segments, end, lambda: store.delivered_number, store._begin
            )
        else:
            store._looking = asyncio.create_task(store._look_on(), name="aioprod spool looks")
        return store

    def _open_files(self, writes: bool) -> GroupWriter | None:
        self._read_delivered()
        self._segments.list()
        writer = None
        known = max(self._noted, noted_number(self.files, END))
        if not writes:
            self._segments.check(known)
        else:
            tail = self._segments.recover(known)
            segment_bytes = self._limits.segment_bytes
            writer = GroupWriter(self.files, self._segments, tail, segment_bytes, self._storage.random_bytes)
        self._note_removed()
        self._measure()
        return writer

    async def close(self) -> None:
        """Write what waits, seal the end, and unlock the folder. Calls that wait for room raise ProducerClosedError."""
        self._is_closing = True
        self._open_intake()
        self._freed.set()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._commit is not None and self._writer is not None:
            await self._commit.close()
            if self._writer.failure is None:
                with suppress(SpoolError, BufferFullError, OSError):
                    await self.run(self._seal, writes=True)
        if self._reader is not None:
            with suppress(OSError):
                await self.run(self._note_delivered)
        await self._storage.close()

    # --- what is known

    @property
    def owner(self) -> str:
        """Whose positions these are."""
        return f"spool-{self.spool_id.hex()}"

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return self._gathering.file_bytes

    @property
    def delivered_number(self) -> int:
        """The number up to which records are in Kafka, as far as the folder knows; 0 without one."""
        return self._begin - 1 if self.delivered_position is None else self.delivered_position.number

    @property
    def name(self) -> str:
        """The folder, for messages."""
        return self._storage.name

    @property
    def last_number(self) -> int:
        """The number of the last record that is on the disk, 0 without one."""
        return self._end - 1

    @property
    def failure(self) -> SpoolError | None:
        """Why nothing is accepted any more; None while all is well."""
        return None if self._writer is None else self._writer.failure

    # --- writing

    def add(self, data: Buffer, records: int, waiter: Written | None, *, is_urgent: bool = True) -> None:
        """Write these encoded records soon.

        Raises BufferFullError where there is no room, RecordTooLargeError where there may never be, SpoolError after a
        failure, and ProducerClosedError. It is urgent where a caller waits for just these. `waiter` is notified once of
        what became of them; without one `on_failed` has the records that could not be kept.
        """
        when = self._gathering.add(data, records, waiter, is_urgent)
        if when == NO_ROOM:
            raise self._not_taken(len(data))
        self._begin_write(when)

    async def add_in_turn(
        self, data: Buffer, records: int, waiter: Written | None, timeout: float, *, is_urgent: bool = True
    ) -> None:
        """The same; waits for room, after those that wait already."""
        when = self._gathering.add(data, records, waiter, is_urgent)
        if when == NO_ROOM:
            self._check_size(len(data))
            self._gathering.is_open = False
            self._waiting += 1
            try:
                async with asyncio.timeout(timeout), self._turn:
                    await self._until_room(len(data))
                    when = self._gathering.add_in_turn(data, records, waiter, is_urgent)
            except TimeoutError:
                raise self._not_taken(len(data)) from None
            finally:
                self._waiting -= 1
                self._open_intake()
        self._begin_write(when)

    async def drain(self) -> None:
        """Return when everything that was added is on the disk."""
        assert self._commit is not None
        await self._commit.drain()

    def write_now(self) -> None:
        """Write at once what is not urgent and waits for more."""
        assert self._commit is not None
        self._commit.write_now()

    def _begin_write(self, when: int) -> None:
        commit = self._commit
        assert commit is not None
        if when == NOW or commit.lingering is None:
            commit.begin(when)

    async def _until_room(self, size: int) -> None:
        """Wait for room; raises SpoolError after a failure, and ProducerClosedError."""
        while True:
            self._check_open()
            if self._gathering.has_room(size):
                return
            self._freed.clear()
            await self._freed.wait()

    def _check_size(self, size: int) -> None:
        """Raise RecordTooLargeError for what may never have room: the last segment stays when all is delivered."""
        limits = self._limits
        most = limits.max_bytes - limits.segment_bytes - _OVERHEAD
        if size > most:
            raise RecordTooLargeError(
                f"A record of {size} bytes may never have room in the spool {self.name}, whose max_bytes are "
                f"{limits.max_bytes}: {most} is what is free when all is delivered.",
                hint="Give it more max_bytes, or smaller segment_bytes.",
            )

    def _check_open(self) -> None:
        if self.failure is not None:
            raise self.failure.again()
        if self._is_closing:
            raise ProducerClosedError(f"The spool {self.name} was closed before the record was taken: it is not kept.")

    def _open_intake(self) -> None:
        self._gathering.is_open = self._waiting == 0 and self.failure is None and not self._is_closing

    def _not_taken(self, size: int) -> BufferFullError:
        self._check_open()
        self._check_size(size)
        return self._full(size)

    def _full(self, size: int) -> BufferFullError:
        limits = self._limits
        held = self.size + self._gathering.pending_bytes
        if held + size + _OVERHEAD > limits.max_bytes:
            return BufferFullError(
                f"The spool {self.name} holds {held} bytes, and a record of {size} would exceed its max_bytes, "
                f"{limits.max_bytes}.",
                hint="Room comes back as records are delivered: is Kafka away? Or give it more max_bytes.",
            )
        return BufferFullError(
            f"{limits.pending_bytes} bytes of records wait for the disk of the spool {self.name}.",
            hint="Wait for room with `await drain()`, or use `await send()`.",
        )

    def _note_durable(self, group: Group) -> None:
        assert self._writer is not None
        name = self._writer.tail.name
        self._end = group.next
        self._gathering.file_bytes += group.end - self._sizes.get(name, 0)
        self._sizes[name] = group.end
        self._more.set()
        self._freed.set()
        if self._on_durable is not None:
            self._on_durable(group)

    def _note_failed(self, forming: Forming, error: AioprodError) -> None:
        self._open_intake()
        self._freed.set()
        if self._on_failed is not None:
            self._on_failed(forming, error)

    def _seal(self) -> None:
        assert self._writer is not None
        self._writer.write((), 0)
        if self.last_number >= self._begin:
            write_note(self.files, END, Position(self.last_number, self._writer.tail.previous))

    # --- reading: a relay's source

    async def read(self, after: bytes | None, limit: int) -> ColumnRows:
        """The records behind this position. Raises MarkerError, SpoolError, OSError."""
        reader = self._reader
        assert reader is not None
        self._more.clear()
        return await self.run(lambda: reader.read(after, limit))

    @property
    def passed(self) -> int:
        """The number up to which all records were read, or can't be."""
        assert self._reader is not None
        return self._reader.passed

    async def wait(self) -> None:
        """Return when there may be more records than the last `read` has returned."""
        if self._writer is not None:
            await self._more.wait()
        else:
            await asyncio.sleep(_POLL_S)

    async def delivered(self, position: bytes) -> None:
        """Everything up to this position is in Kafka for good: remove the segments that have nothing else.

        Raises MarkerError where it is none of this spool, OSError.
        """
        place, reader = Position.of(position), self._reader
        assert reader is not None
        if place.number > reader.known:
            await self.run(lambda: reader.read(position, 0))
        if place.number > self.delivered_number:
            self.delivered_position = place
        head = self._segments.heads
        if self._noted == 0 or (len(head) > 1 and head[1].base <= self.delivered_number + 1):
            await self.run(self._trim)
            self._forget_before(self._segments.heads[0].base)

    def _trim(self) -> None:
        try:
            self._note_delivered()
        except OSError as error:
            if not is_disk_full(error):  # Else there is room for it when the segments are gone.
                raise
        self._segments.trim(self.delivered_number, None if self._writer is None else self._writer.tail.name)

    def _forget_before(self, base: int) -> None:
        """The segments before this one are gone."""
        first = file_name(base)
        for name in [name for name in self._sizes if name < first]:
            self._gathering.file_bytes -= self._sizes.pop(name)
            self._freed.set()

    # --- beside another process that relays

    async def _look_on(self) -> None:
        """Follow what that process removes, and how far it is."""
        while True:
            await asyncio.sleep(_POLL_S)
            with suppress(OSError, AioprodError):  # What is wrong was said at the start, or a relay will say it.
                base, self.delivered_position = await self.run(self._look)
                self._forget_before(base)

    def _look(self) -> tuple[int, Position | None]:
        self._segments.list()
        return self._segments.heads[0].base, read_note(self.files, DELIVERED)

    # --- small files

    def _note_delivered(self) -> None:
        position = self.delivered_position
        if position is not None and position.number > self._noted:
            write_note(self.files, DELIVERED, position)
            self._noted = position.number

    def _read_delivered(self) -> None:
        try:
            self.delivered_position = position = read_note(self.files, DELIVERED)
        except MarkerError:
            _logger.warning(
                "The file %r of the spool %s is damaged: how many records wait is not known before the marker is read.",
                DELIVERED,
                self.name,
            )
        else:
            self._noted = 0 if position is None else position.number

    def _note_removed(self) -> None:
        """Segments that were removed were delivered: a crash, or a full disk, may have left an earlier note."""
        heads = self._segments.heads
        if heads and heads[0].base - 1 > self.delivered_number:
            self.delivered_position = Position(heads[0].base - 1, heads[0].previous)

    def _measure(self) -> None:
        sizes = self.files.sizes()
        self._sizes = {name: size for name, size in sizes.items() if name.endswith(SUFFIX)}
        self._gathering.file_bytes = sum(self._sizes.values())

    async def run(self, function: Callable[[], _T], *, writes: bool = False) -> _T:
        """Call a function that uses the files, in a thread."""
        return await self._storage.run(function, writes=writes)
