"""What can't move, and how much of the memory it may take: no topic without a leader starves the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.buffer_memory import MemoryBudget, buffer_full, stuck_full
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.batching.partition_choice import PartitionChoice
from aioprod.producer.batching.stuck_share import UNLIMITED

__all__ = ["StuckRecords"]

_PAUSE_S: Final = 0.1
_PAUSE_PER_BATCH_S: Final = 2e-5
"""The time between two looks, and what each batch adds to it, so that looks take a few percent of the time at most."""

_RECENTLY_S: Final = 30.0
"""A partition moves that has had a batch acknowledged within so many seconds, if nothing stops it now."""


class StuckRecords:
    """Keeps what can't move from taking more than `buffer.memory.stuck.fraction` of the memory while others move.

    Stuck is a partition without a leader, one that backs off or repeats a batch, one whose broker takes nothing, and a
    topic whose partitions are not known. While less memory than the share is used, nothing is looked at. Beyond it all
    batches are, ten times a second at most, and records of topics with something stuck are admitted one by one.
    """

    __slots__ = ("_budget", "_choice", "_due", "_incomplete", "_look_at", "_mover", "_parked", "_topics")

    def __init__(
        self,
        budget: MemoryBudget,
        choice: PartitionChoice,
        *,
        incomplete: Mapping[Batch, None],
        topics: Mapping[str, Topic],
        parked: Mapping[str, Topic],
        due: Callable[[float], object],
    ) -> None:
        self._budget = budget
        self._choice = choice
        self._incomplete = incomplete
        """Every batch without outcome, about the oldest first."""
        self._topics = topics
        self._parked = parked
        """Those of the topics whose records wait for metadata."""
        self._due = due
        """Takes the time at which `poll` is to be called."""
        self._look_at = -math.inf
        self._mover: Partition | None = None
        """The partition that was last seen to move: the first one to look at again."""

    # --- finding out

    def attend(self, place: Partition | Topic, size: int, now: float) -> None:
        """More memory is used than the share, and `place` takes a record of `size` bytes: look what is stuck."""
        share = self._budget.stuck
        is_counted = place.stuck_since is not None and now < self._look_at
        if now >= self._look_at:
            self._look(now)
        if place.stuck_since is None and place.is_stuck(now):
            self._hold_from_now(place, now)
        if place.stuck_since is not None and not is_counted:
            share.used += size
        self._due(self._look_at)

    def poll(self, now: float) -> float:
        """Look again if it is time to, and admit callers that were held back; when to call this again."""
        if not self._is_needed():
            return math.inf
        if now >= self._look_at:
            self._look(now)
        return self._look_at if self._is_needed() else math.inf

    def _is_needed(self) -> bool:
        share = self._budget.stuck
        return self._budget.used > share.limit or bool(share.held) or bool(share.waiting)

    def _look(self, now: float) -> None:
        """Find out what is stuck, what it holds, and whether anything else moves."""
        share = self._budget.stuck
        self._look_at = now + max(_PAUSE_S, len(self._incomplete) * _PAUSE_PER_BATCH_S)
        for place in share.held:
            place.stuck_since = None
            place.topic.stuck_count -= 1
        share.held = {}
        if self._budget.used > share.limit or share.waiting or share.reserved:
            for batch in self._incomplete:
                partition = batch.partition
                if partition.stuck_since is not None:
                    share.held[partition] += batch.record_bytes
                elif partition.is_stuck(now):
                    self._hold(partition, batch.record_bytes, batch.created)
            for topic in self._parked.values():
                if topic.parked:
                    self._hold(topic, topic.parked_bytes, topic.parked[0].accepted)
            for reservation in share.waiting:
                self._hold_for_callers(reservation.place, now)
        share.used = share.done + sum(share.held.values())
        share.topics = frozenset(place.topic.name for place in share.held)
        self._set_ceiling(now)
        self._budget.stuck_changed()

    def _hold(self, place: Partition | Topic, size: int, since: float) -> None:
        place.stuck_since = since
        place.topic.stuck_count += 1
        self._budget.stuck.held[place] = size

    def _hold_for_callers(self, place: Partition | Topic | None, now: float) -> None:
        """What holds nothing is stuck, too, while callers wait for it. A topic that was dropped is not."""
        if place is None or place.stuck_since is not None or not place.is_stuck(now):
            return
        if self._topics.get(place.topic.name) is place.topic:
            self._hold(place, 0, now)

    def _hold_from_now(self, place: Partition | Topic, now: float) -> None:
        size = place.held_bytes()
        self._budget.stuck.used += size
        self._hold(place, size, now)
        if self._budget.stuck.ceiling == UNLIMITED:
            self._set_ceiling(now)
            self._budget.stuck.reopen()
        self._due(self._look_at)

    def _set_ceiling(self, now: float) -> None:
        share = self._budget.stuck
        share.ceiling = UNLIMITED
        share.nothing_moves = bool(share.held) and not self._anything_moves(now)
        if share.held:
            share.ceiling = self._budget.limit if share.nothing_moves else share.limit

    def _anything_moves(self, now: float) -> bool:
        since = now - _RECENTLY_S
        if self._mover is not None and self._mover.moves(since, now):
            return True
        partitions = (partition for topic in self._topics.values() for partition in topic.partitions)
        self._mover = next((partition for partition in partitions if partition.moves(since, now)), None)
        return self._mover is not None

    # --- records of topics with something stuck

    def admit(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        bound: int,
        now: float,
        granted: int = 0,
    ) -> int:
        """The partition of a record of at most `bound` bytes, -1 for the sticky one.

        Raises BufferFullError where it is stuck and the share has no room. `granted` is that of `Accumulator.append`.
        """
        if topic.parked is not None or topic.stuck_since is not None:
            self.check(topic, bound, now, granted)  # Callers may wait for what was parked until now.
            return partition
        choice = self._choice
        if partition >= 0 or not (choice.is_built_in if key is None else choice.keyed_is_sticky):
            partition = choice.choose(topic, key, value, partition, bound, now)
        self.admit_at(topic, partition, bound, now, granted)
        return partition

    def admit_at(self, topic: Topic, index: int, bound: int, now: float, granted: int = 0) -> None:
        """The same for a record whose partition is chosen; -1: the sticky choice turns to one that is not stuck."""
        partitions = topic.partitions
        if index < 0:
            if partitions[topic.sticky.partition].stuck_since is not None and topic.stuck_count < topic.count:
                topic.sticky.switch(topic.queue_lengths, lambda other: partitions[other].stuck_since is not None)
            index = topic.sticky.partition
        self.check(partitions[index], bound, now, granted)

    def check(self, place: Partition | Topic, size: int, now: float, granted: int = 0) -> None:
        """Count `size` bytes for `place` if it is stuck; raises BufferFullError where there is no room for them."""
        share = self._budget.stuck
        if place.stuck_since is None:
            if self._budget.used <= share.limit or not place.is_stuck(now):
                return
            self._hold_from_now(place, now)
        if granted >= 0 and not self._has_room(size, granted):
            share.note_full(place, size)
            full = stuck_full if share.ceiling == share.limit else buffer_full
            raise full(place.topic.name, size, self._budget, now)
        if granted or self._budget.fits(size):
            share.used += size

    def _has_room(self, size: int, granted: int) -> bool:
        """Whether something stuck may take `size` bytes. While nothing moves, what is used of all memory decides.

        That is exact: `StuckShare.used` has bounds of the latest records, not their bytes.
        """
        share, budget = self._budget.stuck, self._budget
        return share.fits(size, granted, share.used if share.ceiling < budget.limit else budget.used)
