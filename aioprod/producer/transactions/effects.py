"""What transactions do to the rest of a producer: admit records, set the epoch, hold partitions, fail batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.net.client import Client
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.lifecycle import reevaluate, set_producer_id
from aioprod.producer.batching.partition import Partition
from aioprod.producer.batching.produce import FIRST_THAT_JOINS
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.completions import Completions
from aioprod.producer.guard import Guard
from aioprod.producer.outcomes import Outcomes
from aioprod.producer.sender import Sender
from aioprod.producer.transactions.requests import ProducerIdentity, transaction_version
from aioprod.producer.unknown_topics import UnknownTopics

__all__ = ["Effects", "Present"]

_logger = Logger("aioprod.producer")


@dataclass(slots=True)
class Present:
    """The state of one transaction.

    `implicit`: Produce and TxnOffsetCommit add to it by themselves. `is_known`: the coordinator knows of it, so that it
    has to be ended; `may_be_known`: it may know of it, as an answer was lost. `is_replaced`: InitProducerId aborts it,
    sent without a producer id as by a new producer.
    """

    implicit: bool
    is_known: bool = False
    may_be_known: bool = False
    is_replaced: bool = False


@dataclass(slots=True, kw_only=True)
class Effects:
    """The parts of a producer as its transactions see them; `flush` is called with seconds or None."""

    loop: asyncio.AbstractEventLoop
    now: Callable[[], float]
    client: Client
    accumulator: Accumulator
    sequences: Sequences
    outcomes: Outcomes
    completions: Completions
    topics: UnknownTopics
    sender: Sender
    guard: Guard
    flush: Callable[[float | None], Awaitable[None]]

    def admit(self, is_open: bool) -> None:
        """Accept records from now on, or not."""
        self.guard.admit(is_open)

    def transaction_version(self) -> int:
        """The cluster's transaction.version, 0 if it has none."""
        return transaction_version(self.client)

    def begin(self, implicit: bool) -> None:
        """Begin another transaction: each partition has to join it, if `implicit` by its first Produce request."""
        self.outcomes.allow_retries()
        self.sender.limit_version(ProduceRequest.VERSIONS[1] if implicit else FIRST_THAT_JOINS - 1)
        self.sequences.begin_transaction()
        self.guard.begin_transaction()

    def set_producer_id(self, identity: ProducerIdentity) -> None:
        """Stamp the batches that are sent from now on with this producer id and epoch."""
        set_producer_id(self.accumulator, identity.producer_id, identity.epoch, self.now())

    @property
    def has_gap(self) -> bool:
        """Whether a partition needs a new epoch, as stamped batches were not delivered."""
        return bool(self.sequences.unresolved)

    @property
    def has_sent(self) -> bool:
        """Whether a batch of the present transaction was sent."""
        return self.sequences.stamped_in == self.sequences.transaction

    def release(self, partition: Partition, *, is_member: bool) -> None:
        """Let a held partition send again, as a member of the transaction if the coordinator has added it."""
        if is_member:
            partition.transaction = self.sequences.transaction
        if partition not in self.sequences.unresolved:
            partition.held = False
            reevaluate(self.accumulator, partition, self.now())

    def fail_unsent(self, why: str, cause: AioprodError) -> None:
        """Fail the batches that are not in flight, soon, and those that would be retried until the next transaction."""
        self.outcomes.stop_retries(why, cause)
        self.loop.call_soon(self._fail_some)

    def fail_producer(self, cause: AioprodError) -> None:
        """Log that the producer can't continue, and fail what is not in flight."""
        _logger.error("The producer has failed and takes no more records: %s", cause)
        self.fail_unsent("the producer has failed.", cause)

    def _fail_some(self) -> None:
        """Fail as many as one time slice allows."""
        cause = self.outcomes.retries_stopped_by
        if cause is None:
            return
        are_parked = self.topics.fail_some(lambda _topic: cause)
        if self.outcomes.fail_unsent(self.now()) or are_parked:
            self.loop.call_soon(self._fail_some)
        self.completions.run()
