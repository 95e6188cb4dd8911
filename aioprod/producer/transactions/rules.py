"""What a transaction changes for the other parts of a producer."""

from __future__ import annotations

from aioprod._error_codes import ErrorCode
from aioprod.errors import AioprodError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition
from aioprod.producer.transactions.states import TransactionEvent

__all__ = ["TransactionRules"]


class TransactionRules:
    """The rules of a producer without transactions: they change nothing.

    `TransactionManager` overrides them for a producer with a `transactional.id`.
    """

    def call_error(self, call: TransactionEvent) -> AioprodError | None:
        """The error that a call raises in the present state of the transaction, None if it is allowed."""
        return None

    def join(self, partition: Partition) -> bool:
        """Whether a partition may send now; if not, it is suspended until the coordinator has added it."""
        return True

    def explain(self, partition: Partition) -> str | None:
        """How the transaction keeps a partition from sending, in a sentence; None if it does not."""
        return None

    def join_pause_s(self, failures: int) -> float:
        """Seconds until a batch is retried that could not be added to the transaction, `failures` times before."""
        return 0.0

    def error_of(self, code: ErrorCode | int, message: str) -> AioprodError | None:
        """The error for a Produce error code that concerns the transactional id; None for other codes."""
        return None

    def batch_failed(self, batch: Batch, message: str) -> None:
        """A batch was not delivered, for the reason in `message`."""

    def fail(self, error: AioprodError) -> None:
        """Accepted records failed with `error` before they got a partition, and their transaction fails with them."""
