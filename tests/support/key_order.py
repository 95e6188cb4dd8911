"""Numbered records of some keys, sent by many tasks at once, and a check that each key's are stored in send order."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Protocol

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError

__all__ = ["KeyedSenders", "Read", "disorder"]

TASKS_PER_KEY = 6
PAUSES_S = (0, 0, 0.01, 0.1, 1)


class Read(Protocol):
    """The fields of a record that any reader has."""

    @property
    def partition(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class KeyedSenders:
    """For each key some tasks that send its records, by every call that sends one record.

    A record's number is taken in the very turn of the loop in which it is sent: numbers are the order of the calls,
    whichever tasks they come from. `sent` counts the records by key, `errors` has the failures.
    """

    def __init__(self, producer: Producer, topic: str, keys: Iterable[bytes], source: Random) -> None:
        self._producer = producer
        self._topic = topic
        self._keys = tuple(keys)
        self._source = source
        self._stopping = False
        self._delivered = 0
        self.sent: Counter[bytes] = Counter()
        self.errors: list[AioprodError] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send as long as the block lasts, then wait until all outcomes are there."""
        async with asyncio.TaskGroup() as group:
            for key in self._keys * TASKS_PER_KEY:
                group.create_task(self._send(key))
            try:
                yield
            finally:
                self._stopping = True
        await self._producer.flush()

    async def more(self, count: int) -> None:
        """Wait until so many more records are delivered."""
        wanted = self._delivered + count
        while self._delivered < wanted:
            await asyncio.sleep(0.01)

    async def _send(self, key: bytes) -> None:
        while not self._stopping:
            style = self._source.choice(("send", "submit", "nowait"))
            number = self.sent[key]
            self.sent[key] += 1
            value = b"%d" % number
            if style == "send":
                await self._await(self._producer.send(self._topic, value, key=key))
            elif style == "submit":
                await self._await(self._producer.submit(self._topic, value, key=key))
            else:
                self._producer.send_nowait(self._topic, value, key=key, on_delivery=self._completed)
            await asyncio.sleep(self._source.choice(PAUSES_S))

    async def _await(self, sending: Awaitable[RecordMetadata]) -> None:
        try:
            self._completed(await sending, None)
        except AioprodError as error:
            self._completed(None, error)

    def _completed(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        self._delivered += error is None
        if error is not None:
            self.errors.append(error)


def disorder(read: Iterable[Read], sent: Counter[bytes]) -> list[str]:
    """The problems of a log: keys in two partitions, and records out of order."""
    numbers: defaultdict[bytes | None, list[int]] = defaultdict(list)
    places: defaultdict[bytes | None, set[int]] = defaultdict(set)
    for record in read:
        assert record.value is not None
        numbers[record.key].append(int(record.value))
        places[record.key].add(record.partition)
    found = [f"{key!r} was never sent" for key in numbers if key not in sent]
    for key, count in sent.items():
        if len(places[key]) != 1:
            found.append(f"{key!r} is in the partitions {sorted(places[key])}")
        if numbers[key] != list(range(count)):
            wrong = next((at for at, number in enumerate(numbers[key]) if number != at), len(numbers[key]))
            found.append(f"{key!r}: {len(numbers[key])} records for {count}, in order up to number {wrong}")
    return found
