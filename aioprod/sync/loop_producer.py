"""The producer in the loop of a session: an `aioprod.Producer`, with the steps in which it takes records of threads."""

from __future__ import annotations

from typing import Any

from aioprod.config import ProducerConfig
from aioprod.producer import Producer
from aioprod.producer.batching.buffer_memory import MemoryBudget, Reservation
from aioprod.producer.preparation import Preparation
from aioprod.producer.producer_calls import ProducerCalls
from aioprod.sync.call import Call
from aioprod.sync.entry import Entry
from aioprod.sync.inbox import Inbox
from aioprod.types import ErrorCallback

__all__ = ["LoopProducer"]


class LoopProducer(Producer):
    """An ordinary producer, used in its own loop as any other.

    It uses the engine alone: other attributes of a compiled `Producer` can't be seen from Python.
    """

    __slots__ = ()

    def __init__(self, config: ProducerConfig, on_error: ErrorCallback | None) -> None:
        ProducerCalls.__init__(self, config, on_error)

    @property
    def preparation(self) -> Preparation:
        """Runs interceptors and serializers, in the thread of the call."""
        return self._engine.preparation

    @property
    def budget(self) -> MemoryBudget:
        """What counts `buffer.memory`, from the start on."""
        return self._engine.parts.accumulator.budget

    def move(self, inbox: Inbox, most: int) -> Entry | Call[Any] | None:
        """Take records as `Inbox.move` has it; raises ProducerClosedError when this producer has failed."""
        self._engine.guard.check()
        return inbox.move(self._engine.parts.accumulator, most)

    async def reserve(self, size: int, topic: str | None = None) -> Reservation:
        """Wait for room, in order of arrival; raises BufferFullError after `max.block.ms`.

        `topic`: room for its record, also if something of the topic is stuck.
        """
        waiters = self._engine.parts.memory_waiters
        reservation = None
        while True:
            place = None if topic is None else self.budget.stuck.place_in(topic)
            reservation = await waiters.reserve(size, self._engine.max_block_s, place, reservation)
            if topic is None or reservation.is_held_back or self.budget.stuck.place_in(topic) is None:
                return reservation
            # Something of the topic became stuck while the caller waited.
            self.give_back(reservation)

    async def drain_for(self, entry: Entry | None) -> None:
        """As `drain`; for the share of what is stuck if that had no room for `entry`."""
        place = None if entry is None else self.budget.stuck.place_in(entry.topic)
        if entry is None or place is None:
            await self.drain()
        else:
            await self._engine.parts.memory_waiters.drain_share(place, entry.bound)

    def append_reserved(self, entry: Entry, reservation: Reservation) -> None:
        """Take a record for which memory is reserved; raises what `Producer.submit` raises."""
        self._engine.guard.check()
        self._engine.parts.accumulator.budget.end(reservation)
        entry.append_to(self._engine.parts.accumulator, entry.now, -1)

    def give_back(self, reservation: Reservation) -> None:
        """Return reserved memory, used or not."""
        self._engine.parts.memory_waiters.give_back(reservation)
