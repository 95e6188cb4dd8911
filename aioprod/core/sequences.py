"""Producer id, epoch and sequence numbers: what lets a broker store every batch once and in order (KIP-98, KIP-360).

A broker takes a batch of a producer only if its first sequence number is the next one of that producer, epoch and
partition. So of the batches that were stamped, those in the log are the first ones: when one is known not to be stored
none behind it is. That is what all decisions here rest on.

- A batch is stamped when it is taken for its first request. One that expires before has no numbers, and leaves no hole.
- A batch that comes back keeps its stamp, so that a broker that has it already says so. It goes alone, the first first.
- A stamped batch that ends without being stored for certain leaves a hole. Nothing new is stamped behind it until all
  that is on the wire has landed. Then either a later batch is sent again and taken, so that there was no hole; or it
  is refused as out of sequence, or there is none: the partition goes on in a new epoch, and what was not stored is
  stamped anew. That needs no broker, and concerns no other partition.
- Until the first batch of an epoch is acknowledged it is alone on the wire: a broker that knows nothing of a producer
  takes any number as its first.
"""

from __future__ import annotations

from collections.abc import Callable

from aioprod.core.batch import Batch
from aioprod.core.partition import Partition, Topic

__all__ = ["EPOCH_MAX", "Sequences", "sequence_after"]

EPOCH_MAX = 32767
SEQUENCE_MASK = 0x7FFFFFFF


def sequence_after(first: int, count: int) -> int:
    """The sequence number `count` records after `first`: after 2**31 - 1 comes 0."""
    return (first + count) & SEQUENCE_MASK


