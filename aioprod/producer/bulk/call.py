"""One call for many records: one completion for all of them, in whatever batches they are."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from aioprod.errors import AioprodError, InvalidRecordError
from aioprod.producer.batching.batch import Run
from aioprod.producer.batching.lines import Lines
from aioprod.producer.failure import Failure
from aioprod.producer.preparation import as_bytes
from aioprod.records.headers import header_list
from aioprod.types import SendResult, TopicPartition

__all__ = ["Bulk", "BulkResult", "check_values", "chunks", "per_record", "same_headers"]

T = TypeVar("T")


class _Stored(NamedTuple):
    """Records of a partition that are stored in a row."""

    offset: int
    """That of the first one."""
    end: int
    """That behind the last one."""
    append_time: int
    """The broker's time in milliseconds, -1 for none."""
    first: int
    """The index of the first one among the records of the call for this partition."""


class BulkResult(SendResult):
    """The result of a bulk call, which can say where single records are."""

    __slots__ = ("_partitions", "_stored")

    def __init__(
        self,
        offsets: dict[TopicPartition, tuple[range, ...]],
        failures: tuple[tuple[int, AioprodError], ...],
        partitions: array[int],
        stored: dict[TopicPartition, list[_Stored]],
    ) -> None:
        super().__init__(len(partitions), offsets, failures)
        self._partitions = partitions
        self._stored = stored

    def places(self, indexes: Sequence[int]) -> list[tuple[int, int, int]]:
        """Partition, offset and the broker's time (-1: none) of some records of a call that has no failures.

        `indexes` ascend. All records have one topic, and have their outcome. An offset that is not known is -1.
        """
        found = []
        counts: dict[int, int] = {}
        at = 0
        stored = {place.partition: sorted(ranges, key=_first) for place, ranges in self._stored.items()}
        for index in indexes:
            for partition in self._partitions[at : index + 1]:
                counts[partition] = counts.get(partition, -1) + 1
            at = index + 1
            partition = self._partitions[index]
            found.append((partition, *_nth(stored.get(partition, ()), counts[partition])))
        return found


class Bulk:
    """The records of one bulk call: where each went, and what became of it."""

    def __init__(self, topic: str, future: asyncio.Future[None]) -> None:
        self.topic = topic
        self.future = future
        self.partitions = array("i")
        """The partition of each record in call order, -1 for one that was not accepted."""
        self.failures: list[tuple[int, AioprodError]] = []
        """Index in the call and error of each record that was not accepted."""
        self._numbers: dict[str, int] = {topic: 0}
        """The topics of the call, numbered as they come."""
        self._topics = array("i")
        """The numbers of the topics of the records, as `partitions`; empty while all go to `topic`."""
        self._pending = 0
        """How many accepted records have no outcome yet."""
        self._complete = False
        self._last_runs: dict[TopicPartition, Run] = {}
        """The last run of each partition."""
        self._stored: dict[TopicPartition, list[_Stored]] = {}
        self._failed: list[tuple[TopicPartition, Run, Failure, int]] = []

    @property
    def watched(self) -> bool:
        """Whether the caller still waits for the result."""
        return not self.future.cancelled()

    def begin_run(self, place: TopicPartition) -> Run:
        """A run for the next records of the call that go to `place` in a row; it counts them itself."""
        before = self._last_runs.get(place)
        run = Run(self, 0 if before is None else before.first + before.count, 0)
        self._last_runs[place] = run
        return run

    def number_of(self, topic: str) -> int:
        """The number of a topic among those of the call; that of `topic` is 0."""
        return self._numbers.setdefault(topic, len(self._numbers))

    def place(self, partitions: array[int], topics: array[int] | None = None) -> None:
        """Note where the next records of the call went, by the numbers of their topics where it is not `topic`."""
        if topics is not None:
            self._topics.extend(array("i", [0]) * (len(self.partitions) - len(self._topics)))
            self._topics.extend(topics)
        self.partitions.extend(partitions)

    def as_bytes(self, what: str, given: object) -> bytes:
        """A key or value as bytes; raises SerializationError."""
        return as_bytes(what, self.topic, given)

    def accepted(self, count: int) -> None:
        """So many more records are on their way."""
        self._pending += count

    def invalid(self, index: int, error: AioprodError) -> None:
        """The record at `index` of the call was not accepted."""
        self.failures.append((index, error))

    def abandon(self, error: BaseException) -> None:
        """End the call with an error; the records that were accepted are delivered all the same."""
        self.future.cancel()
        if self._last_runs and isinstance(error, AioprodError):
            error.may_be_stored = True

    def complete(
        self, place: TopicPartition, run: Run, offset: int, append_time: int, failure: Failure | None, first: int
    ) -> None:
        """`run.count` records have their outcome: stored from `offset` on (-1: not known), or failed.

        `append_time` is the broker's in ms, -1 for none; `first` is the index of the first of them in their batch.
        """
        if failure is not None:
            self._failed.append((place, run, failure, first))
        elif offset >= 0:
            self._stored.setdefault(place, []).append(_Stored(offset, offset + run.count, append_time, run.first))
        self._pending -= run.count
        self._wake()

    def fail(self, error: AioprodError) -> None:
        """The outcome of some of its records could not be noted: the call ends with that error."""
        if not self.future.done():
            self.future.set_exception(error)

    def close(self) -> None:
        """The call has no more records."""
        self._complete = True
        self._wake()

    def _wake(self) -> None:
        if self._complete and self._pending == 0 and not self.future.done():
            self.future.set_result(None)

    def result(self) -> BulkResult:
        """What became of every record, once the future is done.

        Raises the first error if no record was accepted, all for one reason: then the call is wrong.
        """
        if self.failures and len(self.failures) == len(self.partitions):
            first = self.failures[0][1]
            if all(_reason(error) == _reason(first) for _, error in self.failures):
                if len(self.failures) > 1:
                    note = f"No record of this call was accepted: all {len(self.failures)} failed for this reason."
                    first.add_note(note)
                raise first
        offsets = {place: tuple(_joined(stored)) for place, stored in sorted(self._stored.items())}
        failures = sorted([*self.failures, *self._failed_records()], key=lambda failure: failure[0])
        return BulkResult(offsets, tuple(failures), self.partitions, self._stored)

    def _failed_records(self) -> Iterator[tuple[int, AioprodError]]:
        if not self._failed:
            return
        indexes: dict[tuple[int, int], list[int]] = {}
        for index, (number, partition) in enumerate(zip_longest(self._topics, self.partitions, fillvalue=0)):
            indexes.setdefault((number, partition), []).append(index)
        for place, run, failure, first in self._failed:
            records = indexes[self._numbers[place.topic], place.partition]
            for position in range(run.count):
                yield records[run.first + position], failure.error(first + position)


