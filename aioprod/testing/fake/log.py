"""The log of one partition, as its leader keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from aioprod.records.parser import ParsedBatch, ParsedRecord, parse_batches
from aioprod.testing.fake.producers import NO_PRODUCER_ID, ProducerStates

__all__ = ["FakePartition", "StoredBatch"]


class StoredBatch(NamedTuple):
    """A batch with its final offset: parsed, and its bytes."""

    batch: ParsedBatch
    data: bytes


@dataclass
class FakePartition:
    """One partition: its leader (None for none), its log, and what is known of those who write to it."""

    leader: int | None
    leader_epoch: int = 0
    next_offset: int = 0
    log: list[StoredBatch] = field(default_factory=list)
    producers: ProducerStates = field(default_factory=ProducerStates)

    def append(self, batch: ParsedBatch, data: bytes) -> int:
        """Store a batch at the end and take note of its producer; returns its base offset."""
        base_offset = self.next_offset
        # The checksum does not cover the offset.
        self.store(base_offset.to_bytes(8, "big") + data[8:])
        if batch.producer_id != NO_PRODUCER_ID:
            self.producers.of(batch.producer_id).append(batch, base_offset)
        return base_offset

    def store(self, data: bytes) -> None:
        """Store one batch as it is, with the offset that it has; what it leaves out is a gap."""
        (batch,) = parse_batches(data)
        self.log.append(StoredBatch(batch, data))
        self.next_offset = batch.next_offset

    def batches(self) -> Iterator[ParsedBatch]:
        """What was stored, in order."""
        return (stored.batch for stored in self.log)

    def records(self) -> list[ParsedRecord]:
        """All records of the log."""
        return [record for batch in self.batches() for record in batch.records()]

    def offset_at(self, timestamp: int) -> tuple[int, int]:
        """Timestamp and offset of the first record from then on (-1: of the end, -2: of the start); -1 for none."""
        if timestamp == -1:
            return -1, self.next_offset
        if timestamp == -2:
            return -1, 0
        for record in self.records():
            if record.timestamp >= timestamp:
                return record.timestamp, record.offset
        return -1, -1