class Sequences:
    """Who this producer is, and the stamps of its batches.

    `producer_id` is what the brokers gave, `epoch` the one in which partitions begin. `doubtful` are the partitions
    with a hole; `spent` says that one is out of epochs and waits for a new producer id, for which `renew` was called.
    `bumps` counts the epochs begun after a hole, and `bumped` is called with the partition of each.

    A producer with transactions (`transactional`) has one epoch for all partitions, which the coordinator gives: a
    partition with a hole is held until `adopt` brings the next one. `transaction` numbers the transactions, and
    `stamped_in` is the last one with a batch that left; `join` is asked before a partition takes part in one, and
    answers whether it may do so at once.
    """

    __slots__ = (
        "_bumped",
        "_join",
        "_renew",
        "bumps",
        "doubtful",
        "epoch",
        "producer_id",
        "spent",
        "stamped_in",
        "transaction",
        "transactional",
    )

    def __init__(
        self,
        *,
        transactional: bool = False,
        join: Callable[[Partition], bool] | None = None,
        renew: Callable[[], object] | None = None,
        bumped: Callable[[Partition], object] | None = None,
    ) -> None:
        self.producer_id = -1
        self.epoch = -1
        self.transactional = transactional
        self.transaction = 0
        self.stamped_in = 0
        self._join = join
        self._renew = renew
        self.doubtful: dict[Partition, None] = {}
        self.spent = False
        self.bumps = 0
        self._bumped = bumped

    def admits(self, partition: Partition) -> bool:
        """Whether a partition may send in this transaction; if not, it is held until it has been added to it."""
        if self._join is not None and partition.transaction != self.transaction:
            if not self._join(partition):
                partition.held = True
                return False
            partition.transaction = self.transaction
        return True

    def stamp(self, partition: Partition, batch: Batch) -> None:
        """Give a batch that leaves for the first time its place in the order of its partition."""
        if partition.producer_id < 0 or (self.transactional and self._is_behind(partition)):
            self._begin(partition, self.producer_id, self.epoch)
        batch.producer_id = partition.producer_id
        batch.epoch = partition.epoch
        batch.base_sequence = partition.next_sequence
        batch.stamped = False
        partition.next_sequence = sequence_after(partition.next_sequence, batch.builder.count)
        partition.unsettled.append(batch)
        self.stamped_in = self.transaction

    def _is_behind(self, partition: Partition) -> bool:
        return partition.producer_id != self.producer_id or partition.epoch != self.epoch

    def _begin(self, partition: Partition, producer_id: int, epoch: int) -> None:
        """Start from 0: what was stamped and has no outcome is not stored, and gets a new stamp when it leaves."""
        partition.producer_id = producer_id
        partition.epoch = epoch
        partition.next_sequence = 0
        partition.is_anchored = False
        partition.is_unexplained = False
        partition.lost_serial = -1
        partition.missing_from = -1
        for batch in partition.unsettled:
            batch.base_sequence = -1
        partition.unsettled.clear()
        self.doubtful.pop(partition, None)

    def acknowledge(self, batch: Batch) -> None:
        """A broker has a stamped batch, and so all that was stamped before it.

        With transactions that mends nothing: the one with the hole is lost, and the next begins in another epoch.
        """
        partition = batch.partition
        partition.is_anchored = True
        if 0 <= partition.lost_serial < batch.serial and not self.transactional:
            partition.lost_serial = -1
            partition.is_unexplained = False
            if partition.missing_from < 0:
                self.doubtful.pop(partition, None)

    def lose(self, batch: Batch, is_missing: bool) -> None:
        """A stamped batch ends without an acknowledgement; `is_missing`: it is not stored and never will be."""
        partition = batch.partition
        if is_missing:
            self._miss(partition, batch.serial)
        partition.lost_serial = max(partition.lost_serial, batch.serial)
        self._doubt(partition)

    def refuse(self, batch: Batch) -> bool:
        """A broker found a batch out of sequence; whether that is because of a hole, and not of one that is on its way.

        The first batch without outcome has none before it that could fill the hole.
        """
        partition = batch.partition
        if not partition.unsettled or partition.unsettled[0] is not batch:
            return False
        self._miss(partition, batch.serial)
        self._doubt(partition)
        return True

    def is_forgotten(self, batch: Batch) -> bool:
        """Whether a batch that is out of sequence may be stored all the same, and would be stored twice.

        All before it was acknowledged and it was sent before: then the broker may have it and not know it again. A
        broker that starts remembers of a producer no more than the last batch. A hole behind it explains nothing.
        """
        partition = batch.partition
        if not batch.maybe_stored or partition.unsettled[0] is not batch:
            return False
        if 0 <= partition.missing_from <= batch.serial:
            return False
        if not 0 <= partition.lost_serial < batch.serial:
            partition.is_unexplained = True
        return partition.is_unexplained

    def unanchor(self, partition: Partition) -> None:
        """The log of a partition is another one than before: as at the beginning, it takes any number as its first."""
        partition.is_anchored = False

    def divide(self, batch: Batch, parts: list[Batch]) -> None:
        """The records of a stamped batch that was not stored go on in `parts`, which share its numbers."""
        unsettled = batch.partition.unsettled
        at = unsettled.index(batch)
        del unsettled[at]
        sequence = batch.base_sequence
        for part in reversed(parts):
            unsettled.insert(at, part)
        for part in parts:
            part.producer_id = batch.producer_id
            part.epoch = batch.epoch
            part.base_sequence = sequence
            sequence = sequence_after(sequence, part.builder.count)
        batch.base_sequence = -1

    def forget(self, topic: Topic) -> bool:
        """Nothing of a topic is held any more. Whether it can be forgotten: its partitions will start from 0 again.

        A broker would take numbers that it has had in this epoch for duplicates, so they will start in a later one.
        """
        for partition in topic.partitions:
            if partition.producer_id == self.producer_id and partition.epoch >= self.epoch:
                if self.transactional:
                    return False
                if partition.epoch == EPOCH_MAX:
                    self._ask()
                    return False
                self.epoch = partition.epoch + 1
        for partition in topic.partitions:
            self.doubtful.pop(partition, None)
        return True

    def _miss(self, partition: Partition, serial: int) -> None:
        if partition.missing_from < 0 or serial < partition.missing_from:
            partition.missing_from = serial

    def _doubt(self, partition: Partition) -> None:
        self.doubtful[partition] = None
        if self.transactional:
            partition.held = True

    def resolve(self, partition: Partition) -> None:
        """Begin a new epoch if there is a hole, once nothing is on the wire and nothing could still turn up."""
        if partition.in_flight or self.transactional or (partition.lost_serial < 0 and partition.missing_from < 0):
            return
        if partition.unsettled:
            first = partition.unsettled[0]
            if partition.missing_from < 0 or first.serial < partition.missing_from:
                return
        if partition.epoch < EPOCH_MAX:
            self._begin(partition, partition.producer_id, partition.epoch + 1)
        elif partition.producer_id != self.producer_id:
            self._begin(partition, self.producer_id, self.epoch)
        else:
            partition.held = True
            self._ask()
            return
        self.bumps += 1
        if self._bumped is not None:
            self._bumped(partition)

    def _ask(self) -> None:
        if not self.spent:
            self.spent = True
            if self._renew is not None:
                self._renew()

    def adopt(self, producer_id: int, epoch: int) -> list[Partition]:
        """Go on as another producer, or in another epoch of it; the partitions that have waited for that.

        With transactions nothing of the old one may be without outcome.
        """
        self.producer_id = producer_id
        self.epoch = epoch
        self.spent = False
        waiting = [partition for partition in self.doubtful if partition.held]
        for partition in waiting:
            partition.held = False
            if self.transactional:
                self._begin(partition, producer_id, epoch)
        return waiting
