"""A settled batch while those who wait for its records are told."""

from __future__ import annotations

from aioprod.core.batch import Batch
from aioprod.producer.failure import Failure, rebuilt
from aioprod.record_metadata import RecordMetadata, record_metadata
from aioprod.records.cursor import RecordCursor
from aioprod.types import ProducerRecord

__all__ = ["Completion"]


class Completion:
    """One settled batch, and how far its waiters have been told.

    `entry` is the waiter whose turn it is, `told` how many records of it have been told if it is a run. `behind` is how
    many records were told without a look at them: the cursor has yet to step over them.
    """

    __slots__ = (
        "append_time",
        "base_offset",
        "batch",
        "behind",
        "cursor",
        "entry",
        "failure",
        "told",
        "topic",
        "unwatched",
    )

    def __init__(self, batch: Batch, base_offset: int, append_time: int, failure: Failure | None) -> None:
        self.batch = batch
        self.topic = batch.partition.topic.name
        self.base_offset = base_offset
        self.append_time = append_time
        self.failure = failure
        self.cursor = RecordCursor(batch.builder)
        self.entry = 0
        self.told = 0
        self.behind = 0
        self.unwatched = 0

    def next_index(self) -> int:
        """The index in the batch of the record whose turn it is."""
        return self.cursor.index + self.behind + 1

    def step(self) -> RecordCursor:
        """The cursor, on the record whose turn it is."""
        if self.behind:
            self.cursor.skip(self.behind)
            self.behind = 0
        self.cursor.next()
        return self.cursor

    def metadata(self) -> RecordMetadata:
        """The metadata of the record on which the cursor stands."""
        cursor = self.cursor
        return record_metadata(
            self.topic,
            self.batch.partition.index,
            self.base_offset + cursor.index if self.base_offset >= 0 else -1,
            cursor.timestamp if self.append_time < 0 else self.append_time,
            cursor.key_size,
            cursor.value_size,
        )

    def place(self) -> str:
        """The partition, for the log."""
        return f"a record of {self.topic}-{self.batch.partition.index}"

    def record(self) -> ProducerRecord:
        """The record on which the cursor stands, as its user would give it."""
        return rebuilt(self.topic, self.batch.partition.index, self.cursor.record())
