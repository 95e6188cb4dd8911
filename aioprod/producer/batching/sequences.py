"""Producer id, epoch and sequence numbers: what lets a broker store every batch once and in order (KIP-98, KIP-360).

A broker appends a batch only if its first sequence number is the next one of that producer, epoch and partition. So of
the batches that have numbers, those in the log are the first ones: if one is known not to be stored, none behind it
is. All decisions here rest on that.

- A batch is stamped (gets its numbers) when it is drained for its first request. One that expires before has none, and
  leaves no gap.
- A retried batch keeps its numbers, so that a broker that has it already says so. It is sent alone, the first one
  first.
- A stamped batch that ends without an acknowledgement leaves a possible gap. No batch is stamped behind it until all
  batches in flight are answered. Then either a later batch is retried and appended, so that there was no gap; or it is
  rejected as out of sequence, or there is none: the partition starts a new epoch, and batches that were not stored are
  stamped again. That needs no request, and concerns no other partition.
- Until the first batch of an epoch is acknowledged it is alone in flight: a broker without state for a producer accepts
  any number as its first.
"""

from __future__ import annotations

from typing import Final

from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.transactions.rules import TransactionRules

__all__ = ["EPOCH_MAX", "Sequences", "sequence_after"]

EPOCH_MAX: Final = 32767
_SEQUENCE_MASK: Final = 0x7FFFFFFF


def sequence_after(first: int, count: int) -> int:
    """The sequence number `count` records after `first`: after 2**31 - 1 comes 0."""
    return (first + count) & _SEQUENCE_MASK


