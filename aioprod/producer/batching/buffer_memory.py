"""The memory of a producer: the one counter of bytes, the queues of callers that wait for bytes, and the buffers."""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from aioprod.errors import BufferFullError, RecordTooLargeError
from aioprod.producer.batching.stuck_share import StuckShare, enqueue
from aioprod.records.layout import HEADER, PREFIX
from aioprod.wire import memory

if TYPE_CHECKING:
    from aioprod.producer.batching.partition import Partition, Topic

__all__ = [
    "BUFFER_OVERHEAD",
    "BufferPool",
    "MemoryBudget",
    "Reservation",
    "buffer_full",
    "record_too_large",
    "stuck_full",
]

BUFFER_OVERHEAD: Final = PREFIX + HEADER + 1
"""Bytes of a buffer that hold no record: room for the Produce prefix, the batch header, one byte for a tag section."""

_SMALL: Final = 1024


class Reservation:
    """A caller that waits until so many bytes are free."""

    __slots__ = ("arrived", "granted", "is_held_back", "keep", "place", "shares", "since", "size", "waiter")

    def __init__(
        self, size: int, waiter: object, keep: bool, place: Partition | Topic | None = None, arrived: int = 0
    ) -> None:
        self.size = size
        """The bytes that it waits for."""
        self.keep = keep
        """Whether they are reserved for it once they are free."""
        self.waiter = waiter
        """What the caller waits on: the budget does not look at it."""
        self.place = place
        """What the caller's record is for, as far as that is known."""
        self.is_held_back = False
        """Whether it waits in `StuckShare.waiting`, or has, as that was stuck."""
        self.arrived = arrived
        """How many callers had come before it. One that has to wait again keeps the number, and so its order."""
        self.since = 0.0
        """When the caller began to wait, in monotonic seconds; kept by `MemoryWaiters`."""
        self.shares = False
        """Whether they are reserved for it in the share of what is stuck."""
        self.granted = False
        """Whether they are reserved for it now."""

    @property
    def is_stuck(self) -> bool:
        """Whether what it is for counts as stuck."""
        return self.place is not None and self.place.stuck_since is not None


