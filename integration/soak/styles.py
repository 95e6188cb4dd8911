"""Every way to send a record, each to partitions of its own, so that the order of a partition is that of its calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, DeliveryError, NotSentError, ProducerFencedError, RejectedError
from integration.chaos.ledger import Outcome, value_of
from integration.soak.trail import Trail

__all__ = ["STYLES", "Styles"]

STYLES: Final = ("send", "send_nowait", "submit", "send_many", "send_arrow", "transaction")
_ABORTED_EACH: Final = 10
"""Each tenth transaction is aborted, and done again."""
_RETRY_S: Final = 0.1


class _UndoneError(Exception):
    """Leaves a transaction that is to be aborted."""


def _outcome(error: BaseException | None) -> Outcome:
    if error is None:
        return Outcome.DELIVERED
    if isinstance(error, NotSentError):
        return Outcome.NOT_SENT
    if isinstance(error, RejectedError):
        return Outcome.REJECTED
    return Outcome.UNKNOWN


class Styles:
    """The producers of a run, and a method for each style that sends `count` records to a partition.

    `errors` counts what was raised, by its kind; `tasks` are those that `send` has now, which come and go.
    """

    def __init__(self, topic: str, trails: Mapping[int, Trail], make: Callable[[str | None], Producer]) -> None:
        self.errors: dict[str, int] = {}
        self.tasks = 0
        self._topic = topic
        self._trails = trails
        self._make = make
        self._producer = make(None)
        self._transactional = make("soak")
        self._transactions = 0

    async def start(self) -> None:
        """Connect."""
        await self._producer.start()
        await self._transactional.start()

    async def close(self) -> None:
        """Wait for what is under way, and disconnect."""
        await self._producer.close()
        await self._transactional.close()

    @property
    def clients(self) -> Sequence[Producer]:
        """The producers that are in use now."""
        return self._producer, self._transactional

    async def send(self, index: int, count: int) -> None:
        """`await producer.send(...)`, by tasks that begin in the order of their records."""
        await asyncio.gather(*(self._send_one(index) for _ in range(count)))

    async def _send_one(self, index: int) -> None:
        trail = self._trails[index]
        number = trail.new()
        self.tasks += 1
        try:
            await self._producer.send(self._topic, value_of(number), partition=index)
        except DeliveryError as error:
            self._failed(trail, [number], error, _outcome(error))
        except AioprodError as error:
            self._failed(trail, [number], error, Outcome.REFUSED)
        else:
            trail.tell(number, Outcome.DELIVERED)
        finally:
            self.tasks -= 1

    async def send_nowait(self, index: int, count: int) -> None:
        """`producer.send_nowait(...)` with a callback."""
        trail = self._trails[index]
        for _ in range(count):
            number = trail.new()
            told = partial(self._delivered, trail, number)
            try:
                self._producer.send_nowait(self._topic, value_of(number), partition=index, on_delivery=told)
            except AioprodError as error:
                self._failed(trail, [number], error, Outcome.REFUSED)
        await self._producer.drain()

    def _delivered(
        self, trail: Trail, number: int, metadata: RecordMetadata | None, error: AioprodError | None
    ) -> None:
        if error is None:
            trail.tell(number, Outcome.DELIVERED)
        else:
            self._failed(trail, [number], error, _outcome(error))

    async def submit(self, index: int, count: int) -> None:
        """`producer.submit(...)`, whose futures are not awaited."""
        trail = self._trails[index]
        for _ in range(count):
            number = trail.new()
            try:
                future = self._producer.submit(self._topic, value_of(number), partition=index)
            except AioprodError as error:
                self._failed(trail, [number], error, Outcome.REFUSED)
            else:
                future.add_done_callback(partial(self._done, trail, number))
        await self._producer.drain()

    def _done(self, trail: Trail, number: int, future: asyncio.Future[RecordMetadata]) -> None:
        error = future.exception()
        if error is None:
            trail.tell(number, Outcome.DELIVERED)
        else:
            self._failed(trail, [number], error, _outcome(error))

    async def send_many(self, index: int, count: int) -> None:
        """`producer.send_many(...)`."""
        trail, numbers, values = self._numbered(index, count)
        try:
            result = await self._producer.send_many(self._topic, values, partition=index)
        except AioprodError as error:
            self._failed(trail, numbers, error, Outcome.UNKNOWN)
        else:
            self._settle(trail, numbers, dict(result.failures))

    async def send_arrow(self, index: int, count: int) -> None:
        """`producer.send_arrow(...)` of a record batch."""
        trail, numbers, values = self._numbered(index, count)
        batch = pa.record_batch(
            {"value": pa.array(values, pa.binary()), "partition": pa.array([index] * count, pa.int32())}
        )
        try:
            result = await self._producer.send_arrow(batch, topic=self._topic)
        except AioprodError as error:
            self._failed(trail, numbers, error, Outcome.UNKNOWN)
        else:
            self._settle(trail, numbers, dict(result.failures))

    def _numbered(self, index: int, count: int) -> tuple[Trail, list[int], list[bytes]]:
        trail = self._trails[index]
        numbers = [trail.new() for _ in range(count)]
        return trail, numbers, [value_of(number) for number in numbers]

    def _settle(self, trail: Trail, numbers: Sequence[int], failures: Mapping[int, AioprodError]) -> None:
        for at, number in enumerate(numbers):
            error = failures.get(at)
            if error is None:
                trail.tell(number, Outcome.DELIVERED)
            else:
                self._failed(trail, [number], error, _outcome(error))

    async def transaction(self, index: int, count: int) -> None:
        """A transaction; one that certainly did not happen is done again, with the same records."""
        trail, numbers, values = self._numbered(index, count)
        self._transactions += 1
        is_undone = self._transactions % _ABORTED_EACH == 0
        while True:
            try:
                async with self._transactional.transaction():
                    for value in values:
                        self._transactional.send_nowait(self._topic, value, partition=index)
                    if is_undone:
                        is_undone = False
                        raise _UndoneError
            except _UndoneError:
                continue
            except AioprodError as error:
                if isinstance(error, ProducerFencedError) or error.may_be_stored:
                    await self._renew()
                if not error.may_be_stored:
                    self._count(error)
                    await asyncio.sleep(_RETRY_S)
                    continue
                self._failed(trail, numbers, error, Outcome.UNKNOWN)
            else:
                self._settle(trail, numbers, {})
            return

    async def _renew(self) -> None:
        """Another producer with the same id fences the one whose transaction hangs."""
        await self._transactional.close()
        self._transactional = self._make("soak")
        await self._transactional.start()

    def _failed(self, trail: Trail, numbers: Sequence[int], error: BaseException, outcome: Outcome) -> None:
        self._count(error)
        for number in numbers:
            trail.tell(number, outcome)

    def _count(self, error: BaseException) -> None:
        kind = type(error).__name__
        self.errors[kind] = self.errors.get(kind, 0) + 1
