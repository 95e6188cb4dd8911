"""The room for records that were received and are not finished: which partitions are fetched, and how much at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from aioprod.group.assignment import AssignmentState
from aioprod.group.fetcher import Fetcher
from aioprod.group.work.queues import Held, Queues
from aioprod.types import TopicPartition

__all__ = ["Room"]

_LIST_MAX: Final = 32
"""Records that are received at once: by so many the bound of bytes may be passed, where records become larger."""
_SIZE_GUESSED: Final = 65_536
"""The bytes of a record, before the first one."""
_RECORDS_MAX: Final = 10_000
"""Records beside those in work that are held at most: a finite number also where they have no bytes."""
_STEP: Final = 1 / 16
"""The share of the room that has to become free before all paused partitions are looked at."""


class Room:
    """Pauses a partition while it holds more than is free, so that one whose records are stuck leaves room for others.

    Alone it has half of the room, two have a third each, and so on.
    """

    def __init__(
        self, fetcher: Fetcher, assignment: AssignmentState, queues: Queues, buffer_bytes: int, concurrency: int
    ) -> None:
        self._fetcher = fetcher
        self._assignment = assignment
        self._queues = queues
        self._bytes_max = buffer_bytes
        self._records_max = _RECORDS_MAX + 2 * concurrency
        self._largest = 0
        """The bytes of the largest record that was received."""
        self._paused: frozenset[TopicPartition] = frozenset()
        """The partitions that are paused for lack of room."""
        self._free_then = 1.0
        """What was free when all of them were looked at, or the last one was paused."""

    @property
    def records(self) -> int:
        """How many records to receive next: as many as there is room for, if they are as large as the largest."""
        left = self._bytes_max - self._queues.total.bytes
        return max(1, min(_LIST_MAX, left // (self._largest or _SIZE_GUESSED)))

    def received(self, partitions: Collection[TopicPartition], largest: int) -> None:
        """Records of these partitions were received: pause those that hold too much."""
        self._largest = max(self._largest, largest)
        free = self._free
        full = partitions if free > 0.0 else self._assignment.readable
        if too_much := {tp for tp in full if self._share(self._queues.held(tp)) >= free}:
            self._free_then = min(self._free_then, free)
            new = too_much - self._fetcher.paused
            self._paused |= new
            self._fetcher.pause(new)

    def finished(self, tp: TopicPartition) -> None:
        """A record of this partition is finished: resume what holds little again."""
        free, then = self._free, self._free_then
        # Where nothing was free, partitions that hold nothing are paused, too: no record of theirs ends.
        if free - then >= _STEP or then <= 0.0 < free:
            self.look_at_all()
        elif tp in self._paused:
            self._resume((tp,))

    def look_at_all(self) -> None:
        """Much has become free, or the first: resume what holds little."""
        self._free_then = self._free
        self._resume(self._paused)

    def leave_paused(self, partitions: Iterable[TopicPartition]) -> None:
        """These are revoked, or the application pauses them, and only it resumes them."""
        self._paused -= frozenset(partitions)

    def close(self) -> None:
        """Resume all that are paused for lack of room."""
        self._fetcher.resume(self._paused)
        self._paused = frozenset()

    @property
    def _free(self) -> float:
        return 1.0 - self._share(self._queues.total)

    def _share(self, held: Held) -> float:
        return max(held.bytes / self._bytes_max, held.records / self._records_max)

    def _resume(self, partitions: Iterable[TopicPartition]) -> None:
        free = self._free
        some = [tp for tp in partitions if free > 0.0 and self._share(self._queues.held(tp)) <= free / 2]
        if some:
            self._fetcher.resume(some)
            self._paused -= frozenset(some)
