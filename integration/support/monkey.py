"""Random callers of one producer, which use all of its calls and record the outcomes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from aioprod import DeliveryReport, Producer, RecordMetadata
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    DeliveryError,
    FlushTimeoutError,
    NotSentError,
    ProducerClosedError,
    RejectedError,
)
from integration.support.reading import Stored

__all__ = ["Ledger", "Monkey"]


class Ledger:
    """The outcome of each record by its number, with which its value begins.

    `completed` has the outcomes of accepted records; `left` are the records whose call was cancelled, or was a
    `send_many` that raised: only the log shows their outcome.
    """

    def __init__(self) -> None:
        self.completed: dict[int, list[RecordMetadata | DeliveryError | None]] = {}
        self.left: set[int] = set()
        self.withdrawn: set[int] = set()
        self.rejected = 0
        self._next = 0

    def new(self, source: random.Random) -> tuple[int, bytes]:
        """The number and the value of a new record."""
        self._next += 1
        return self._next, b"%d:" % self._next + source.randbytes(source.choice((0, 10, 200, 3000)))

    def complete(self, number: int, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        """Note the outcome of a record, from a callback, a future or an awaited call."""
        assert (metadata is None) != (error is None)
        assert error is None or isinstance(error, DeliveryError)
        self.completed.setdefault(number, []).append(error or metadata)

    def check(self, log: Sequence[Stored], report: DeliveryReport, *, idempotent: bool) -> None:
        """Check that each record has one outcome, which agrees with log and report; no duplicates if idempotent."""
        stored = {int((record.value or b"").partition(b":")[0]) for record in log}
        assert not idempotent or len(stored) == len(log), f"{len(log) - len(stored)} duplicates"
        places = {(r.partition, r.offset): int((r.value or b"").partition(b":")[0]) for r in log}
        for number, outcomes in self.completed.items():
            assert len(outcomes) == 1, f"record {number} has {len(outcomes)} outcomes"
            [outcome] = outcomes
            if isinstance(outcome, (NotSentError, RejectedError)):
                assert number not in stored, f"record {number} is stored, but its error says that it is not: {outcome}"
            elif isinstance(outcome, RecordMetadata):
                where = (outcome.partition, outcome.offset)
                assert places.get(where) == number, f"record {number} is not at {where}"
            elif outcome is None:
                assert number in stored, f"record {number} is lost"
        assert not stored - self.completed.keys() - self.left - self.withdrawn
        total = report.delivered + report.not_sent + report.unknown + report.rejected
        assert len(self.completed) <= total <= len(self.completed) + len(self.left) + len(self.withdrawn)

    def outcomes(self) -> Counter[str]:
        """The number of records by outcome."""
        names = Counter(
            "delivered" if not isinstance(o, DeliveryError) else type(o).__name__ for [o] in self.completed.values()
        )
        return names + Counter(withdrawn=len(self.withdrawn), left=len(self.left))


class Monkey:
    """One caller, which chooses its calls at random."""

    def __init__(self, producer: Producer, topic: str, ledger: Ledger, source: random.Random) -> None:
        self._producer = producer
        self._topic = topic
        self._ledger = ledger
        self._source = source
        self._tricks = (
            self._send_nowait,
            self._send_nowait,
            self._submit,
            self._submit,
            self._send,
            self._send,
            self._send_many,
            self._wait,
        )

    async def play(self) -> None:
        """Make random calls until the producer is closed or the task is cancelled."""
        while True:
            trick = self._source.choice(self._tricks)
            try:
                await trick()
            except BufferFullError:
                self._ledger.rejected += 1
            except ProducerClosedError:
                return
            await asyncio.sleep(self._source.choice((0, 0, 0.001)))

    def _key(self) -> bytes | None:
        return None if self._source.random() < 0.3 else b"%d" % self._source.randrange(20)

    async def _send_nowait(self) -> None:
        number, value = self._ledger.new(self._source)
        self._producer.send_nowait(
            self._topic, value, key=self._key(), on_delivery=partial(self._ledger.complete, number)
        )

    async def _submit(self) -> None:
        number, value = self._ledger.new(self._source)
        future = self._producer.submit(self._topic, value, key=self._key())
        future.add_done_callback(partial(self._submitted, number))
        if self._source.random() < 0.2:
            future.cancel()

    def _submitted(self, number: int, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            self._ledger.withdrawn.add(number)
            return
        error = future.exception()
        assert error is None or isinstance(error, AioprodError)
        self._ledger.complete(number, None if error else future.result(), error)

    async def _send(self) -> None:
        number, value = self._ledger.new(self._source)
        scope = asyncio.timeout(self._source.choice((0.001, 0.01, None, None)))
        try:
            async with scope:
                metadata = await self._producer.send(self._topic, value, key=self._key())
        except DeliveryError as error:
            self._ledger.complete(number, None, error)
        except TimeoutError:
            assert scope.expired()
            self._ledger.left.add(number)
        else:
            self._ledger.complete(number, metadata, None)

    async def _send_many(self) -> None:
        numbers, values = zip(
            *(self._ledger.new(self._source) for _ in range(self._source.randrange(1, 200))), strict=True
        )
        sending = asyncio.create_task(self._producer.send_many(self._topic, values))
        if self._source.random() < 0.2:
            asyncio.get_running_loop().call_later(self._source.random() * 0.02, sending.cancel)
        await asyncio.wait([sending])
        if sending.cancelled() or sending.exception() is not None:
            self._ledger.left.update(numbers)
            await asyncio.gather(sending, return_exceptions=True)
            return
        result = sending.result()
        failures = dict(result.failures)
        assert sum(len(span) for spans in result.offsets.values() for span in spans) + len(failures) == len(numbers)
        for index, number in enumerate(numbers):
            error = failures.get(index)
            if error is None or isinstance(error, DeliveryError):
                self._ledger.completed.setdefault(number, []).append(error)

    async def _wait(self) -> None:
        if self._source.random() < 0.5:
            await self._producer.drain()
            return
        with suppress(FlushTimeoutError):
            await self._producer.flush(self._source.choice((0.01, 1)))
