"""`send_many` of a spooled producer: a whole iterable, kept in chunks so that the loop keeps turning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Sequence, Sized
from contextlib import aclosing
from itertools import chain, islice
from typing import Any, Final

from aioprod.errors import AioprodError, InvalidRecordError, UsageError
from aioprod.producer.batching.lines import Lines
from aioprod.producer.bulk.call import check_values, chunks, per_record, same_headers
from aioprod.spool.intake import Intake
from aioprod.types import NO_VALUE, Headers, Timestamp

__all__ = ["BulkIntake"]

_PER_TURN: Final = 500
"""Records that are encoded before the loop gets a turn."""

Add = Callable[[bytes, int], Awaitable[None]]
"""Keeps so many encoded records; waits for room."""


class BulkIntake:
    """One call on its way through the values. What is added at once has `add_max` bytes, or is one record."""

    def __init__(
        self,
        intake: Intake,
        topic: str,
        values: Iterable[Any] | AsyncIterable[Any],
        keys: Iterable[Any] | None,
        partition: int | None,
        headers: Headers | Iterable[Headers | None] | None,
        timestamps: Timestamp | Iterable[Timestamp | None] | None,
        add_max: int,
    ) -> None:
        check_values(values)
        size = len(values) if isinstance(values, Sized) else None
        self._intake = intake
        self._add_max = add_max
        self._topic = topic
        self._values = values
        self._partition = partition
        self._keys = per_record("keys", keys, size)
        self._headers: Any = None
        self._each_headers: Iterator[Any] | None = None
        if same_headers(headers):
            self._headers = headers
        else:
            self._each_headers = per_record("headers", headers, size)
        self._timestamp, self._each_timestamp = None, None
        if isinstance(timestamps, Iterable):
            self._each_timestamp = per_record("timestamps", timestamps, size)
        else:
            self._timestamp = timestamps
        self.count = 0
        """How many values there were."""
        self.failures: list[tuple[int, AioprodError]] = []
        """Those that are no records, by their index."""

    async def keep(self, add: Add) -> None:
        """Keep all values; raises the error of all records, if each has failed, and what `add` raises."""
        async with aclosing(chunks(self._values, _PER_TURN)) as several:
            async for chunk in several:
                encoded = self._encoded_at_once(chunk)
                if encoded is None:
                    encoded = [data for value in chunk if (data := await self._encoded(value)) is not None]
                await self._add(encoded, add)
                await asyncio.sleep(0)
        if self.count and len(self.failures) == self.count:
            raise self.failures[0][1]

    async def _add(self, encoded: list[bytearray], add: Add) -> None:
        """Keep records, by more than one call where they are large."""
        begin = size = 0
        for index, data in enumerate(encoded):
            if size and size + len(data) > self._add_max:
                await add(b"".join(encoded[begin:index]), index - begin)
                begin, size = index, 0
            size += len(data)
        if encoded:
            await add(b"".join(encoded[begin:]), len(encoded) - begin)

    def _encoded_at_once(self, values: Sequence[Any] | Lines) -> list[bytearray] | None:
        """Encode values that differ by their keys at most; None where each has to be looked at."""
        intake, topic = self._intake, self._topic
        if not intake.preparation.plain or self._each_headers is not None or self._each_timestamp is not None:
            return None
        keys = [None] * len(values) if self._keys is None else list(islice(self._keys, len(values)))
        partition, headers, timestamp = self._partition, self._headers, self._timestamp
        try:
            encoded = [
                intake.encode(topic, value, key, partition, headers, timestamp)
                for value, key in zip(values, keys, strict=True)
            ]
        except (AioprodError, ValueError):  # One of them is wrong, or there are too few keys: which?
            if self._keys is not None:
                self._keys = chain(keys, self._keys)
            return None
        self.count += len(encoded)
        return encoded

    async def _encoded(self, value: Any) -> bytearray | None:
        index = self.count
        self.count += 1
        key = self._next("keys", self._keys, None)
        headers = self._next("headers", self._each_headers, self._headers)
        timestamp = self._next("timestamps", self._each_timestamp, self._timestamp)
        try:
            return await self._intake.encode_async(self._topic, value, key, self._partition, headers, timestamp)
        except UsageError:
            raise
        except AioprodError as error:
            self.failures.append((index, error))
            return None

    def _next(self, name: str, each: Iterator[Any] | None, same: Any) -> Any:
        if each is None:
            return same
        given = next(each, NO_VALUE)
        if given is NO_VALUE:
            raise InvalidRecordError(f"send_many got fewer {name} than values: give one per value.")
        return given
