"""Fetched records that were not returned yet: in order within each partition, also of paused partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aioprod.reader.fetching import FetchedBatch, decompressed
from aioprod.records.table import TableReader
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["FetchBuffer", "OpenBatch"]


@dataclass(slots=True, eq=False)
class OpenBatch:
    """A batch whose records are being returned, or were until its partition was paused; `offset` is the next one.

    A large batch is decompressed by the task `decompressing` before it has `records`, or a `reader` into Arrow columns.
    `record` was taken from the records and is being deserialized.
    """

    fetched: FetchedBatch
    offset: int
    decompressing: asyncio.Task[FetchedBatch] | None = None
    records: Iterator[ConsumedRecord] | None = None
    record: ConsumedRecord | None = None
    reader: TableReader | None = None

    @property
    def to_read(self) -> FetchedBatch:
        """What is left of the batch, decompressed if it is large; raises what the decompression has raised."""
        fetched = self.fetched if self.decompressing is None else self.decompressing.result()
        return fetched._replace(start=self.offset)

    def decompress(self) -> asyncio.Task[FetchedBatch]:
        """The task that decompresses a large batch, which begins with the first call."""
        if self.decompressing is None:
            self.decompressing = asyncio.get_running_loop().create_task(decompressed(self.fetched))
            self.decompressing.add_done_callback(_retrieve_exception)
        return self.decompressing

    def release(self) -> None:
        """Forget what a large batch was decompressed to: it is decompressed again when more of it is read."""
        if self.decompressing is not None:
            self.decompressing = self.records = self.record = self.reader = None

    @property
    def tp(self) -> TopicPartition:
        """Its partition."""
        return self.fetched.tp


def _retrieve_exception(future: asyncio.Future[FetchedBatch]) -> None:
    """Retrieve the exception of a future that may have no waiter, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


class FetchBuffer:
    """Holds one Fetch response, its `current` batch, batches of paused partitions, and records gathered for a list.

    `ready` counts the gathered records of partitions that are not paused. `gathering` are the batches whose records are
    rows of Arrow that were not returned yet, in their order; the current one may be the last of them.
    """

    def __init__(self) -> None:
        self.current: OpenBatch | None = None
        self.paused: set[TopicPartition] = set()
        self.ready = 0
        self.gathering: list[OpenBatch] = []
        self._batches: Iterator[FetchedBatch] = iter(())
        self._paused_batches: list[OpenBatch] = []
        self._gathered: dict[TopicPartition, deque[ConsumedRecord]] = {}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The next offset of each partition that has records here."""
        found = {one.tp: one.offset for one in reversed(self._paused_batches)}
        if self.current is not None:
            found[self.current.tp] = self.current.offset
        found |= {one.tp: one.offset for one in reversed(self.gathering)}
        return found | {tp: records[0].offset for tp, records in self._gathered.items()}

    # --- batches

    def fill(self, batches: Iterator[FetchedBatch]) -> None:
        """Add the batches of a response; those of the last one must be used up."""
        self._batches = batches

    def open_next(self) -> OpenBatch | None:
        """Make the next batch that is not paused the current one; None if there is none. Paused ones are kept."""
        for index, one in enumerate(self._paused_batches):
            if one.tp not in self.paused:
                self.current = self._paused_batches.pop(index)
                return self.current
        for fetched in self._batches:
            one = OpenBatch(fetched, fetched.start)
            if fetched.tp not in self.paused:
                self.current = one
                return one
            self._paused_batches.append(one)
        return None

    def close_current(self) -> None:
        """The current batch is at its end."""
        self.current = None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions; those that are here are kept."""
        self.put_back()
        new = frozenset(partitions) - self.paused
        self.paused |= new
        self.ready -= sum(len(self._gathered.get(tp, ())) for tp in new)
        if self.current is not None and self.current.tp in new:
            self._paused_batches.insert(0, self.current)
            self.current = None
        for one in self._paused_batches:
            if one.tp in new:
                one.release()

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of these partitions again, those that were kept first."""
        resumed = self.paused.intersection(partitions)
        self.paused -= resumed
        self.ready += sum(len(self._gathered.get(tp, ())) for tp in resumed)

    def drop(self, tp: TopicPartition) -> None:
        """Drop all records of a partition; it stays paused if it is."""
        dropped = len(self._gathered.pop(tp, ()))
        self.ready -= 0 if tp in self.paused else dropped
        self.drop_batches(tp)

    def drop_batches(self, tp: TopicPartition) -> None:
        """Drop the batches of a partition, which are fetched again; records that were gathered are kept."""
        self.put_back()
        some = self._paused_batches if self.current is None else [self.current, *self._paused_batches]
        for one in some:
            if one.tp == tp and one.decompressing is not None:
                one.decompressing.cancel()
        self._paused_batches = [one for one in self._paused_batches if one.tp != tp]
        if self.current is not None and self.current.tp == tp:
            self.current = None

    def put_back(self) -> None:
        """Have back all batches whose rows were gathered, to read these again."""
        if not self.gathering:
            return
        given, self.gathering = self.gathering, []
        if self.current is not None and self.current is not given[-1]:
            given.append(self.current)
        for one in given:
            one.reader = None
        self._paused_batches[:0] = given
        self.current = None

    # --- records gathered for a list

    @property
    def gathered(self) -> list[TopicPartition]:
        """The partitions of the records in the list."""
        return list(self._gathered)

    def gather(self, record: ConsumedRecord) -> None:
        """Add a record to the list that is not complete yet; its partition is not paused."""
        tp = TopicPartition(record.topic, record.partition)
        self._gathered.setdefault(tp, deque()).append(record)
        self.ready += 1

    def gather_from(self, batch: OpenBatch, records: Iterator[ConsumedRecord]) -> None:
        """Add these records of the current batch to the list; what they raise is raised after those before it."""
        gathered = self._gathered.setdefault(batch.tp, deque())
        before = len(gathered)
        try:
            gathered.extend(records)
        finally:
            if added := len(gathered) - before:
                self.ready += added
                batch.offset = gathered[-1].offset + 1
            if not gathered:
                del self._gathered[batch.tp]

    def take(self, max_records: int) -> list[ConsumedRecord]:
        """Remove and return up to `max_records` gathered records, partition by partition."""
        taken: list[ConsumedRecord] = []
        for tp in [tp for tp in self._gathered if tp not in self.paused]:
            records = self._gathered[tp]
            room = max_records - len(taken)
            if len(records) <= room:
                taken += records
                del self._gathered[tp]
            else:
                taken += [records.popleft() for _ in range(room)]
        self.ready -= len(taken)
        return taken
