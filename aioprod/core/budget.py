"""The one byte counter of a producer, and the queue of those who wait for it."""

from __future__ import annotations

from collections import deque

__all__ = ["MemoryBudget", "RoomRequest"]


class RoomRequest:
    """Somebody waits until `size` bytes are free, to `keep` them or just to know; `waiter` is opaque here."""

    __slots__ = ("granted", "keep", "size", "waiter")

    def __init__(self, size: int, waiter: object, keep: bool) -> None:
        self.size = size
        self.keep = keep
        self.waiter = waiter
        self.granted = False


class MemoryBudget:
    """Counts the encoded bytes of accepted records that have no outcome yet, up to `limit` (`buffer.memory`).

    Who waits for room is served in order, and nobody who comes later overtakes: a record that would fit is refused
    while an older one waits, or has been granted its room and not taken it yet. Granted room is reserved until its
    owner takes it or gives it back. `open_to` is what `used` may come to by newcomers: the limit, or -1 while there is
    a line or room is reserved. `refused` is the size of the largest record that found no room since somebody last
    waited for it.
    """

    __slots__ = ("limit", "open_to", "records", "refused", "reserved", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open_to = limit
        self.used = 0
        self.records = 0
        self.reserved = 0
        self.refused = 0
        self.waiting: deque[RoomRequest] = deque()

    def fits(self, size: int) -> bool:
        """Whether a record of at most `size` bytes may be taken now."""
        return self.used + size <= self.open_to

    def take(self, size: int, records: int = 1) -> None:
        """Count `size` bytes of so many records."""
        self.used += size
        self.records += records

    def release(self, size: int, records: int) -> None:
        """Give back `size` bytes of `records` records that were taken before."""
        self.used -= size
        self.records -= records
        assert self.used >= 0, "bytes were released twice"
        assert self.records >= 0, "records were released twice"

    def wait(self, size: int, waiter: object, *, keep: bool = True) -> RoomRequest:
        """Stand in line for `size` bytes."""
        request = RoomRequest(size, waiter, keep)
        self.waiting.append(request)
        self._reopen()
        return request

    def grant(self) -> list[RoomRequest]:
        """Those at the head of the line that fit now; the bytes of those that keep them are reserved."""
        granted: list[RoomRequest] = []
        while self.waiting and self.used + self.reserved + self.waiting[0].size <= self.limit:
            request = self.waiting.popleft()
            if request.keep:
                request.granted = True
                self.reserved += request.size
            granted.append(request)
        self._reopen()
        return granted

    def leave(self, request: RoomRequest) -> None:
        """Leave the line, or give granted room back (its owner takes the bytes of its record itself)."""
        if request.granted:
            request.granted = False
            self.reserved -= request.size
        elif request in self.waiting:
            self.waiting.remove(request)
        self._reopen()

    def dissolve(self) -> list[RoomRequest]:
        """End the line: return its waiters, none of which gets room."""
        waiting = list(self.waiting)
        self.waiting.clear()
        self._reopen()
        return waiting

    def _reopen(self) -> None:
        self.open_to = -1 if self.waiting or self.reserved else self.limit