def _reason(error: AioprodError) -> tuple[object, ...]:
    """What errors of the same reason have in common, whichever record and type of value they name."""
    return type(error), type(error.__cause__), error.hint


_first = attrgetter("first")


def _nth(stored: Sequence[_Stored], number: int) -> tuple[int, int]:
    """Offset and time of the record with this index among those of its partition."""
    at = bisect_right(stored, number, key=_first) - 1
    if at >= 0:
        offset, end, append_time, first = stored[at]
        if number - first < end - offset:
            return offset + number - first, append_time
    return -1, -1


def _joined(stored: list[_Stored]) -> Iterator[range]:
    """Ranges of offsets, those that touch put together."""
    stored.sort()
    start, stop = stored[0][:2]
    for begin, end, _, _ in stored[1:]:
        if begin == stop:
            stop = end
        else:
            yield range(start, stop)
            start, stop = begin, end
    yield range(start, stop)


def check_values(values: object) -> None:
    """Raise InvalidRecordError unless `values` is an iterable, of either kind, of values."""
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, (Iterable, AsyncIterable)):
        raise InvalidRecordError(f"send_many got values of type {type(values).__name__}: give an iterable of values.")


async def chunks(values: Iterable[T] | AsyncIterable[T] | Lines, size: int) -> AsyncGenerator[list[T] | Lines, None]:
    """The items of an iterable of either kind: up to `size` at a time, or each as it comes from an async one.

    They come in lists, and lines as lines.
    """
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield [value]
    elif type(values) is list or isinstance(values, Lines):
        start = 0
        while chunk := values[start : start + size]:
            yield chunk
            start += size
    else:
        iterator = iter(values)
        while chunk := list(islice(iterator, size)):
            yield chunk


def same_headers(headers: Any) -> bool:
    """Whether `headers` are those of one record, for all: None, empty, or a sequence of (name, value) pairs.

    Raises SerializationError for a dict: its names would be taken for the headers of one record each.
    """
    if headers is None:
        return True
    if isinstance(headers, Mapping):
        header_list(headers)
    if not isinstance(headers, Sequence):
        return False
    return not headers or (isinstance(headers[0], tuple) and len(headers[0]) == 2 and isinstance(headers[0][0], str))


def per_record(name: str, values: Iterable[Any] | None, count: int | None) -> Iterator[Any] | None:
    """An iterator over what is given per record; raises InvalidRecordError when its length can't match."""
    if values is None:
        return None
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, bytearray, memoryview)):
        raise InvalidRecordError(f"{name} of send_many is of type {type(values).__name__}: give an iterable, or None.")
    if count is not None and isinstance(values, Sequence) and len(values) != count:
        raise InvalidRecordError(f"send_many got {len(values)} {name} for {count} values: give one per value.")
    return iter(values)
