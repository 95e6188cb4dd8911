"""A done batch while its records are completed."""

from __future__ import annotations

from typing import Any

from aioprod.producer.batching.batch import Batch, Run
from aioprod.producer.failure import Failure, rebuilt
from aioprod.record_metadata import RecordMetadata
from aioprod.records.cursor import RecordCursor
from aioprod.types import ProducerRecord

__all__ = ["Completion"]


class Completion:
    """One done batch, and how far its records are completed."""

    __slots__ = (
        "append_time",
        "base_offset",
        "batch",
        "behind",
        "completed",
        "cursor",
        "entry",
        "failure",
        "topic",
        "unwatched",
        "waiter",
    )

    def __init__(self, batch: Batch, base_offset: int, append_time: int, failure: Failure | None) -> None:
        self.batch = batch
        # The attribute, as its type is known where this is compiled, and that of an argument is not.
        self.topic = self.batch.partition.topic.name
        self.base_offset = base_offset
        self.append_time = append_time
        self.failure = failure
        self.cursor = RecordCursor(self.batch.builder)
        self.entry = 0
        """The index of the next waiter."""
        self.completed = 0
        """If that is a run: how many of its records are completed."""
        self.behind = 0
        """Records that were completed without decoding them: the cursor has yet to skip them."""
        self.unwatched = 0
        """Failed records that no caller waited for."""
        self.waiter: Any = None
        """The entry that is being completed, unless it has its outcome."""

    def next_index(self) -> int:
        """The index in the batch of the next record."""
        return self.cursor.index + self.behind + 1

    def step(self) -> RecordCursor:
        """Move the cursor to the next record, and return it."""
        if self.behind:
            self.cursor.skip(self.behind)
            self.behind = 0
        self.cursor.next()
        return self.cursor

    def leave_out(self, waiter: Any) -> None:
        """Continue behind an entry whose completion was interrupted, wherever that was."""
        waiters = self.batch.waiters
        if type(waiter) is Run and waiters[self.entry] is waiter:
            self.entry += 1
        self.completed = 0
        records = sum(entry.count if type(entry) is Run else 1 for entry in waiters[: self.entry])
        self.behind = records - 1 - self.cursor.index

    def metadata(self) -> RecordMetadata:
        """The metadata of the record at the cursor."""
        cursor = self.cursor
        # Where it is compiled, this is without the cost of a Python call.
        metadata = RecordMetadata.__new__(RecordMetadata)
        metadata.topic = self.topic
        metadata.partition = self.batch.partition.index
        metadata.offset = self.base_offset + cursor.index if self.base_offset >= 0 else -1
        metadata.timestamp = cursor.timestamp if self.append_time < 0 else self.append_time
        metadata.serialized_key_size = cursor.key_size
        metadata.serialized_value_size = cursor.value_size
        return metadata

    def place(self) -> str:
        """The partition, for the log."""
        return f"a record of {self.topic}-{self.batch.partition.index}"

    def record(self) -> ProducerRecord:
        """The record at the cursor, as its caller would give it."""
        return rebuilt(self.topic, self.batch.partition.index, self.cursor.record())
