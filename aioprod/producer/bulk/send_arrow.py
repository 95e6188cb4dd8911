"""`send_arrow`: the rows of Arrow data with one completion, encoded from where they lie in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

from aioprod.arrow.interface import Chunk, Source, open_source
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    MetadataTimeoutError,
)
from aioprod.producer.batching.bulk_columns import BulkColumns, RecordColumns
from aioprod.producer.bulk.appender import BulkAppender
from aioprod.producer.bulk.arrow_schema import ArrowSchema
from aioprod.producer.bulk.call import Bulk
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import Preparation
from aioprod.types import ProducerRecord, SendResult

__all__ = ["send_arrow"]

_FETCH_ROWS: Final = 20_000
_FETCH_S: Final = 0.005
"""What a worker thread reads of a stream at a time, so that small batches don't each cost a change of threads."""

_ROWS_AT_ONCE: Final = 2**16
"""Rows whose places are held beside those of the call, so that memory is not taken for all rows of an array at once."""

_TURN_S: Final = 0.005
"""How long one turn of the loop may be spent on interceptors."""

_TOPIC_ERRORS: Final = (InvalidTopicError, AuthorizationError, MetadataTimeoutError)
"""The errors of one topic; records for other topics are sent all the same."""


async def send_arrow(engine: Engine, data: object, topic: str | None) -> SendResult:
    """Send all rows and wait for their outcome; see `Producer.send_arrow`."""
    source = open_source(data)
    try:
        schema = ArrowSchema(source.field, topic)
        transaction = engine.guard.transaction
        if topic is not None:
            await engine.parts.unknown_topics.known(topic, engine.max_block_s)
        await engine.preparation.turn(topic)
        call = _Call(engine, topic, transaction)
        try:
            async with aclosing(_chunks(engine, source)) as chunks:
                async for chunk in chunks:
                    try:
                        await call.take(schema.columns(chunk.array))
                    finally:
                        chunk.release()
            call.bulk.close()
            await call.bulk.future
        except MemoryError as error:
            count = len(call.bulk.partitions)
            lack = InvalidRecordError(
                f"There is not enough memory for the rows of the Arrow data after the first {count}.",
                hint="Send fewer rows in one call.",
            )
            call.bulk.abandon(lack)
            raise lack from error
        except BaseException as error:
            call.bulk.abandon(error)
            raise
    finally:
        source.close()
    return call.bulk.result()


async def _chunks(engine: Engine, source: Source) -> AsyncGenerator[Chunk, None]:
    """The arrays of a source. What may take long is done in a worker thread."""
    while True:
        if source.is_lazy:
            fetched = await engine.parts.loop.run_in_executor(None, _fetch, source, engine.parts.clock)
        else:
            fetched = [source.next()]
        for chunk in fetched:
            if chunk is None:
                return
            if isinstance(chunk, AioprodError):
                raise chunk
            yield chunk
            await asyncio.sleep(0)


def _fetch(source: Source, clock: Callable[[], float]) -> list[Chunk | AioprodError | None]:
    """Some arrays; None after the last one, or the error that came instead."""
    fetched: list[Chunk | AioprodError | None] = []
    rows = 0
    end = clock() + _FETCH_S
    while rows < _FETCH_ROWS and clock() < end:
        try:
            chunk = source.next()
        except AioprodError as error:
            fetched.append(error)
            break
        fetched.append(chunk)
        if chunk is None:
            break
        rows += chunk.array.length
    return fetched


