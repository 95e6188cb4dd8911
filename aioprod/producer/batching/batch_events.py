"""What the accumulator, its queues and its sequence numbers report, each event declared once."""

from __future__ import annotations

from typing import Any

from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.partition import BrokerQueue, Partition

__all__ = ["BatchEvents"]


class BatchEvents:
    """Callbacks of an `Accumulator` and its `Sequences`; a subclass overrides those it needs."""

    def drain_soon(self, queue: BrokerQueue) -> None:
        """Batches of this queue may be sent: drain it in the next iteration of the loop."""

    def withdraw(self, waiter: Any, owner: Batch | ParkedRecord) -> None:
        """The future of a record was cancelled; `owner` holds the record."""

    def leader_changed(self, partition: Partition, old: BrokerQueue | None) -> None:
        """Another broker leads the partition; `old` is the queue that it had before."""

    def epoch_bumped(self, partition: Partition) -> None:
        """The partition began a new epoch, as a gap in its sequence numbers could not be closed."""

    def retry_unsafe(self, batch: Batch) -> None:
        """The producer id that the batch was sent with is used up: brokers would not recognize it with another one."""

    def producer_id_needed(self) -> None:
        """A partition has used all epochs of the producer id: request another id."""

    def partitioner_raised(self, error: BaseException) -> None:
        """The user's partitioner raised an error of any kind; the record fails."""
