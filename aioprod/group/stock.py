"""What was fetched and not given out yet: in order within each partition, whatever of it is paused meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from aioprod.reader.fetching import FetchedBatch
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Opened", "Stock"]


@dataclass(slots=True, eq=False)
class Opened:
    """A batch that is given out, or was when its partition was paused: `offset` is where it goes on.

    A large one has no `records` until it is `unpacking`; `record` has been taken from them and can't be given yet.
    """

    fetched: FetchedBatch
    offset: int
    unpacking: asyncio.Task[FetchedBatch] | None = None
    records: Iterator[ConsumedRecord] | None = None
    record: ConsumedRecord | None = None

    @property
    def tp(self) -> TopicPartition:
        """The partition that it is of."""
        return self.fetched.tp


class Stock:
    """One answer, the batch of it that is `opened`, those of paused partitions, and records gathered for a list.

    `ready` counts the gathered records that may be given.
    """

    def __init__(self) -> None:
        self.opened: Opened | None = None
        self.paused: set[TopicPartition] = set()
        self.ready = 0
        self._batches: Iterator[FetchedBatch] = iter(())
        self._kept: list[Opened] = []
        self._gathered: dict[TopicPartition, deque[ConsumedRecord]] = {}

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where each partition goes on of which there is something."""
        found = {one.tp: one.offset for one in reversed(self._kept)}
        if self.opened is not None:
            found[self.opened.tp] = self.opened.offset
        return found | {tp: records[0].offset for tp, records in self._gathered.items()}

    # --- batches

    def fill(self, batches: Iterator[FetchedBatch]) -> None:
        """Take in an answer; the last one is worked off."""
        self._batches = batches

    def open_next(self) -> Opened | None:
        """Open the next batch that is not paused, None where there is none; those that are paused are put aside."""
        for index, one in enumerate(self._kept):
            if one.tp not in self.paused:
                self.opened = self._kept.pop(index)
                return self.opened
        for fetched in self._batches:
            one = Opened(fetched, fetched.start)
            if fetched.tp not in self.paused:
                self.opened = one
                return one
            self._kept.append(one)
        return None

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give nothing of these; what there is of them is kept."""
        new = frozenset(partitions) - self.paused
        self.paused |= new
        self.ready -= sum(len(self._gathered.get(tp, ())) for tp in new)
        if self.opened is not None and self.opened.tp in new:
            self._kept.insert(0, self.opened)
            self.opened = None

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these, beginning with what was kept."""
        back = self.paused.intersection(partitions)
        self.paused -= back
        self.ready += sum(len(self._gathered.get(tp, ())) for tp in back)

    def drop(self, tp: TopicPartition) -> None:
        """Nothing of a partition is wanted any more; whether it is paused stays as it is."""
        gone = len(self._gathered.pop(tp, ()))
        self.ready -= 0 if tp in self.paused else gone
        self.drop_batches(tp)

    def drop_batches(self, tp: TopicPartition) -> None:
        """Its batches are read anew; what was gathered of them is kept."""
        some = self._kept if self.opened is None else [self.opened, *self._kept]
        for one in some:
            if one.tp == tp and one.unpacking is not None:
                one.unpacking.cancel()
        self._kept = [one for one in self._kept if one.tp != tp]
        if self.opened is not None and self.opened.tp == tp:
            self.opened = None

    # --- records gathered for a list

    def gather(self, record: ConsumedRecord) -> None:
        """Put a record aside for a list that is not complete yet; its partition is not paused."""
        tp = TopicPartition(record.topic, record.partition)
        self._gathered.setdefault(tp, deque()).append(record)
        self.ready += 1

    def give(self, max_records: int) -> list[ConsumedRecord]:
        """Up to so many of the gathered records, partition by partition."""
        given: list[ConsumedRecord] = []
        for tp in [tp for tp in self._gathered if tp not in self.paused]:
            records = self._gathered[tp]
            while records and len(given) < max_records:
                given.append(records.popleft())
            if not records:
                del self._gathered[tp]
        self.ready -= len(given)
        return given
