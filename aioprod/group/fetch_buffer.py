"""Fetched records that were not returned yet: in order within each partition, also of paused partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from aioprod.group.open_batch import OpenBatch
from aioprod.reader.fetching import FetchedBatch
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["FetchBuffer"]


class FetchBuffer:
    """Holds one Fetch response, its `current` batch, batches of paused partitions, and records gathered for a list."""

    def __init__(self) -> None:
        self.current: OpenBatch | None = None
        self.paused: set[TopicPartition] = set()
        self.ready = 0
        """How many gathered records are of partitions that are not paused."""
        self.taken: Mapping[TopicPartition, int] = {}
        """The first offsets of the records that were taken last."""
        self.gathering: list[OpenBatch] = []
        """The batches whose records are rows of Arrow that were not returned yet, in their order; the current one may
        be the last of them."""
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
        """Add the batches of a response; those of the response before must be used up."""
        self._batches = batches

    def open_next(self) -> OpenBatch | None:
        """Take the next batch of a partition that is not paused as the current one; None if there is none.

        Batches of paused partitions are kept.
        """
        for index, one in enumerate(self._paused_batches):
            if one.tp not in self.paused:
                self.current = self._paused_batches.pop(index)
                return self.current
        for fetched in self._batches:
            one = OpenBatch(fetched)
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
        """Take back all batches whose rows were gathered, so that they are read again."""
        if not self.gathering:
            return
        given, self.gathering = self.gathering, []
        if self.current is not None and self.current is not given[-1]:
            given.append(self.current)
        for one in given:
            one.reader = None
        self._paused_batches[:0] = given
        self.current = None

    def take_rows(self) -> None:
        """The rows of Arrow that were gathered are returned."""
        if self.gathering:
            self.taken = {one.tp: one.offset for one in reversed(self.gathering)}
            self.gathering.clear()

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

    def gather_from(self, batch: OpenBatch, records: list[ConsumedRecord]) -> None:
        """Add these records of the current batch to the list."""
        self._gathered.setdefault(batch.tp, deque()).extend(records)
        self.ready += len(records)
        batch.offset = records[-1].offset + 1

    def take(self, max_records: int) -> list[ConsumedRecord]:
        """Remove and return up to `max_records` gathered records, partition by partition."""
        taken: list[ConsumedRecord] = []
        first_offsets: dict[TopicPartition, int] = {}
        for tp in [tp for tp in self._gathered if tp not in self.paused]:
            records = self._gathered[tp]
            room = max_records - len(taken)
            if room:
                first_offsets[tp] = records[0].offset
            if len(records) <= room:
                taken += records
                del self._gathered[tp]
            else:
                taken += [records.popleft() for _ in range(room)]
        self.ready -= len(taken)
        self.taken = first_offsets
        return taken
