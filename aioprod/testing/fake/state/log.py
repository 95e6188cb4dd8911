"""`FakePartition`: the log of one partition and the states of its producers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from aioprod.records.parser import ControlType, ParsedBatch, ParsedRecord, parse_batches
from aioprod.testing.fake.state.markers import marker
from aioprod.testing.fake.state.producers import NO_PRODUCER_ID, ProducerStates

__all__ = ["FakePartition", "Follower", "Isolation", "StoredBatch"]

LATEST: Final = -1
EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3

Isolation = Literal["read_committed", "read_uncommitted"]


class StoredBatch(NamedTuple):
    """A batch with its final offset: parsed, and its bytes."""

    batch: ParsedBatch
    data: bytes


class Aborted(NamedTuple):
    """An aborted transaction: its first record's offset, and its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int


class Follower(NamedTuple):
    """What a follower that was held back has of the log: it shows clients what is before its high watermark."""

    high_watermark: int
    log_end: int


@dataclass
class FakePartition:
    """One partition: its leader (None for none), its log, and the states of its producers.

    Each other broker is a follower that has the whole log, except for those in `held`, by node id.
    """

    leader: int | None
    leader_epoch: int = 0
    first_offset: int = 0
    next_offset: int = 0
    log: list[StoredBatch] = field(default_factory=list)
    producers: ProducerStates = field(default_factory=ProducerStates)
    aborted: list[Aborted] = field(default_factory=list)
    held: dict[int, Follower] = field(default_factory=dict)

    def replica(self, node_id: int) -> Follower:
        """What a broker has of the log; the leader has all of it."""
        whole = Follower(self.next_offset, self.next_offset)
        return whole if node_id == self.leader else self.held.get(node_id, whole)

    @property
    def last_stable_offset(self) -> int:
        """The offset of the first open transaction, or the end of the log."""
        start = self.producers.first_open_offset
        return self.next_offset if start is None else start

    def end_offset(self, isolation: Isolation) -> int:
        """The offset up to which a consumer sees records."""
        return self.last_stable_offset if isolation == "read_committed" else self.next_offset

    def append(self, batch: ParsedBatch, data: bytes) -> int:
        """Append a batch and update its producer's state; returns the base offset."""
        base_offset = self._store_at_end(batch, data)
        if batch.producer_id != NO_PRODUCER_ID:
            self.producers.of(batch.producer_id).append(batch, base_offset)
        return base_offset

    def end_transaction(self, kind: ControlType, producer_id: int, epoch: int, timestamp: int) -> None:
        """Append the marker that ends a producer's transaction; `epoch` is the producer's epoch from now on."""
        data = marker(kind, producer_id, epoch, timestamp)
        (batch,) = parse_batches(data)
        offset = self._store_at_end(batch, data)
        start = self.producers.of(producer_id).end_transaction(epoch)
        if kind == ControlType.ABORT and start is not None:
            self.aborted.append(Aborted(producer_id, start, offset))

    def _store_at_end(self, batch: ParsedBatch, data: bytes) -> int:
        base_offset = self.next_offset
        # The checksum does not cover the offset.
        placed = batch.placed(base_offset)
        self.log.append(StoredBatch(placed, base_offset.to_bytes(8, "big") + data[8:]))
        self.next_offset = placed.next_offset
        return base_offset

    def store(self, data: bytes) -> None:
        """Store one batch at its own base offset, which may leave a gap as compaction does."""
        (batch,) = parse_batches(data)
        self.log.append(StoredBatch(batch, data))
        self.next_offset = batch.next_offset

    def delete_before(self, offset: int) -> None:
        """Move the log start offset, as DeleteRecords does: a batch that spans it is kept whole."""
        self.first_offset = max(self.first_offset, offset)
        self.log = [stored for stored in self.log if stored.batch.next_offset > self.first_offset]

    def batches(self, isolation: Isolation = "read_committed") -> Iterator[ParsedBatch]:
        """The data batches that a consumer sees, in order."""
        end = self.end_offset(isolation)
        for batch, _ in self.log:
            if batch.base_offset >= end or batch.is_control:
                continue
            if isolation == "read_uncommitted" or not self._was_aborted(batch):
                yield batch

    def _was_aborted(self, batch: ParsedBatch) -> bool:
        return batch.is_transactional and any(
            one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset < one.last_offset
            for one in self.aborted
        )

    def records(self, isolation: Isolation = "read_committed") -> list[ParsedRecord]:
        """The records that a consumer sees."""
        batches = self.batches(isolation)
        return [record for batch in batches for record in batch.records() if record.offset >= self.first_offset]

    def offset_at(self, timestamp: int, isolation: Isolation) -> tuple[int, int]:
        """The timestamp and offset of the first record with at least this timestamp; -1 and -1 for none.

        The timestamps -1, -2 and -3 stand for the end, the start, and the record with the highest timestamp.
        """
        if timestamp == LATEST:
            return -1, self.end_offset(isolation)
        if timestamp == EARLIEST:
            return -1, self.first_offset
        records = self.records(isolation)
        if timestamp == _MAX_TIMESTAMP:
            timestamp = max((record.timestamp for record in records), default=-1)
        found = (record for record in records if record.timestamp >= timestamp)
        return next(((record.timestamp, record.offset) for record in found), (-1, -1))
