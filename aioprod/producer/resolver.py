"""What became of a record whose outcome is unknown: waits until a later batch has decided it, and has the log read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Final

from aioprod.config import ProducerConfig
from aioprod.errors import (
    AioprodError,
    StillUnknownError,
    TransactionUnknownError,
    UnknownOutcomeError,
    UsageError,
)
from aioprod.net.waiters import Waiters
from aioprod.producer.batching.unknown import Decision, UnknownBatch, UnknownBatches, Verdict
from aioprod.record_metadata import RecordMetadata

__all__ = ["Resolver"]

_READINGS_MAX: Final = 5
"""So many decisions are read for at a time, each with connections of its own."""


class Resolver:
    """Answers `Producer.resolve`; for each decision the log is read, by a client of its own."""

    def __init__(self, config: ProducerConfig, *, clock: Callable[[], float], random: Random) -> None:
        self._config = config
        self._clock = clock
        """Monotonic time in seconds."""
        self._random = random
        """For jitter."""
        self._waiting: dict[UnknownBatch, Waiters] = {}
        """The callers that wait until a batch is decided."""
        self.unknown = UnknownBatches(self._decided)
        self._listener: Callable[[Sequence[UnknownBatch]], object] | None = None
        self._readings: dict[Decision, asyncio.Task[None]] = {}
        """Each decision that the log is read for, once for all callers."""
        self._turns = asyncio.Semaphore(_READINGS_MAX)
        self._has_ended = False

    def listen(self, listener: Callable[[Sequence[UnknownBatch]], object]) -> None:
        """Call `listener` with batches that were decided, all by one decision, or can't be any more."""
        self._listener = listener

    def _decided(self, batches: Sequence[UnknownBatch]) -> None:
        for unknown in batches:
            if (waiters := self._waiting.pop(unknown, None)) is not None:
                waiters.notify_all()
        if self._listener is not None:
            self._listener(batches)

    async def resolve(self, error: UnknownOutcomeError, timeout_s: float | None) -> RecordMetadata | None:
        """The record's place, or None where it is in no log and never will be.

        Raises UsageError and StillUnknownError as `Producer.resolve` has it.
        """
        unknown, index = self._record_of(error)
        limit_s = self._config.resolve_timeout_ms / 1000 if timeout_s is None else timeout_s
        until = self._clock() + limit_s
        verdict = await self._verdict(unknown, until, limit_s)
        if verdict.base_offset < 0:
            return None
        timestamp, key_size, value_size = verdict.records.get(index, (verdict.append_time, -1, -1))
        place = verdict.base_offset + index
        return RecordMetadata(unknown.topic, unknown.partition, place, timestamp, key_size, value_size)

    def _record_of(self, error: object) -> tuple[UnknownBatch, int]:
        """The batch and the place there of a record that failed with this error."""
        if not isinstance(error, UnknownOutcomeError):
            hint = None
            if isinstance(error, TransactionUnknownError):
                hint = "Its `status` says what the coordinator knows of the transaction."
            raise UsageError(f"resolve() takes an UnknownOutcomeError, not a {type(error).__name__}.", hint=hint)
        if error._sent is None:
            raise StillUnknownError(
                f"It can't be known whether the record of {error.topic}-{error.partition} is stored: it has no "
                "sequence number.",
                reason="not idempotent",
                hint="Set enable.idempotence=true, which is the default.",
            )
        if error._sent.batch is None or error._sent.batch.owner is not self.unknown.owner:
            raise UsageError(
                f"The error about a record of {error.topic}-{error.partition} is of another producer.",
                hint="Only the producer that sent the record can resolve it, in its process and before it is closed.",
            )
        return error._sent.batch, error._sent.index

    async def _verdict(self, unknown: UnknownBatch, until: float, limit_s: float) -> Verdict:
        """What is known of a batch at this time, in monotonic seconds, at the latest; raises StillUnknownError."""
        while unknown.verdict is None:
            if self._has_ended:
                raise UsageError("The producer has ended before it was known whether the record is stored.")
            if unknown.hopeless is not None:
                raise unknown.still_unknown(*unknown.hopeless)
            left_s = until - self._clock()
            if unknown.decision is None:
                if left_s <= 0.0:
                    raise unknown.too_late(limit_s)
                await self._waiting.setdefault(unknown, Waiters()).wait(left_s)
                continue
            reading = self.read(unknown.decision)
            await asyncio.wait([reading], timeout=max(0.0, left_s))
            if reading.done():
                if unknown.verdict is None and unknown.hopeless is None and not reading.cancelled():
                    raise _failure(reading)
            elif until <= self._clock():
                raise unknown.too_late(limit_s)
        return unknown.verdict

    def read(self, decision: Decision) -> asyncio.Task[None]:
        """The task that reads the log for a decision; it ends with the StillUnknownError of all its batches."""
        reading = self._readings.get(decision)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read(decision), name="aioprod resolve")
            self._readings[decision] = reading
            reading.add_done_callback(partial(self._has_read, decision))
        return reading

    async def _read(self, decision: Decision) -> None:
        from aioprod.producer.stored_batches import read_for  # Few producers need it.

        async with self._turns:
            await read_for(decision, self._config, clock=self._clock, random=self._random)

    def _has_read(self, decision: Decision, reading: asyncio.Task[None]) -> None:
        del self._readings[decision]
        if not reading.cancelled():
            reading.exception()  # Callers may have left.

    def end(self) -> None:
        """End what is read, and all calls: nothing is resolved after the end, or the failure, of the producer."""
        self._has_ended = True
        for reading in self._readings.values():
            reading.cancel()
        for waiters in self._waiting.values():
            waiters.notify_all()
        self._waiting.clear()

    async def close(self) -> None:
        """End, and wait for what was read."""
        self.end()
        if self._readings:
            await asyncio.wait(list(self._readings.values()))


def _failure(reading: asyncio.Task[None]) -> BaseException:
    error = reading.exception()
    assert error is not None
    return error.again() if isinstance(error, AioprodError) else error
