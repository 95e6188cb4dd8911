"""Appends the records of a bulk call to the accumulator, and waits for memory in between."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any, Final, Protocol

from aioprod.errors import AioprodError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.bulk_values import BulkValues
from aioprod.producer.batching.lines import Lines
from aioprod.producer.bulk.call import Bulk
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import Prepared

__all__ = ["BulkAppender", "BulkPart"]

_SHARE_MAX: Final = 64 * 1024
_SHARES: Final = 16
"""A bulk call waits for `_SHARE_MAX` bytes at a time, or for this part of `buffer.memory` if that is less."""


class BulkPart(Protocol):
    """Neighbouring records of a bulk call: `BulkValues`, or `BulkColumns` with their topics in a column."""

    @property
    def accepted(self) -> int:
        """How many were accepted so far."""

    @property
    def needed(self) -> int:
        """The room in bytes that the next one did not find, 0 where that is not what it waits for."""

    @property
    def left(self) -> int:
        """How many have not been dealt with."""

    def append(self, accumulator: Accumulator, topic: Any, now: float) -> bool:
        """Append what is left, up to what a turn of the loop may take; False when there is more.

        `topic` is None where the records have topics of their own.
        """


class BulkAppender:
    """Appends the parts of one bulk call."""

    def __init__(self, engine: Engine, bulk: Bulk, transaction: int) -> None:
        self._engine = engine
        self._bulk = bulk
        self._transaction = transaction
        """The number of the transaction in which the call began, see `Guard.transaction`."""

    def append(self, part: BulkPart, name: str | None) -> bool:
        """Append what can be appended now; False when there is more. `name` is the topic of all, None for several."""
        engine = self._engine
        engine.guard.check()
        engine.guard.check_transaction(self._transaction)
        now = engine.parts.clock()
        topic = None
        if name is not None:
            topic = engine.parts.accumulator.topic(name, now)
            if topic.parked is not None:
                return False
        before = part.accepted
        try:
            return part.append(engine.parts.accumulator, topic, now)
        finally:
            self._bulk.accepted(part.accepted - before)

    async def append_next(self, part: BulkPart, name: str | None) -> bool:
        """Wait for room, in order of arrival, and append what can be appended then; False when there is more.

        Room for one record each would cost many waiting calls a turn of the loop for each record.
        """
        engine = self._engine
        budget = engine.parts.accumulator.budget
        place = budget.stuck.last_full().place
        share = min(_SHARE_MAX, budget.limit // _SHARES)
        size = part.needed if place is not None else max(part.needed, min(part.needed * part.left, share))
        reservation = await engine.parts.memory_waiters.reserve(size, engine.max_block_s, place)
        budget.begin_turn(reservation)
        try:
            return self.append(part, name)
        finally:
            engine.parts.memory_waiters.freed()

    async def take(
        self,
        name: str,
        values: list[Any] | Lines,
        keys: list[Any] | None,
        headers: bytes,
        partition: int,
        timestamp: int | None,
        timestamps: list[int] | None = None,
    ) -> None:
        """Append serialized records, waiting in line for room, and for the topic should it be forgotten meanwhile.

        `timestamps` has one per value, where they don't have `timestamp` in common. Lines have neither keys nor headers
        nor these.
        """
        engine = self._engine
        bulk = self._bulk
        if timestamp is None:
            clock = engine.parts.environment.clock
            timestamp = clock.timestamp_ms(clock.now_ns())
        part = BulkValues(bulk, values, keys, headers, timestamp, partition, len(bulk.partitions), timestamps)
        is_done = self.append(part, name)
        while not is_done:
            if part.needed:
                is_done = await self.append_next(part, name)
            else:
                await asyncio.sleep(0)
            if not is_done:
                await engine.parts.unknown_topics.known(name, engine.max_block_s)
                is_done = not part.needed and self.append(part, name)
        topics = None if name == bulk.topic else array("i", [bulk.number_of(name)]) * len(values)
        bulk.place(part.places, topics)

    async def take_one(self, prepared: Prepared) -> None:
        """The same for one record; the interceptors are notified if it is not accepted."""
        topic, key, value, headers, partition, timestamp = prepared
        bulk = self._bulk
        index = len(bulk.partitions)
        try:
            await self.take(topic, [value], [key], headers, partition, timestamp)
        except AioprodError as error:
            self._engine.preparation.report_not_accepted(topic, partition, error)
            raise
        if bulk.failures and bulk.failures[-1][0] == index:
            self._engine.preparation.report_not_accepted(topic, partition, bulk.failures[-1][1])

    def add_invalid(self, error: AioprodError) -> None:
        """Add the next record of the call as one that failed with `error`."""
        self._bulk.invalid(len(self._bulk.partitions), error)
        self._bulk.place(array("i", [-1]))
