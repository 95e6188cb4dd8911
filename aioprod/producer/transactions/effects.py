"""What transactions do to the rest of a producer: admit records, set the epoch, release partitions, fail batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.producer.batching.lifecycle import reevaluate, set_producer_id
from aioprod.producer.batching.partition import Partition
from aioprod.producer.batching.produce import FIRST_THAT_JOINS
from aioprod.producer.guard import Guard
from aioprod.producer.mass_failure import MassFailure
from aioprod.producer.pipeline import Pipeline
from aioprod.producer.transactions.requests import ProducerIdentity, transaction_version

__all__ = ["Effects"]

_logger = Logger("aioprod.producer")


class Effects:
    """All that the transactions of a producer change elsewhere."""

    def __init__(self, parts: Pipeline, guard: Guard, flush: Callable[[float | None], Awaitable[None]]) -> None:
        sequences = parts.accumulator.sequences
        assert sequences is not None
        self.now: Callable[[], float] = parts.clock
        """Monotonic time in seconds."""
        self.flush = flush
        """Wait for everything accepted before, for so many seconds; None for as long as it takes."""
        self._parts = parts
        self._guard = guard
        self._sequences = sequences

    def admit(self, is_open: bool) -> None:
        """Accept records from now on, or not."""
        self._guard.admit(is_open)

    def transaction_version(self) -> int:
        """The cluster's transaction.version, 0 if it has none."""
        return transaction_version(self._parts.client)

    def begin(self, implicit: bool) -> None:
        """Begin another transaction: each partition has to join it, if `implicit` by its first Produce request."""
        self._parts.outcomes.allow_retries()
        self._parts.sender.limit_version(ProduceRequest.VERSIONS[1] if implicit else FIRST_THAT_JOINS - 1)
        self._sequences.begin_transaction()
        self._guard.begin_transaction()

    def aborted(self, identity: ProducerIdentity, *, implicit: bool) -> None:
        """The transaction was aborted, and the producer has this identity now.

        If partitions join it by their first Produce request (`implicit`), no request that is still on its way can be
        stored for good: markers have the next epoch, and a leader without one looks it up at the coordinator first.
        """
        if implicit:
            self._parts.resolver.unknown.transaction_aborted(identity.producer_id, identity.epoch)

    def set_producer_id(self, identity: ProducerIdentity) -> None:
        """Stamp the batches that are sent from now on with this producer id and epoch."""
        set_producer_id(self._parts.accumulator, identity.producer_id, identity.epoch, self.now())

    @property
    def has_gap(self) -> bool:
        """Whether a partition needs a new epoch, as stamped batches were not delivered."""
        return bool(self._sequences.unresolved)

    @property
    def has_sent(self) -> bool:
        """Whether a batch of the present transaction was sent."""
        return self._sequences.stamped_in == self._sequences.transaction

    def release(self, partition: Partition, *, is_member: bool) -> None:
        """Let a suspended partition send again, as a member of the transaction if the coordinator has added it."""
        if self._sequences.release(partition, is_member=is_member):
            reevaluate(self._parts.accumulator, partition, self.now())

    def fail_unsent(self, why: str, cause: AioprodError) -> None:
        """Fail the batches that are not in flight, in the next turns of the loop.

        One in flight fails when its answer says that it would have to be retried, until the next transaction begins.
        """
        reason = MassFailure(why, cause, cause=cause, spares_in_flight=True)
        self._parts.outcomes.stop_retries(reason)
        self._parts.loop.call_soon(self._fail_in_slices, reason)

    def _fail_in_slices(self, reason: MassFailure) -> None:
        """Fail as many as one turn of the loop allows, unless another transaction or another failure has begun."""
        if self._parts.outcomes.retries_stopped_by is reason and self._parts.fail_some(reason):
            self._parts.loop.call_soon(self._fail_in_slices, reason)

    def fail_producer(self, cause: AioprodError) -> None:
        """Log that the producer can't continue, and fail what is not in flight."""
        _logger.error("The producer has failed and takes no more records: %s", cause)
        self.fail_unsent("the producer has failed.", cause)
