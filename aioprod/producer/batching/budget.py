"""The one byte counter of a producer, and the queue of the callers that wait for bytes."""

from __future__ import annotations

from collections import deque

from aioprod.errors import BufferFullError, RecordTooLargeError
from aioprod.records.layout import HEADER

__all__ = ["MemoryBudget", "MemoryRequest", "buffer_full", "record_too_large"]


class MemoryRequest:
    """A caller that waits until `size` bytes are free, and gets them reserved if `keep`; `waiter` is opaque here."""

    __slots__ = ("granted", "keep", "size", "waiter")

    def __init__(self, size: int, waiter: object, keep: bool) -> None:
        self.size = size
        self.keep = keep
        self.waiter = waiter
        self.granted = False


class MemoryBudget:
    """Counts the encoded bytes of accepted records that have no outcome yet, up to `limit` (`buffer.memory`).

    Waiters are served in order, and no later record overtakes: one that would fit is rejected while an older one waits,
    or has been granted bytes that it has not taken yet. Granted bytes are reserved until their owner takes or returns
    them. A new record is taken while `used` with it is at most `open_to`: that is `limit`, or -1, which lets none in,
    while callers wait or bytes are reserved. `rejected` is the size of the largest record that did not fit since a
    caller last waited for it.
    """

    __slots__ = ("limit", "open_to", "records", "rejected", "reserved", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open_to = limit
        self.used = 0
        self.records = 0
        self.reserved = 0
        self.rejected = 0
        self.waiting: deque[MemoryRequest] = deque()

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

    def wait(self, size: int, waiter: object, *, keep: bool = True) -> MemoryRequest:
        """Queue for `size` bytes."""
        request = MemoryRequest(size, waiter, keep)
        self.waiting.append(request)
        self._reopen()
        return request

    def grant(self) -> list[MemoryRequest]:
        """Dequeue the first requests that fit now; the bytes of those that keep them are reserved."""
        granted: list[MemoryRequest] = []
        while self.waiting and self.used + self.reserved + self.waiting[0].size <= self.limit:
            request = self.waiting.popleft()
            if request.keep:
                request.granted = True
                self.reserved += request.size
            granted.append(request)
        self._reopen()
        return granted

    def leave(self, request: MemoryRequest) -> None:
        """Leave the queue, or return granted bytes (their owner takes the bytes of its record itself)."""
        if request.granted:
            request.granted = False
            self.reserved -= request.size
        elif request in self.waiting:
            self.waiting.remove(request)
        self._reopen()

    def dissolve(self) -> list[MemoryRequest]:
        """Empty the queue and return its requests, none of which is granted."""
        waiting = list(self.waiting)
        self.waiting.clear()
        self._reopen()
        return waiting

    def _reopen(self) -> None:
        self.open_to = -1 if self.waiting or self.reserved else self.limit


def record_too_large(topic: str, bound: int, size_max: int, memory: int) -> RecordTooLargeError:
    """A record of up to `bound` bytes fits into no request of `size_max` bytes, or not into the whole memory."""
    if bound + HEADER > size_max:
        return RecordTooLargeError(
            f"A record for topic {topic!r} takes up to {bound + HEADER} bytes with its batch header, more than "
            f"max.request.size={size_max}.",
            hint="Send smaller values, or raise max.request.size together with the topic's max.message.bytes.",
        )
    return RecordTooLargeError(
        f"A record for topic {topic!r} takes up to {bound} bytes, more than buffer.memory={memory}.",
        hint="Send smaller values, or raise buffer.memory, which has room for all records that are not delivered yet.",
    )


def buffer_full(topic: str, bound: int, budget: MemoryBudget) -> BufferFullError:
    """A record of up to `bound` bytes does not fit now."""
    return BufferFullError(
        f"buffer.memory={budget.limit} is used up: {budget.records} records with {budget.used} bytes wait for "
        f"their delivery, and the next one, for topic {topic!r}, needs up to {bound} bytes.",
        hint="Await producer.drain() or send(), which wait for room, or raise buffer.memory.",
    )
