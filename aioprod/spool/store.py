"""An opened spool: the files of a folder, with what writes, reads and trims them. It is a relay's source."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from aioprod.errors import AioprodError, BufferFullError, RecordTooLargeError, SpoolError
from aioprod.spool.files import is_full
from aioprod.spool.gathering import Forming, Gathering
from aioprod.spool.layout import GROUP_BYTES, SEGMENT_BYTES, SUFFIX, Group
from aioprod.spool.notes import Note, read_id
from aioprod.spool.reading import Position, SpoolReader
from aioprod.spool.segments import Segments
from aioprod.spool.storage import Storage, unusable
from aioprod.spool.writing import GroupCommit, GroupWriter, Written
from aioprod.types import ProducerRecord
from aioprod.wire.buffer import Buffer

__all__ = ["Limits", "Store"]

_T = TypeVar("_T")

_POLL_S: Final = 0.1
"""How often to look for what another process has written, or removed."""
_OVERHEAD: Final = GROUP_BYTES + SEGMENT_BYTES
"""What the next group may have beside its records."""
_CALL_MAX: Final = 1 << 31
"""The bytes of one call's records at most: a group's header has 32 bits for them."""


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

    def __init__(self, storage: Storage, limits: Limits, spool_id: bytes, segments: Segments) -> None:
        self._storage = storage
        self._files = storage.files
        self._limits = limits
        self._segments = segments
        self.spool_id: Final = spool_id
        self._commit: GroupCommit | None = None
        self._writer: GroupWriter | None = None
        self._reader: SpoolReader | None = None
        self._gathering = Gathering(limits.max_bytes - _OVERHEAD, limits.pending_bytes)
        self.delivered_position: Position | None = None
        """Up to here records are in Kafka, as far as the folder knows."""
        self._delivered = Note(storage, "delivered", segments.seed)
        self._ended = Note(storage, "end", segments.seed)
        """The last record of a spool that was closed."""
        self._tail_at = 0
        """Where the last group ends."""
        self._on_durable: Callable[[Group], None] | None = None
        self._more = asyncio.Event()
        self._freed = asyncio.Event()
        self._turn = asyncio.Lock()

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
            _lock(storage, "writer.lock", writes)
            _lock(storage, "reader.lock", reads)
            spool_id = read_id(storage, may_create=writes)
            store = Store(storage, limits, spool_id, Segments(storage.files, spool_id))
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
            store._writer = writer
            store._commit = GroupCommit(writer, storage, store._note_durable, on_failed or _ignore, store._gathering)
            store._on_durable = on_durable
        if reads:
            end = None if writer is None else store._end
            store._reader = SpoolReader(storage.files, store._segments, end, lambda: store.delivered_number)
        return store

    def _open_files(self, writes: bool) -> GroupWriter | None:
        self._delivered.read()
        self._ended.read()
        known = max(self._delivered.number, self._ended.number)
        self._segments.list()
        writer = None
        if not writes:
            self._segments.check(known)
        else:
            tail = self._segments.recover(known)
            self._tail_at = tail.at
            segment_bytes = self._limits.segment_bytes
            writer = GroupWriter(self._files, self._segments, tail, segment_bytes, self._storage.random_bytes)
        self._measure()
        self.delivered_position = self._delivered.position
        first = self._segments.heads[0]
        if first.base - 1 > self._delivered.number:  # A crash, or a full disk, has left the segments without the note.
            self.delivered_position = Position(first.base - 1, first.previous)
        return writer

    async def close(self) -> None:
        """Write what waits, note the end, and unlock the folder."""
        if self._commit is not None:
            await self._commit.close()
        with suppress(OSError):
            await self.run(self._note)
        await self._storage.close()

    def _note(self) -> None:
        if self._writer is not None and self._writer.failure is None:
            self._ended.write(Position(self.last_number, self._writer.tail.previous))
        if self._reader is not None and self.delivered_position is not None:
            self._delivered.write(self.delivered_position)

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
        return 0 if self.delivered_position is None else self.delivered_position.number

    @property
    def last_number(self) -> int:
        """The number of the last record that is on the disk, 0 without one."""
        return self._end() - 1

    @property
    def failure(self) -> SpoolError | None:
        """Why nothing is accepted any more; None while all is well."""
        return None if self._writer is None else self._writer.failure

    def _end(self) -> int:
        return 1 if self._writer is None else self._writer.tail.number

    # --- writing

    def add(self, data: Buffer, records: int, waiter: Written | None, *, is_urgent: bool = True) -> None:
        """Write these encoded records soon.

        Raises BufferFullError where there is no room, RecordTooLargeError where there may never be, and SpoolError
        after a failure. It is urgent where a caller waits for just these. `waiter` is notified once of what became of
        them; without one `on_failed` has the records that could not be kept.
        """
        if self._turn.locked() or not self._has_room(len(data)):
            raise self._full(len(data))
        self._added(data, records, waiter, is_urgent)

    async def add_in_turn(
        self, data: Buffer, records: int, waiter: Written | None, timeout: float, *, is_urgent: bool = True
    ) -> None:
        """The same; waits for room, after those that wait already."""
        if not self._turn.locked() and self._has_room(len(data)):
            self._added(data, records, waiter, is_urgent)
            return
        try:
            async with asyncio.timeout(timeout), self._turn:
                while not self._has_room(len(data)):
                    if isinstance(full := self._full(len(data)), RecordTooLargeError):
                        raise full
                    await self._until_freed()
                self._added(data, records, waiter, is_urgent)
        except TimeoutError:
            raise self._full(len(data)) from None

    async def drain(self) -> None:
        """Return when everything that was added is on the disk."""
        assert self._commit is not None
        await self._commit.drain()

    def write_now(self) -> None:
        """Write at once what is not urgent and waits for more."""
        assert self._commit is not None
        self._commit.write_now()

    def _added(self, data: Buffer, records: int, waiter: Written | None, is_urgent: bool) -> None:
        assert self._commit is not None
        self._commit.add(data, records, waiter, is_urgent=is_urgent)

    def _has_room(self, size: int) -> bool:
        """Whether there is room; raises SpoolError after a failure."""
        if self.failure is not None:
            raise self.failure.again()
        return size <= _CALL_MAX and self._gathering.has_room(size)

    def _full(self, size: int) -> AioprodError:
        limits = self._limits
        # The last segment is not removed, so this much is free when all is delivered.
        most = min(limits.max_bytes - limits.segment_bytes - _OVERHEAD, _CALL_MAX)
        if size > most:
            return RecordTooLargeError(
                f"A record of {size} bytes may never have room in the spool {self._storage.name}, whose max_bytes are "
                f"{limits.max_bytes}: {most} is what is free when all is delivered.",
                hint="Give it more max_bytes, or smaller segment_bytes.",
            )
        held = self._gathering.file_bytes + self._gathering.pending_bytes
        if held + size + _OVERHEAD > limits.max_bytes:
            return BufferFullError(
                f"The spool {self._storage.name} holds {held} bytes, and a record of {size} would exceed its "
                f"max_bytes, {limits.max_bytes}.",
                hint="Room comes back as records are delivered: is Kafka away? Or give it more max_bytes.",
            )
        return BufferFullError(
            f"{limits.pending_bytes} bytes of records wait for the disk of the spool {self._storage.name}.",
            hint="Wait for room with `await drain()`, or use `await send()`.",
        )

    async def _until_freed(self) -> None:
        self._freed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL_S):
                await self._freed.wait()
        if self._reader is None:
            await self.run(self._measure)

    def _note_durable(self, group: Group) -> None:
        # The header of a segment counts with its first group.
        size = group.size + GROUP_BYTES if group.at == self._tail_at else group.end
        self._gathering.file_bytes += size
        self._tail_at = group.end
        self._more.set()
        self._freed.set()
        if self._on_durable is not None:
            self._on_durable(group)

    # --- reading: a relay's source

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        """The records behind this position. Raises MarkerError, SpoolError, OSError."""
        reader = self._reader
        assert reader is not None
        self._more.clear()
        return await self.run(lambda: reader.read(after, limit))

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
        if self._delivered.position is None or (len(head) > 1 and head[1].base <= place.number + 1):
            freed = await self.run(lambda: self._trim(place))
            self._gathering.file_bytes -= freed
            self._freed.set()

    def _trim(self, position: Position) -> int:
        try:
            self._delivered.write(position)
        except OSError as error:
            if not is_full(error):  # Else there is room for the note when the segments are gone.
                raise
        return self._segments.trim(position.number)

    def _measure(self) -> None:
        sizes = self._files.sizes()
        self._gathering.file_bytes = sum(size for name, size in sizes.items() if name.endswith(SUFFIX))

    async def run(self, function: Callable[[], _T]) -> _T:
        """Call a function that uses the files, in a thread."""
        return await self._storage.run(function)


def _ignore(forming: Forming, error: AioprodError) -> None:
    """All records have waiters."""


def _lock(storage: Storage, name: str, wanted: bool) -> None:
    if wanted and not storage.files.lock(name):
        raise SpoolError(
            f"Another process has the spool {storage.name} open.",
            hint="Give each process a folder of its own, or have one `aioprod spool drain` relay them all.",
        )
