"""`send_many`: a whole iterable with one completion, encoded in slices so that the loop keeps turning."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, Iterable, Iterator, Sized
from contextlib import aclosing
from typing import Any

from aioprod.errors import AioprodError, BufferFullError, InvalidRecordError
from aioprod.producer.bulk import Bulk, chunks, per_record, same_headers
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import Prepared, partition_index, timestamp_ms
from aioprod.types import Headers, ProducerRecord, SendResult, Timestamp

__all__ = ["send_many"]

CHUNK = 500
"""Records that are encoded at most before the loop gets a turn."""
TURN_S = 0.005
"""How long one turn of the loop may be spent on encoding."""


async def send_many(
    engine: Engine,
    topic: str,
    values: Iterable[Any] | AsyncIterable[Any],
    keys: Iterable[Any] | None,
    partition: int | None,
    headers: Headers | Iterable[Headers | None] | None,
    timestamps: Timestamp | Iterable[Timestamp | None] | None,
) -> SendResult:
    """Send all values and wait for their outcome; see `Producer.send_many`."""
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, (Iterable, AsyncIterable)):
        raise InvalidRecordError(f"send_many got values of type {type(values).__name__}: give an iterable of values.")
    partition_index(topic, partition)
    await engine.topics.known(topic, engine.max_block_s)
    count = engine.client.metadata.cluster.partition_count(topic)
    if partition is not None and partition >= count:
        raise InvalidRecordError(f"Topic {topic!r} has no partition {partition}: it has {count} (0 to {count - 1}).")
    size = len(values) if isinstance(values, Sized) else None
    call = _Call(engine, topic, partition, keys, headers, timestamps, size)
    bulk = call.bulk
    try:
        async with aclosing(chunks(values, CHUNK)) as slices:
            async for chunk in slices:
                end = engine.clock() + TURN_S
                for value in chunk:
                    await call.take(value)
                    if engine.clock() >= end:
                        await asyncio.sleep(0)
                        end = engine.clock() + TURN_S
                await asyncio.sleep(0)
        bulk.close()
        await bulk.future
    except BaseException:
        bulk.future.cancel()
        raise
    return bulk.result()


class _Call:
    """One call on its way through the values."""

    def __init__(
        self,
        engine: Engine,
        topic: str,
        partition: int | None,
        keys: Iterable[Any] | None,
        headers: Headers | Iterable[Headers | None] | None,
        timestamps: Timestamp | Iterable[Timestamp | None] | None,
        count: int | None,
    ) -> None:
        self.bulk = Bulk(topic, engine.loop.create_future())
        self._engine = engine
        self._topic = topic
        self._partition = partition
        self._headers: Any = None
        self._timestamp: Timestamp | None = None
        self._each_headers: Iterator[Any] | None = None
        self._each_timestamp: Iterator[Any] | None = None
        self._each_key = per_record("keys", keys, count)
        if same_headers(headers):
            self._headers = headers
        else:
            self._each_headers = per_record("headers", headers, count)
        if timestamps is None or isinstance(timestamps, Iterable):
            self._each_timestamp = per_record("timestamps", timestamps, count)
        else:
            timestamp_ms(topic, timestamps)
            self._timestamp = timestamps

    async def take(self, value: Any) -> None:
        """Prepare and append one value; waits for room. A fault of the record itself goes to the failures."""
        record = ProducerRecord(
            self._topic,
            value,
            key=self._next("keys", self._each_key, None),
            partition=self._partition,
            headers=self._next("headers", self._each_headers, self._headers),
            timestamp=self._next("timestamps", self._each_timestamp, self._timestamp),
        )
        try:
            prepared = await self._engine.prepare_async(record)
        except AioprodError as error:
            self.bulk.refused(error)
            return
        while not self._append(prepared):
            await self._engine.topics.known(self._topic, self._engine.max_block_s)
            if await self._append_in_turn(prepared):
                return

    def _next(self, name: str, values: Iterator[Any] | None, for_all: Any) -> Any:
        if values is None:
            return for_all
        try:
            return next(values)
        except StopIteration:
            raise InvalidRecordError(
                f"send_many got {name} for only {len(self.bulk.partitions)} of its values: give one per value."
            ) from None

    def _append(self, prepared: Prepared, granted: bool = False) -> bool:
        """Whether the record was dealt with: taken, or refused for good."""
        engine = self._engine
        engine.guard.check()
        topic, key, value, headers, partition, timestamp = prepared
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        try:
            index = engine.accumulator.append_to_bulk(
                topic, key, value, headers, partition, timestamp, self.bulk, engine.clock(), granted
            )
        except AioprodError as error:
            engine.refused(prepared, error, will_wait=True)
            if isinstance(error, BufferFullError):
                return False
            self.bulk.refused(error)
            return True
        if index < 0:
            return False
        self.bulk.accepted(index)
        return True

    async def _append_in_turn(self, prepared: Prepared) -> bool:
        """Wait for room, in order of arrival, then append."""
        engine = self._engine
        request = await engine.reserve(prepared)
        engine.accumulator.budget.leave(request)
        try:
            return self._append(prepared, granted=True)
        finally:
            engine.room.freed()
