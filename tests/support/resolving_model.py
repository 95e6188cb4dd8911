"""A model of a producer that finds out about its unknown batches, and of a log that is compacted meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from random import Random
from typing import Any

from aioprod._error_codes import ErrorCode
from aioprod.errors import UnknownOutcomeError
from aioprod.producer.batching.sequences import EPOCH_MAX
from aioprod.producer.batching.unknown import Decision, UnknownBatch
from aioprod.producer.failure import Failure
from aioprod.producer.stored_batches import Reading
from aioprod.reader.fetching import FetchedBatch
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.records.builder import RecordBatchBuilder
from aioprod.types import TopicPartition
from tests.support.accumulators import Harness
from tests.support.sequence_model import Model, ModelLog, RecordedCompletions, values_of

__all__ = ["ResolvingModel", "judged", "judged_run", "play"]

BYTES_MAX = 1 << 30
OTHERS = 1_000_000
"""From here on values are those of other producers."""


class ReadLog:
    """A `ModelLog` as `PartitionLog` has it; where a search by time begins is left to chance.

    So it is with clocks that differ, with times of the broker, and where compaction has removed the latest record.
    """

    def __init__(self, log: ModelLog, random: Random) -> None:
        self._log = log
        self._random = random

    async def offset(self, timestamp: int) -> int:
        end = len(self._log.values)
        return {EARLIEST: 0, LATEST: end}.get(timestamp, self._random.randrange(-1, end))

    async def batches(self, start: int, end: int) -> AsyncIterator[list[FetchedBatch]]:
        for batch in self._log.batches:
            if start < batch.next_offset and batch.base_offset < end:
                yield [FetchedBatch(TopicPartition("t", 0), batch, start, end)]


class ResolvingModel(Model):
    """A model that finds out about each unknown batch as soon as a later one decides."""

    completions: NotedCompletions

    def __init__(self, random: Random, **options: Any) -> None:
        super().__init__(**options)
        self._random = random
        self._others = 0
        self.is_compacted = False

    def new_completions(self) -> NotedCompletions:
        return NotedCompletions(self.harness)

    def decided(self, batches: Sequence[UnknownBatch]) -> None:
        for unknown in self.completions.unknown:
            if unknown.decision is not None and unknown.verdict is None and unknown.hopeless is None:
                self.search(unknown.decision)

    def search(self, decision: Decision) -> None:
        """Read the log."""
        log: Any = ReadLog(self.log, self._random)
        _finish(Reading(log, decision, BYTES_MAX).run())

    def other(self) -> None:
        """Another producer stores a batch, with the epoch and the number of one that is unknown."""
        unknown = next((one for one in self.completions.unknown if one.decision is None), None)
        if unknown is None:
            return
        _, epoch, sequence = self._random.choice(unknown.numbers)
        builder = RecordBatchBuilder(bytearray(1000))
        for _ in range(unknown.count):
            self._others += 1
            builder.append(1000, None, b"%d" % (OTHERS + self._others))
        builder.seal(0, None, 1000 + self._others, epoch, sequence)
        self.log.append(bytes(builder.wire(0, False))[8:])

    def compact(self) -> None:
        """A batch is removed from the log, with all its records."""
        if self.log.batches:
            self.is_compacted = True
            self.log.batches.pop(self._random.randrange(len(self.log.batches)))


def _finish(reading: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    try:
        reading.send(None)
    except StopIteration:
        return
    raise AssertionError("the model's log is never waited for")


class NotedCompletions(RecordedCompletions):
    """It also keeps the unknown batches, with the values of their records."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness)
        self.unknown: dict[UnknownBatch, list[int]] = {}

    def fail(self, batch: Any, failure: Failure) -> None:
        assert (failure.unknown is None) == (failure.family is not UnknownOutcomeError)
        if failure.unknown is not None:
            self.unknown[failure.unknown] = values_of(batch)
        super().fail(batch, failure)


def judged(model: ResolvingModel) -> Iterator[tuple[UnknownBatch, list[int]]]:
    """The unknown batches that something has decided, when all late requests have arrived; the log must agree."""
    while model.late:
        model.arrive(0)
    for unknown, values in model.completions.unknown.items():
        if unknown.verdict is None:
            continue
        base_offset = unknown.verdict.base_offset
        found = [model.log.values.index(value) for value in values if value in model.log.values]
        said = [] if base_offset < 0 else list(range(base_offset, base_offset + len(values)))
        assert found == said, f"records {values} were said to be at {said or 'no place'}, and are at {found or 'none'}"
        yield unknown, values


def play(model: ResolvingModel, random: Random, *, compacts: bool = False) -> None:
    """Many requests are lost, and arrive later or never; `compacts`: the log loses batches."""
    for _ in range(200):
        choice = random.random()
        if choice < 0.02:
            model.other()
        elif compacts and choice < 0.05:
            model.compact()
        elif model.sequences.is_exhausted and choice < 0.1:
            model.renew()
        elif choice < 0.3:
            for _ in range(random.randrange(1, 6)):
                model.send()
        elif choice < 0.5:
            model.drain()
        elif choice < 0.6:
            model.late += model.cut(random.randrange(len(model.wire) + 1))
        elif choice < 0.65:
            model.expire(random.choice((30.0, 60.0, 121.0)))
        elif choice < 0.75 and model.late:
            model.arrive(random.randrange(len(model.late)))
        elif model.wire:
            stored = random.random() < 0.3
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if stored else ErrorCode.NONE
            model.answer(error, is_stored=stored)
    model.finish()


def judged_run(seed: int) -> ResolvingModel:
    """A random run whose verdicts were compared with the log; raises AssertionError for a wrong one."""
    random = Random(seed)
    model = ResolvingModel(
        random,
        in_flight_max=random.choice((1, 2, 5)),
        retries=random.choice((0, 1, 3, 1000)),
        epoch=random.choice((0, EPOCH_MAX - 2)),
    )
    play(model, random, compacts=random.random() < 0.5)
    list(judged(model))
    for unknown in model.completions.unknown:
        reason = None if unknown.hopeless is None else unknown.hopeless[0]
        assert unknown.decision is None or unknown.verdict is not None or model.is_compacted, f"no verdict: {reason}"
        expected = (None, "another producer id", *(["deleted"] if model.is_compacted else ()))
        assert reason in expected, f"no verdict: {reason}"
    return model