class _Call:
    """One call on its way through the rows; without a topic for all, the rows have a column of them."""

    def __init__(self, engine: Engine, topic: str | None, transaction: int) -> None:
        self.bulk = Bulk("" if topic is None else topic, engine.parts.loop.create_future())
        self._engine = engine
        self._topic = topic
        self._feeder = BulkAppender(engine, self.bulk, transaction)
        self._topic_errors: dict[str, AioprodError] = {}
        # What lies in Arrow columns are bytes already: serializers have nothing to do.
        self._preparation = Preparation(engine.interceptors, None, None)

    async def take(self, columns: RecordColumns) -> None:
        """Append some rows, waiting for room; what is wrong with single ones goes to the failures."""
        self._look_at_first_time(columns)
        if self._engine.interceptors:
            await self._take_one_by_one(columns)
        else:
            await self._take_all(columns)

    def _look_at_first_time(self, columns: RecordColumns) -> None:
        """Check the first row only: a column has one unit."""
        times = columns.timestamp
        with suppress(InvalidRecordError):
            if times is not None and columns.length and times.find(0):
                self._engine.preparation.warn_of_seconds(self.bulk.topic, times.ms)

    async def _take_all(self, columns: RecordColumns) -> None:
        for start in range(0, columns.length, _ROWS_AT_ONCE):
            if start:
                await asyncio.sleep(0)
            await self._take_slice(columns, start, min(start + _ROWS_AT_ONCE, columns.length))

    async def _take_slice(self, columns: RecordColumns, start: int, stop: int) -> None:
        engine = self._engine
        topic = self._topic
        rows = BulkColumns(self.bulk, columns, start, stop, len(self.bulk.partitions), self._topic_errors)
        clock = engine.parts.environment.clock
        rows.timestamp = clock.timestamp_ms(clock.now_ns())
        is_done = self._feeder.append(rows, topic)
        while not is_done:
            if rows.unknown is not None:
                await self._learn(rows.unknown)
            elif rows.needed:
                is_done = await self._feeder.append_next(rows, topic)
            else:
                await asyncio.sleep(0)
            if not is_done and topic is not None:
                await engine.parts.unknown_topics.known(topic, engine.max_block_s)
            rows.timestamp = clock.timestamp_ms(clock.now_ns())
            is_done = is_done or (not rows.needed and self._feeder.append(rows, topic))
        self.bulk.place(rows.places, None if topic is not None else rows.numbers)

    async def _learn(self, topic: str) -> None:
        """Wait until a topic is known, or it is known why it will not be."""
        try:
            await self._engine.parts.unknown_topics.known(topic, self._engine.max_block_s)
        except _TOPIC_ERRORS as error:
            self._topic_errors[topic] = error

    # --- with interceptors

    async def _take_one_by_one(self, columns: RecordColumns) -> None:
        engine = self._engine
        end = engine.parts.clock() + _TURN_S
        for row in range(columns.length):
            await self._take_one(columns, row)
            if engine.parts.clock() >= end:
                await asyncio.sleep(0)
                end = engine.parts.clock() + _TURN_S

    async def _take_one(self, columns: RecordColumns, row: int) -> None:
        interceptors = self._engine.interceptors
        record = ProducerRecord("" if self._topic is None else self._topic, None)
        try:
            self._read(columns, row, record)
            record = self._preparation.intercept(record)
            prepared = self._preparation.prepare(record)
            if self._topic is None:
                await self._learn(prepared[0])
            if prepared[0] in self._topic_errors:
                raise self._topic_errors[prepared[0]].again()
        except AioprodError as error:
            interceptors.on_send_error(record, record.partition, error)
            self._feeder.add_invalid(error)
        else:
            await self._feeder.take_one(prepared)

    def _read(self, columns: RecordColumns, row: int, record: ProducerRecord) -> None:
        """Copy a row into a record; raises InvalidRecordError for one that can be none."""
        if columns.topic is not None:
            columns.topic.find(row)
            topic = columns.topic.get()
            if topic is None:
                raise InvalidTopicError("The topic of a record is null.")
            record.topic = topic.decode(errors="replace")
        columns.value.find(row)
        record.value = columns.value.get()
        if columns.key is not None:
            columns.key.find(row)
            record.key = columns.key.get()
        if columns.partition is not None and columns.partition.find(row):
            record.partition = columns.partition.value
        if columns.timestamp is not None and columns.timestamp.find(row):
            record.timestamp = columns.timestamp.ms
        if columns.headers is not None:
            record.headers = columns.headers.get(row)
