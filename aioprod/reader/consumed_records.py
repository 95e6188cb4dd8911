# cython: boundscheck=False, wraparound=False
"""The records of one batch, for a user: some are decoded together, and given one by one or in lists."""

from __future__ import annotations

from aioprod.consumed_record import ConsumedRecord
from aioprod.errors import ProtocolError
from aioprod.reader.naming import Naming, named
from aioprod.records.parser import ParsedBatch, RecordReader
from aioprod.types import TopicPartition

__all__ = ["ConsumedRecords"]


class ConsumedRecords:
    """The records of a batch from offset `start` up to, but not including, `end`, one after the other.

    The records before a corrupt one come first. Raises CorruptRecordError, which names the partition.
    """

    __slots__ = ("_decoded", "_end", "_failure", "_is_left", "_partition", "_reader", "_start", "_taken", "_topic")

    def __init__(self, tp: TopicPartition, batch: ParsedBatch, start: int, end: int) -> None:
        with Naming(tp):
            self._reader = RecordReader(batch)
        self._topic, self._partition = tp
        self._start = start
        self._end = end
        self._decoded: list[ConsumedRecord] = []
        self._taken = 0
        self._is_left = True
        self._failure: ProtocolError | None = None

    def next(self) -> ConsumedRecord | None:
        """The next record, None at the end."""
        record = self.step()
        if record is None and self._failure is not None:
            raise self._failure
        return record

    def step(self) -> ConsumedRecord | None:
        """The next record, None at the end and where `next` raises."""
        if self._taken == len(self._decoded) and not self._decode():
            return None
        record = self._decoded[self._taken]
        self._taken += 1
        return record

    def some(self, most: int) -> list[ConsumedRecord]:
        """The next records, up to `most` of those that are decoded together; none at the end."""
        if self._taken == len(self._decoded) and not self._decode():
            if self._failure is not None:
                raise self._failure
            return []
        found = self._decoded[self._taken : self._taken + most]
        self._taken += len(found)
        return found

    def _decode(self) -> bool:
        """Decode some more records; whether there are any."""
        found: list[ConsumedRecord] = []
        while self._is_left and not found:
            self._is_left = False  # Nothing can be read after an error.
            try:
                self._is_left = self._reader.consume(found, self._topic, self._partition, self._start, self._end)
            except ProtocolError as error:
                self._failure = named(error, TopicPartition(self._topic, self._partition))
        self._decoded = found
        self._taken = 0
        return len(found) > 0