class Sequences:
    """The producer's id and epoch, and the sequence numbers of its batches."""

    __slots__ = (
        "_events",
        "_rules",
        "bumps",
        "epoch",
        "is_exhausted",
        "producer_id",
        "stamped_in",
        "transaction",
        "transactional",
        "unresolved",
    )

    def __init__(self, events: BatchEvents, rules: TransactionRules, *, transactional: bool = False) -> None:
        self._events = events
        self._rules = rules
        self.producer_id = -1
        """What the brokers gave."""
        self.epoch = -1
        """The epoch in which partitions begin."""
        self.transactional = transactional
        """Whether the coordinator assigns one epoch for all partitions.

        A partition with a gap is suspended then until `set_producer_id` sets the next epoch.
        """
        self.transaction = 0
        """The number of the present transaction."""
        self.stamped_in = 0
        """The last transaction with a batch that was sent."""
        self.unresolved: dict[Partition, None] = {}
        """The partitions with a gap."""
        self.is_exhausted = False
        """Whether a partition has used all epochs and waits for another producer id."""
        self.bumps = 0
        """How many epochs were begun after a gap."""

    def begin_transaction(self) -> None:
        """Number the next transaction: each partition has to join it."""
        self.transaction += 1

    def admits(self, partition: Partition) -> bool:
        """Whether a partition may send in this transaction; if not, it is suspended until it has been added."""
        if partition.transaction != self.transaction:
            if not self._rules.join(partition):
                partition.suspended = True
                return False
            partition.transaction = self.transaction
        return True

    def release(self, partition: Partition, *, is_member: bool) -> bool:
        """A partition need not wait for its transaction any more; False if it stays suspended, because of a gap.

        `is_member`: the coordinator has added it.
        """
        if is_member:
            partition.transaction = self.transaction
        if partition in self.unresolved:
            return False
        partition.suspended = False
        return True

    def stamp(self, partition: Partition, batch: Batch) -> None:
        """Give a batch its sequence numbers, before its first request."""
        if partition.producer_id < 0 or (self.transactional and self._is_behind(partition)):
            self._begin(partition, self.producer_id, self.epoch)
        batch.producer_id = partition.producer_id
        batch.epoch = partition.epoch
        batch.base_sequence = partition.next_sequence
        batch.stamped = False
        partition.next_sequence = sequence_after(partition.next_sequence, batch.builder.count)
        partition.unacknowledged.append(batch)
        self.stamped_in = self.transaction

    def _is_behind(self, partition: Partition) -> bool:
        return partition.producer_id != self.producer_id or partition.epoch != self.epoch

    def _begin(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Start an epoch at 0: unacknowledged batches are not stored, and get new numbers when they are sent."""
        partition.producer_id = producer_id
        partition.epoch = epoch
        partition.next_sequence = 0
        partition.is_established = False
        partition.has_unexplained_gap = False
        partition.unknown_serial = -1
        partition.gap_from = -1
        for batch in partition.unacknowledged:
            if batch.maybe_stored:
                batch.former = [*(batch.former or ()), (batch.producer_id, batch.epoch, batch.base_sequence)]
            batch.base_sequence = -1
        partition.unacknowledged.clear()
        self.unresolved.pop(partition, None)

    def acknowledge(self, batch: Batch, base_offset: int) -> None:
        """A broker has stored a batch, and so all that were stamped before it: a gap before it was none.

        `base_offset` is -1 where the broker has said only that it has the batch.

        A transaction stays lost all the same: it has to be aborted, and the next one begins in another epoch.
        """
        partition = batch.partition
        partition.is_established = True
        if base_offset >= 0:
            partition.acknowledged_serial = batch.serial
            partition.acknowledged_offset = base_offset
            partition.acknowledged_producer_id = batch.producer_id
            partition.acknowledged_epoch = batch.epoch
            partition.acknowledged_sequence = batch.base_sequence
        if 0 <= partition.unknown_serial < batch.serial and not self.transactional:
            partition.unknown_serial = -1
            partition.has_unexplained_gap = False
            if partition.gap_from < 0:
                self.unresolved.pop(partition, None)

    def lose(self, batch: Batch, is_missing: bool) -> None:
        """A stamped batch ends unacknowledged; `is_missing`: it is not stored and never will be."""
        partition = batch.partition
        if is_missing:
            self._miss(partition, batch.serial)
        partition.unknown_serial = max(partition.unknown_serial, batch.serial)
        self._mark(partition)

    def out_of_sequence(self, batch: Batch) -> bool:
        """A broker rejected a batch as out of sequence; whether there is a gap before it.

        If it is the first unacknowledged batch, none in flight can fill the gap.
        """
        partition = batch.partition
        if not partition.unacknowledged or partition.unacknowledged[0] is not batch:
            return False
        self._miss(partition, batch.serial)
        self._mark(partition)
        return True

    def is_forgotten(self, batch: Batch) -> bool:
        """Whether a batch that is out of sequence may be stored all the same, and would be stored twice.

        If it was sent before and all before it are acknowledged, the broker may have it and not recognize it: a broker
        that restarts restores only the last batch of a producer. A gap behind it explains nothing.
        """
        partition = batch.partition
        if not batch.maybe_stored or partition.unacknowledged[0] is not batch:
            return False
        if 0 <= partition.gap_from <= batch.serial:
            return False
        if not 0 <= partition.unknown_serial < batch.serial:
            partition.has_unexplained_gap = True
        return partition.has_unexplained_gap

    def unestablish(self, partition: Partition) -> None:
        """The log of a partition was replaced: as at the beginning, it accepts any number as its first."""
        partition.is_established = False
        partition.acknowledged_serial = -1

    def split(self, batch: Batch, parts: list[Batch]) -> None:
        """Replace a stamped batch that was not stored by `parts`, which share its numbers."""
        unacknowledged = batch.partition.unacknowledged
        at = unacknowledged.index(batch)
        del unacknowledged[at]
        sequence = batch.base_sequence
        for part in reversed(parts):
            unacknowledged.insert(at, part)
        for part in parts:
            part.producer_id = batch.producer_id
            part.epoch = batch.epoch
            part.base_sequence = sequence
            sequence = sequence_after(sequence, part.builder.count)
        batch.base_sequence = -1

    def forget(self, topic: Topic) -> bool:
        """Whether a topic without records can be forgotten; its partitions will start at 0 again, in a later epoch.

        In the same epoch a broker would take these numbers for duplicates. Not while a batch has an unknown outcome: a
        later record may decide about it.
        """
        for partition in topic.partitions:
            if partition.unknown is not None:
                return False
        for partition in topic.partitions:
            if partition.producer_id == self.producer_id and partition.epoch >= self.epoch:
                if self.transactional:
                    return False
                if partition.epoch == EPOCH_MAX:
                    self._request_id()
                    return False
                self.epoch = partition.epoch + 1
        for partition in topic.partitions:
            self.unresolved.pop(partition, None)
        return True

    def _miss(self, partition: Partition, serial: int) -> None:
        if partition.gap_from < 0 or serial < partition.gap_from:
            partition.gap_from = serial

    def _mark(self, partition: Partition) -> None:
        self.unresolved[partition] = None
        if self.transactional:
            partition.suspended = True

    def resolve(self, partition: Partition) -> None:
        """Start a new epoch if there is a gap, once nothing is in flight and no late answer can close it."""
        if partition.in_flight or self.transactional or (partition.unknown_serial < 0 and partition.gap_from < 0):
            return
        if partition.unacknowledged:
            first = partition.unacknowledged[0]
            if partition.gap_from < 0 or first.serial < partition.gap_from:
                return
        if partition.epoch == EPOCH_MAX:
            partition.suspended = True
            self._request_id()
            return
        self._bump(partition, partition.producer_id, partition.epoch + 1)

    def _bump(self, partition: Partition, producer_id: int, epoch: int) -> None:
        self._begin(partition, producer_id, epoch)
        self.bumps += 1
        self._events.epoch_bumped(partition)

    def _request_id(self) -> None:
        if not self.is_exhausted:
            self.is_exhausted = True
            self._events.producer_id_needed()

    def set_producer_id(self, producer_id: int, epoch: int) -> list[Partition]:
        """Set another producer id, or another epoch of it; returns the partitions that waited for it.

        In a transactional producer every batch of the old epoch must have its outcome. In others, a batch that was
        sent with the old id and never answered may still arrive: a new epoch would make brokers reject it, a new id
        does not, so that it is not retried.
        """
        self.producer_id = producer_id
        self.epoch = epoch
        self.is_exhausted = False
        waiting = [partition for partition in self.unresolved if partition.suspended]
        for partition in waiting:
            partition.suspended = False
            if self.transactional:
                self._begin(partition, producer_id, epoch)
                continue
            unsafe = [batch for batch in partition.unacknowledged if batch.maybe_stored]
            self._bump(partition, producer_id, epoch)
            for batch in unsafe:
                self._events.retry_unsafe(batch)
        return waiting
