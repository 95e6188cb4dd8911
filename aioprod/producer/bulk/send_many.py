"""`send_many`: a whole iterable with one completion, encoded in slices so that the loop keeps turning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator, Sized
from contextlib import aclosing
from itertools import islice
from typing import Any, Final

from aioprod._build import COMPILED
from aioprod.errors import AioprodError, InvalidRecordError
from aioprod.producer.batching.lines import Lines
from aioprod.producer.bulk.appender import BulkAppender
from aioprod.producer.bulk.call import Bulk, check_values, chunks, per_record, same_headers
from aioprod.producer.engine import Engine
from aioprod.producer.preparation import partition_index, timestamp_ms
from aioprod.records.headers import NO_HEADERS, encode_headers
from aioprod.types import Headers, ProducerRecord, SendResult, Timestamp

__all__ = ["RECORDS_PER_TURN", "send_many"]

RECORDS_PER_TURN: Final = 2500 if COMPILED else 500
"""Records that are encoded at most before the loop gets a turn: a small part of the time that it may be kept."""
_TURN_S: Final = 0.005
"""How long one turn of the loop may be spent on serializing."""


async def send_many(
    engine: Engine,
    topic: str,
    values: Iterable[Any] | AsyncIterable[Any],
    keys: Iterable[Any] | None,
    partition: int | None,
    headers: Headers | Iterable[Headers | None] | None,
    timestamps: Timestamp | Iterable[Timestamp | None] | None,
) -> SendResult:
    """Send all values and wait for their outcome; see `Producer.send_many`. `Lines` are values, too."""
    check_values(values)
    partition_index(topic, partition)
    transaction = engine.guard.transaction
    await engine.parts.unknown_topics.known(topic, engine.max_block_s)
    count = engine.parts.client.metadata.cluster.partition_count(topic)
    if partition is not None and partition >= count:
        raise InvalidRecordError(f"Topic {topic!r} has no partition {partition}: it has {count} (0 to {count - 1}).")
    size = len(values) if isinstance(values, Sized) else None
    call = _Call(engine, topic, partition, keys, headers, timestamps, size, transaction)
    bulk = call.bulk
    try:
        async with aclosing(chunks(values, RECORDS_PER_TURN)) as slices:
            async for chunk in slices:
                await call.take(chunk)
                await asyncio.sleep(0)
        bulk.close()
        await bulk.future
    except BaseException as error:
        bulk.abandon(error)
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
        transaction: int,
    ) -> None:
        self.bulk = Bulk(topic, engine.parts.loop.create_future())
        self._feeder = BulkAppender(engine, self.bulk, transaction)
        self._engine = engine
        self._topic = topic
        self._partition = partition
        self._headers: Any = None
        self._timestamp: Timestamp | None = None
        self._unavailable: AioprodError | None = None
        self._each_headers: Iterator[Any] | None = None
        self._each_timestamp: Iterator[Any] | None = None
        self._keys = keys
        self._each_key = per_record("keys", keys, count)
        if same_headers(headers):
            self._headers = headers
        else:
            self._each_headers = per_record("headers", headers, count)
        self._timestamps = _valid_list(timestamps, count)
        """One for each value; None where they have to be looked at one by one, or where there is one for all."""
        if timestamps is None or isinstance(timestamps, Iterable):
            self._each_timestamp = per_record("timestamps", timestamps, count)
        else:
            engine.preparation.timestamp_ms(topic, timestamps)
            self._timestamp = timestamps
        has_timestamps = self._each_timestamp is None or self._timestamps is not None
        self._is_uniform = engine.preparation.plain and self._each_headers is None and has_timestamps
        if self._is_uniform:
            if self._timestamps is not None:
                engine.preparation.warn_of_seconds(topic, min(self._timestamps))
            self._encoded = encode_headers(self._headers) if self._headers else NO_HEADERS
            self._timestamp_ms = None if self._timestamp is None else timestamp_ms(topic, self._timestamp)

    async def take(self, values: list[Any] | Lines) -> None:
        """Append some values, waiting for room; what is wrong with single records goes to the failures."""
        if not self._is_uniform:
            end = self._engine.parts.clock() + _TURN_S
            for value in values:
                await self._take_one(value)
                if self._engine.parts.clock() >= end:
                    await asyncio.sleep(0)
                    end = self._engine.parts.clock() + _TURN_S
            return
        keys = self._keys_of(len(values))
        given = values if keys is None or len(keys) == len(values) else values[: len(keys)]
        if isinstance(given, Lines) and (
            keys is not None or self._encoded != NO_HEADERS or self._timestamps is not None
        ):
            given = list(given)
        index = partition_index(self._topic, self._partition)
        start = len(self.bulk.partitions)
        timestamps = None if self._timestamps is None else self._timestamps[start : start + len(given)]
        await self._feeder.take(self._topic, given, keys, self._encoded, index, self._timestamp_ms, timestamps)
        if len(given) < len(values):
            raise self._too_few("keys")

    def _keys_of(self, count: int) -> list[Any] | None:
        """The keys of the next values, as far as there are any."""
        if type(self._keys) is list:
            start = len(self.bulk.partitions)
            return self._keys[start : start + count]
        return None if self._each_key is None else list(islice(self._each_key, count))

    async def _take_one(self, value: Any) -> None:
        record = ProducerRecord(
            self._topic,
            value,
            key=self._next("keys", self._each_key, None),
            partition=self._partition,
            headers=self._next("headers", self._each_headers, self._headers),
            timestamp=self._next("timestamps", self._each_timestamp, self._timestamp),
        )
        if self._unavailable is not None:
            error = self._unavailable.again()
            self._engine.preparation.report_not_accepted(self._topic, -1, error)
            self._feeder.add_invalid(error)
            return
        try:
            prepared = await self._engine.preparation.accept_async(record)
        except AioprodError as error:
            if getattr(error, "is_passing", False):
                # Of a schema registry that is down: each further record of the call would wait for all retries again.
                self._unavailable = error
            self._feeder.add_invalid(error)
        else:
            await self._feeder.take_one(prepared)

    def _next(self, name: str, values: Iterator[Any] | None, for_all: Any) -> Any:
        if values is None:
            return for_all
        try:
            return next(values)
        except StopIteration:
            raise self._too_few(name) from None

    def _too_few(self, name: str) -> InvalidRecordError:
        return InvalidRecordError(
            f"send_many got {name} for only {len(self.bulk.partitions)} of its values: give one per value."
        )


def _valid_list(timestamps: object, count: int | None) -> list[int] | None:
    """A list of one timestamp in milliseconds for each of `count` values; None for anything else."""
    if type(timestamps) is not list or len(timestamps) != count or count == 0:
        return None
    if set(map(type, timestamps)) != {int} or min(timestamps) < 0 or max(timestamps) >= 2**63:
        return None
    return timestamps