class MemoryBudget:
    """Counts the encoded bytes of accepted records that have no outcome yet.

    Waiters are served in order, and no later record overtakes: one that would fit is rejected while an older one waits,
    or has been granted bytes that it has not taken yet. Granted bytes are reserved until their owner takes or returns
    them. Callers whose record is for something stuck wait in `stuck` until they may join the others.
    """

    __slots__ = ("_arrivals", "limit", "open_to", "records", "rejected", "reserved", "stuck", "used", "waiting")

    def __init__(self, limit: int, stuck: StuckShare | None = None) -> None:
        self.limit = limit
        """The bytes of `buffer.memory`."""
        self.stuck = StuckShare(limit) if stuck is None else stuck
        self.open_to = limit
        """Up to where new records may raise `used`: `capacity`, or -1 while callers wait or bytes are reserved."""
        self.used = 0
        """The bytes of the accepted records."""
        self.records = 0
        """How many these are."""
        self.reserved = 0
        """The bytes that were granted and not taken yet."""
        self.rejected = 0
        """The size of the largest record that did not fit since a caller last waited for it."""
        self.waiting: deque[Reservation] = deque()
        self._arrivals = 0

    @property
    def capacity(self) -> int:
        """`limit`, and what stuck records hold beyond their share: they took it when nothing moved, or before it was
        known that they are stuck. So others find the rest of the memory, once: what was given to them on top and is
        stuck by now is not made good again."""
        return self.limit + min(self.stuck.excess, self.limit - self.stuck.limit)

    def fits(self, size: int) -> bool:
        """Whether a record of at most `size` bytes may be taken now."""
        return self.used + size <= self.open_to

    def take(self, size: int, records: int = 1) -> None:
        """Count `size` bytes of so many records."""
        self.used += size
        self.records += records

    def release(self, size: int, records: int) -> None:
        """Return `size` bytes of `records` records that were taken before."""
        self.used -= size
        self.records -= records
        assert self.used >= 0, "bytes were released twice"
        assert self.records >= 0, "records were released twice"

    def wait(
        self,
        size: int,
        waiter: object,
        *,
        keep: bool = True,
        place: Partition | Topic | None = None,
        earlier: Reservation | None = None,
    ) -> Reservation:
        """Queue for `size` bytes, for a record for `place`; where the caller had an `earlier` one, in its order."""
        if earlier is None:
            self._arrivals += 1
        arrived = self._arrivals if earlier is None else earlier.arrived
        reservation = Reservation(size, waiter, keep, place, arrived)
        if reservation.is_stuck:
            self.stuck.hold_back([reservation])
        else:
            enqueue(self.waiting, reservation)
            self._reopen()
        return reservation

    def stuck_changed(self) -> None:
        """What is stuck was looked at: hold back callers whose partition is stuck now, release those whose moves again.

        So those for the same partition are in the same queue, and keep their order.
        """
        if self.stuck.held:
            stuck = [one for one in self.waiting if one.is_stuck and not one.shares]
            if stuck:
                self.waiting = deque(one for one in self.waiting if not one.is_stuck or one.shares)
                self.stuck.hold_back(stuck)
        if self.stuck.waiting:
            self.waiting = deque(sorted([*self.waiting, *self.stuck.admit()], key=attrgetter("arrived")))
        else:
            self.stuck.reopen()
        self._reopen()

    def grant(self) -> list[Reservation]:
        """Dequeue the first reservations that fit now; the bytes of those that keep them are reserved."""
        granted: list[Reservation] = []
        while self.waiting and self.used + self.reserved + self.waiting[0].size <= self.capacity:
            reservation = self.waiting.popleft()
            if reservation.keep:
                reservation.granted = True
                self.reserved += reservation.size
            granted.append(reservation)
        self._reopen()
        self.stuck.reopen()
        return granted

    def end(self, reservation: Reservation) -> None:
        """Leave the queue, or return granted bytes (their owner takes the bytes of its record itself)."""
        if reservation.granted:
            reservation.granted = False
            self.reserved -= reservation.size
        elif reservation in self.waiting:
            self.waiting.remove(reservation)
        if reservation.is_held_back:
            self.stuck.end(reservation)
        self._reopen()

    def begin_turn(self, reservation: Reservation) -> None:
        """Return granted bytes, and let their owner take all that is free, until `grant` is called."""
        self.end(reservation)
        self.open_to = self.capacity - self.reserved
        if reservation.is_held_back:
            self.stuck.begin_turn()

    def dissolve(self) -> list[Reservation]:
        """Empty the queues and return their reservations, none of which is granted."""
        waiting = [*self.waiting, *self.stuck.waiting]
        self.waiting.clear()
        self.stuck.waiting.clear()
        self._reopen()
        self.stuck.reopen()
        return waiting

    def _reopen(self) -> None:
        self.open_to = -1 if self.waiting or self.reserved else self.capacity


