"""Numbered records of several keys, sent continuously while brokers fail, and a comparison of outcomes and log."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from aioprod import Producer, RecordMetadata
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    DeliveryError,
    ErrorCode,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from integration.support.reading import Stored

__all__ = ["Load", "Verdict"]

PAUSE_S = 0.04
PADDING = b"." * 100


class Name(NamedTuple):
    """A record's key and its number among the records of that key, from 0."""

    key: bytes
    number: int

    @property
    def value(self) -> bytes:
        return b"%d %s" % (self.number, PADDING)


def name_of(record: Stored) -> Name:
    """The name of a record that was read back."""
    assert record.key is not None
    assert record.value is not None
    number, _, padding = record.value.partition(b" ")
    assert padding == PADDING
    return Name(record.key, int(number))


def is_forgotten(error: AioprodError) -> bool:
    """Whether a record failed because the broker may have stored it, but did not recognize the retry."""
    return isinstance(error, UnknownOutcomeError) and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of outcomes and log; all counts are records.

    `forgotten` are the `failed` records that are stored, and whose retry was out of sequence: a restarted broker knows
    only the last batch of a producer, and may have stored others whose responses were lost.
    """

    accepted: int
    delivered: int
    failed: int
    forgotten: int
    duplicates: int
    outcomes_missing: int
    outcomes_repeated: int
    delivered_but_missing: int
    delivered_elsewhere: int
    failed_but_stored: int
    never_accepted: int
    out_of_order: int

    @property
    def flawless(self) -> bool:
        """Whether nothing is lost or invented, the order is kept, and each record has one outcome."""
        flaws = (
            self.outcomes_missing,
            self.outcomes_repeated,
            self.delivered_but_missing,
            self.delivered_elsewhere,
            self.failed_but_stored,
            self.never_accepted,
            self.out_of_order,
        )
        return not any(flaws)


class Load:
    """Sends records of some keys by `send_nowait` in bursts, of others by `await send()` one by one.

    `on_acknowledgement` makes it an interceptor, which gets each outcome as well, beside callbacks and results.
    """

    def __init__(self, topic: str, *, keys: int = 40, awaited_keys: int = 10) -> None:
        self._topic = topic
        self._keys = [b"burst %d" % index for index in range(keys)]
        self._awaited_keys = [b"await %d" % index for index in range(awaited_keys)]
        self._outcomes: dict[Name, list[RecordMetadata | AioprodError]] = {}
        self._acknowledged = self._delivered = 0
        self._stopping = False
        self.errors: list[AioprodError] = []

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        """Count an outcome."""
        self._acknowledged += 1
        self._delivered += error is None

    @asynccontextmanager
    async def running(self, producer: Producer) -> AsyncIterator[None]:
        """Send as long as the block lasts, then wait for all outcomes."""
        self._stopping = False
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_bursts(producer))
            for key in self._awaited_keys:
                group.create_task(self._send_and_wait(producer, key))
            try:
                yield
            finally:
                self._stopping = True
        await producer.flush()

    async def more(self, count: int) -> None:
        """Wait until so many more records are delivered; raises TimeoutError after two minutes."""
        wanted = self._delivered + count
        async with asyncio.timeout(120):
            while self._delivered < wanted:
                await asyncio.sleep(PAUSE_S)

    async def _send_bursts(self, producer: Producer) -> None:
        number = 0
        while not self._stopping:
            for key in self._keys:
                name = Name(key, number)
                self._outcomes[name] = []
                while True:
                    try:
                        producer.send_nowait(
                            self._topic, name.value, key=key, on_delivery=partial(self._completed, self._outcomes[name])
                        )
                        break
                    except BufferFullError:
                        await producer.drain()
            number += 1
            await asyncio.sleep(PAUSE_S)

    def _completed(
        self,
        outcomes: list[RecordMetadata | AioprodError],
        metadata: RecordMetadata | None,
        error: AioprodError | None,
    ) -> None:
        outcomes.extend(outcome for outcome in (metadata, error) if outcome is not None)

    async def _send_and_wait(self, producer: Producer, key: bytes) -> None:
        number = 0
        while not self._stopping:
            name = Name(key, number)
            outcomes = self._outcomes[name] = []
            try:
                outcomes.append(await producer.send(self._topic, name.value, key=key))
            except DeliveryError as error:
                outcomes.append(error)
            number += 1
            await asyncio.sleep(PAUSE_S)

    # --- judgement

    def judge(self, log: Sequence[Stored]) -> Verdict:
        """Compare the outcomes with the log."""
        places: defaultdict[Name, list[tuple[int, int]]] = defaultdict(list)
        for record in log:
            places[name_of(record)].append((record.partition, record.offset))
        delivered = missing = elsewhere = failed = forgotten = stored_anyway = 0
        for name, outcomes in self._outcomes.items():
            for outcome in outcomes:
                if isinstance(outcome, RecordMetadata):
                    delivered += 1
                    missing += name not in places
                    elsewhere += name in places and (outcome.partition, outcome.offset) not in places[name]
                else:
                    failed += 1
                    forgotten += name in places and is_forgotten(outcome)
                    self.errors.append(outcome)
                    stored_anyway += name in places and isinstance(outcome, (NotSentError, RejectedError))
        return Verdict(
            accepted=len(self._outcomes),
            delivered=delivered,
            failed=failed,
            forgotten=forgotten,
            duplicates=len(log) - len(places),
            outcomes_missing=sum(not outcomes for outcomes in self._outcomes.values()),
            outcomes_repeated=sum(len(outcomes) > 1 for outcomes in self._outcomes.values())
            + abs(self._acknowledged - len(self._outcomes)),
            delivered_but_missing=missing,
            delivered_elsewhere=elsewhere,
            failed_but_stored=stored_anyway,
            never_accepted=len(places.keys() - self._outcomes.keys()),
            out_of_order=_out_of_order(log),
        )


def _out_of_order(log: Sequence[Stored]) -> int:
    """The number of records whose first copy is stored after a later record of their key."""
    count = 0
    seen: set[Name] = set()
    last: dict[bytes, int] = {}
    for record in log:
        name = name_of(record)
        if name not in seen:
            seen.add(name)
            count += name.number < last.get(name.key, -1)
            last[name.key] = max(name.number, last.get(name.key, -1))
    return count
