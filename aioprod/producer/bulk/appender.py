"""Pieces of a bulk call on their way into the accumulator, with the waiting for room in between."""

from __future__ import annotations

import asyncio
from array import array
from typing import Any, Protocol

from aioprod.core.accumulator import Accumulator
from aioprod.core.bulk_values import BulkValues
from aioprod.errors import AioprodError
from aioprod.producer.bulk.call import Bulk
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import Prepared

__all__ = ["BulkAppender", "BulkPart"]


class BulkPart(Protocol):
    """Neighbouring records of a bulk call: `BulkValues`, or `BulkColumns` with their topics in a column."""

    @property
    def accepted(self) -> int:
        """How many were accepted so far."""

    @property
    def needed(self) -> int:
        """The room in bytes that the next one did not find, 0 where that is not what it waits for."""

    def append(self, accumulator: Accumulator, topic: Any, now: float, granted: bool) -> bool:
        """Append what is left, up to what a turn of the loop may take; False when there is more.

        `topic` is None where the records have topics of their own.
        """


class BulkAppender:
    """Appends the pieces of one bulk call, which began in the guard's `era`."""

    def __init__(self, engine: Engine, bulk: Bulk, era: int) -> None:
        self._engine = engine
        self._bulk = bulk
        self._era = era

    def append(self, piece: BulkPart, name: str | None, granted: bool = False) -> bool:
        """Append what can be appended now; False when there is more. `name` is the topic of all, None for several."""
        engine = self._engine
        engine.guard.check()
        engine.guard.check_era(self._era)
        now = engine.clock()
        topic = None
        if name is not None:
            topic = engine.accumulator.topic(name, now)
            if topic.parked is not None:
                return False
        before = piece.accepted
        try:
            return piece.append(engine.accumulator, topic, now, granted)
        finally:
            self._bulk.accepted(piece.accepted - before)

    async def append_next(self, piece: BulkPart, name: str | None) -> None:
        """Wait for the room that the next record needs, in order of arrival, and append what can be appended then."""
        engine = self._engine
        request = await engine.room.reserve(piece.needed, engine.max_block_s)
        engine.accumulator.budget.leave(request)
        try:
            self.append(piece, name, granted=True)
        finally:
            engine.room.freed()

    async def take(
        self,
        name: str,
        values: list[Any],
        keys: list[Any] | None,
        headers: bytes,
        partition: int,
        timestamp: int | None,
    ) -> None:
        """Append serialized records, waiting in line for room, and for the topic should it be forgotten meanwhile."""
        engine = self._engine
        bulk = self._bulk
        if timestamp is None:
            timestamp = engine.clock.timestamp_ms(engine.clock.now_ns())
        piece = BulkValues(bulk, values, keys, headers, timestamp, partition, len(bulk.partitions))
        while not self.append(piece, name):
            if piece.needed:
                await self.append_next(piece, name)
            else:
                await asyncio.sleep(0)
            await engine.topics.known(name, engine.max_block_s)
        topics = None if name == bulk.topic else array("i", [bulk.number_of(name)]) * len(values)
        bulk.place(piece.places, topics)

    async def take_one(self, prepared: Prepared) -> None:
        """The same for one record; the interceptors hear of it when it is not accepted."""
        topic, key, value, headers, partition, timestamp = prepared
        bulk = self._bulk
        index = len(bulk.partitions)
        try:
            await self.take(topic, [value], [key], headers, partition, timestamp)
        except AioprodError as error:
            self._engine.preparation.tell_refused(topic, partition, error)
            raise
        if bulk.failures and bulk.failures[-1][0] == index:
            self._engine.preparation.tell_refused(topic, partition, bulk.failures[-1][1])

    def refuse_one(self, error: AioprodError) -> None:
        """The next record of the call can't be sent."""
        self._bulk.invalid(len(self._bulk.partitions), error)
        self._bulk.place(array("i", [-1]))