class BufferPool:
    """Hands out bytearrays for `batch.size`, and larger ones for batches that grow; keeps some of them for reuse.

    Reusing a buffer saves the page faults of a fresh one. A partition that gets one record holds about a kilobyte,
    not a full batch, so that ten thousand partitions fit in memory. The next size is the full one, as it is not
    zeroed: pages of it that are never written cost nothing, while each size in between would be copied.
    """

    __slots__ = ("_grown", "_grown_kept", "_kept_max", "free", "free_max", "full_size")

    def __init__(self, batch_size: int, kept_max: int) -> None:
        self.full_size = PREFIX + max(batch_size, HEADER) + 1
        """The bytes of a buffer for a full batch."""
        self.free: list[bytearray] = []
        """The full-size buffers that nothing uses now."""
        self.free_max = kept_max // self.full_size
        """How many of these are kept: they take `kept_max` bytes at most."""
        self._grown: dict[int, list[bytearray]] = {}
        """The larger buffers that nothing uses now, by their length."""
        self._grown_kept = 0
        """The bytes of these."""
        self._kept_max = kept_max

    def acquire(self, need: int) -> bytearray:
        """A buffer with room for `need` record bytes: a recycled one, else a small, a full, or a larger one."""
        if self.free and need + BUFFER_OVERHEAD <= self.full_size:
            return self.free.pop()
        size = need + BUFFER_OVERHEAD
        if size <= self.full_size:
            size = _SMALL if size <= _SMALL < self.full_size else self.full_size
        return memory.room(size)

    def larger(self, buffer: bytearray, need: int) -> bytearray | None:
        """A buffer to grow into, with room for `need` record bytes, or None when `buffer` is at its full size."""
        if len(buffer) >= self.full_size or need + BUFFER_OVERHEAD > self.full_size:
            return None
        return self.acquire(max(need, len(buffer)))

    def release(self, buffer: bytearray) -> None:
        """Take back a buffer that nothing reads any more."""
        size = len(buffer)
        if size == self.full_size:
            if len(self.free) < self.free_max:
                self.free.append(buffer)
        elif size in self._grown:
            self._release_grown(buffer, size)

    def acquire_grown(self, size: int) -> bytearray:
        """A buffer of `size` bytes for a batch that grows: there are few such sizes."""
        kept = self._grown.setdefault(size, [])
        if not kept:
            return memory.room(size)
        self._grown_kept -= size
        return kept.pop()

    def _release_grown(self, buffer: bytearray, size: int) -> None:
        """Keep a larger buffer; those of other sizes make room for it, as this size is in use now."""
        for others in self._grown.values():
            while self._grown_kept + size > self._kept_max and others and len(others[0]) != size:
                self._grown_kept -= len(others.pop())
        if self._grown_kept + size <= self._kept_max:
            self._grown[size].append(buffer)
            self._grown_kept += size


def record_too_large(topic: str, bound: int, size_max: int, buffer_memory: int) -> RecordTooLargeError:
    """A record of up to `bound` bytes fits into no request of `size_max` bytes, or not into the whole memory."""
    if bound + HEADER > size_max:
        return RecordTooLargeError(
            f"A record for topic {topic!r} takes up to {bound + HEADER} bytes with its batch header, more than "
            f"max.request.size={size_max}.",
            hint="Send smaller values, or raise max.request.size together with the topic's max.message.bytes.",
        )
    return RecordTooLargeError(
        f"A record for topic {topic!r} takes up to {bound} bytes, more than buffer.memory={buffer_memory}.",
        hint="Send smaller values, or raise buffer.memory, which has room for all records that are not delivered yet.",
    )


def buffer_full(topic: str, bound: int, budget: MemoryBudget, now: float) -> BufferFullError:
    """A record of up to `bound` bytes does not fit now, in monotonic seconds."""
    largest = budget.stuck.largest(now)
    return BufferFullError(
        f"buffer.memory={budget.limit} is used up: {budget.records} records with {budget.used} bytes wait for "
        f"their delivery, and the next one, for topic {topic!r}, needs up to {bound} bytes"
        f"{'; ' + largest if largest else ''}.",
        hint="Await producer.drain() or send(), which wait for room, or raise buffer.memory.",
    )


def stuck_full(topic: str, bound: int, budget: MemoryBudget, now: float) -> BufferFullError:
    """A record of up to `bound` bytes for something stuck does not fit now, in monotonic seconds."""
    share = budget.stuck
    return BufferFullError(
        f"Records that can't be delivered now hold {share.used} bytes of buffer.memory={budget.limit}, and the rest is "
        f"for those that can: {share.largest(now)}. The next one, for topic {topic!r}, needs up to {bound} bytes.",
        hint="producer.explain() says what a partition waits for; buffer.memory.stuck.fraction is the share that such "
        "records may have.",
    )
