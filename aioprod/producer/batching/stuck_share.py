"""The part of `buffer.memory` that records which can't move may take while others move."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from aioprod._words import bytes_of, seconds_of

if TYPE_CHECKING:
    from aioprod.producer.batching.buffer_memory import Reservation
    from aioprod.producer.batching.partition import Partition, Topic

__all__ = ["UNLIMITED", "StuckShare"]

UNLIMITED: Final = 2**62
"""The ceiling while nothing is stuck."""


class StuckShare:
    """Counts what stuck partitions and topics hold, and keeps the callers that wait to send to them, in order.

    `StuckRecords` finds out what is stuck. Two parts wait for memory: these callers here, until the share has room or
    their partition moves again, and then among all others in `MemoryBudget.waiting`.
    """

    __slots__ = (
        "_caller",
        "_last_full",
        "ceiling",
        "held",
        "limit",
        "open_to",
        "reserved",
        "topics",
        "used",
        "waiting",
    )

    def __init__(self, limit: int, caller: Callable[[], object] = lambda: None) -> None:
        self._caller = caller
        """Returns the running task."""
        self.limit = limit
        """The bytes of the share."""
        self.used = 0
        """What stuck partitions and topics held when they were last looked at, and what they have got since."""
        self.reserved = 0
        """The bytes of reservations that have left `waiting` and are not used yet."""
        self.ceiling = UNLIMITED
        """What may be used: `limit` while something moves, the whole memory while nothing does."""
        self.open_to = UNLIMITED
        """Up to where new records may raise `used`: `ceiling`, or -1 while callers wait or bytes are reserved."""
        self.held: dict[Partition | Topic, int] = {}
        """What is stuck, with the bytes of its records when they were last counted."""
        self.topics: frozenset[str] = frozenset()
        """The names of the topics in `held`, for the threads of a synchronous producer."""
        self.waiting: deque[Reservation] = deque()
        self._last_full: tuple[object, Partition | Topic, int] | None = None

    def fits(self, size: int, granted: bool = False) -> bool:
        """Whether a stuck partition may take `size` bytes; `granted`: its caller has waited for them."""
        open_to = self.ceiling - self.reserved if granted else self.open_to
        return self.used + size <= open_to

    @property
    def excess(self) -> int:
        """What is held beyond the share: others may have it on top of the memory."""
        return max(0, self.used - self.limit)

    def largest(self, now: float) -> str:
        """What holds the most, how much, and since when, as a clause; "" while nothing is stuck."""
        if not self.held:
            return ""
        place, size = max(self.held.items(), key=lambda item: item[1])
        since = now if place.stuck_since is None else place.stuck_since
        return f"{place.label()} holds {bytes_of(size)} of it and has not moved for {seconds_of(now - since)}"

    def note_full(self, place: Partition | Topic, size: int) -> None:
        """A record of `size` bytes for `place` found no room: its task may wait for that next."""
        self._last_full = self._caller(), place, size

    def forget_full(self) -> None:
        """The last record without room is for something that is not stuck."""
        self._last_full = None

    @property
    def size_without_room(self) -> int:
        """The bytes of the last record without room, if that is for something stuck; else 0."""
        return 0 if self._last_full is None else self._last_full[2]

    def last_full(self) -> tuple[Partition | Topic, int] | None:
        """What the last record without room is for, and its bytes, if its task is this one; returned once."""
        full_at, self._last_full = self._last_full, None
        return None if full_at is None or full_at[0] is not self._caller() else full_at[1:]

    def place_in(self, name: str) -> Partition | Topic | None:
        """Something of a topic that is stuck, None if nothing is."""
        if name not in self.topics:
            return None
        return next((place for place in self.held if name == place.topic_name), None)

    def hold_back(self, reservation: Reservation) -> None:
        """Let a caller wait."""
        self.waiting.append(reservation)
        self.reopen()

    def admit(self) -> list[Reservation]:
        """Dequeue the reservations of what moves again, and the first of the others as far as the share has room."""
        admitted: list[Reservation] = []
        kept: deque[Reservation] = deque()
        for reservation in self.waiting:
            size = reservation.size
            is_stuck = reservation.place is not None and reservation.place.stuck_since is not None
            if is_stuck:
                if kept or self.used + self.reserved + size > self.ceiling:
                    kept.append(reservation)
                    continue
                if reservation.keep:
                    reservation.shares = True
                    self.reserved += size
            admitted.append(reservation)
        self.waiting = kept
        self.reopen()
        return admitted

    def end(self, reservation: Reservation) -> None:
        """Leave the queue, or return the bytes of the share."""
        if reservation.shares:
            reservation.shares = False
            self.reserved -= reservation.size
        elif reservation in self.waiting:
            self.waiting.remove(reservation)
        self.reopen()

    def begin_turn(self) -> None:
        """Let the owner of a reservation that was just ended take all that is free, until `reopen` is called."""
        self.open_to = self.ceiling - self.reserved

    def reopen(self) -> None:
        """Let new records in if no caller waits before them."""
        self.open_to = -1 if self.waiting or self.reserved else self.ceiling
