"""The part of `buffer.memory` that records which can't move may take while others move."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from aioprod._words import bytes_of, seconds_of

if TYPE_CHECKING:
    from aioprod.producer.batching.buffer_memory import Reservation
    from aioprod.producer.batching.partition import Partition, Topic

__all__ = ["UNLIMITED", "StuckShare", "WithoutRoom", "enqueue"]

UNLIMITED: Final = 2**62
"""The ceiling while nothing is stuck."""


class WithoutRoom(NamedTuple):
    """A record that found no room."""

    caller: object
    """The task whose record it is; None outside of any."""
    place: Partition | Topic | None
    """What it is for, as far as that is known."""
    size: int
    """Its bytes if the share of what is stuck has no room for them, 0 if the memory has none."""


_NONE: Final = WithoutRoom(None, None, 0)


class StuckShare:
    """Counts what stuck partitions and topics hold, and keeps the callers that wait to send to them, in order.

    `StuckRecords` finds out what is stuck. Two parts wait for memory: these callers here, until the share has room or
    their partition moves again, and then among all others in `MemoryBudget.waiting`.
    """

    __slots__ = (
        "_caller",
        "_last_admitted",
        "_last_full",
        "ceiling",
        "done",
        "held",
        "limit",
        "nothing_moves",
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
        self.nothing_moves = False
        """Whether something is stuck, and nothing moves."""
        self.open_to = UNLIMITED
        """Up to where new records may raise `used`: `ceiling`, or -1 while callers wait or bytes are reserved."""
        self.held: dict[Partition | Topic, int] = {}
        """What is stuck, with the bytes of its records when they were last counted."""
        self.done = 0
        """The bytes of records that need no request any more, and wait until it is known whether they are stored."""
        self.topics: frozenset[str] = frozenset()
        """The names of the topics in `held`, for the threads of a synchronous producer."""
        self.waiting: deque[Reservation] = deque()
        self._last_admitted = 0
        """The number of the last caller that bytes were reserved for."""
        self._last_full = _NONE

    def fits(self, size: int, arrived: int = 0, used: int = -1) -> bool:
        """Whether a stuck partition may take `size` bytes beside `used`, by default those of the share.

        `arrived` is the number of a caller that has waited for memory. It comes before those that arrived later, also
        where bytes of the share are reserved for them, and behind those that arrived earlier and are held back.
        """
        used = self.used if used < 0 else used
        if not arrived:
            return used + size <= self.open_to
        if self.reserved and self._last_admitted > arrived:
            return True
        is_first = not self.waiting or self.waiting[0].arrived > arrived
        return is_first and used + size <= self.ceiling

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

    def note_full(self, place: Partition | Topic | None, size: int) -> None:
        """A record found no room: its task may wait for that next. The arguments are those of `WithoutRoom`."""
        self._last_full = WithoutRoom(self._caller(), place, size)

    def forget_full(self) -> None:
        """The next call finds out by itself what has no room."""
        self._last_full = _NONE

    @property
    def size_without_room(self) -> int:
        """The bytes of the last record without room, if the share had none; else 0."""
        return self._last_full.size

    def last_full(self) -> WithoutRoom:
        """The last record without room, returned once; an empty one if there is none, or it is another task's."""
        last, self._last_full = self._last_full, _NONE
        return last if last.caller is self._caller() else _NONE

    def place_in(self, name: str) -> Partition | Topic | None:
        """Something of a topic that is stuck, None if nothing is."""
        if name not in self.topics:
            return None
        return next((place for place in self.held if name == place.topic.name), None)

    def hold_back(self, reservations: Iterable[Reservation]) -> None:
        """Let callers wait."""
        for reservation in reservations:
            reservation.is_held_back = True
            enqueue(self.waiting, reservation)
        self.reopen()

    def admit(self) -> list[Reservation]:
        """Dequeue the reservations of what moves again, and the first of the others as far as the share has room."""
        admitted: list[Reservation] = []
        kept: deque[Reservation] = deque()
        for reservation in self.waiting:
            size = reservation.size
            if reservation.is_stuck:
                if kept or self.used + self.reserved + size > self.ceiling:
                    kept.append(reservation)
                    continue
                if reservation.keep:
                    reservation.shares = True
                    self._last_admitted = max(reservation.arrived, self._last_admitted if self.reserved else 0)
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


def enqueue(waiting: deque[Reservation], reservation: Reservation) -> None:
    """Add a reservation in order of arrival."""
    if waiting and waiting[-1].arrived > reservation.arrived:
        waiting.insert(bisect_right(waiting, reservation.arrived, key=attrgetter("arrived")), reservation)
    else:
        waiting.append(reservation)
