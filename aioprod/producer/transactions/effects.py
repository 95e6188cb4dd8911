"""What transactions do to the rest of a producer: let records in, stamp them, hold partitions, give batches up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aioprod.core.accumulator import Accumulator
from aioprod.core.lifecycle import reevaluate, set_producer_id
from aioprod.core.partition import Partition
from aioprod.core.produce_request import FIRST_THAT_JOINS
from aioprod.core.sequences import Sequences
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.net.client import Client
from aioprod.producer.completions import Completions
from aioprod.producer.guard import Guard
from aioprod.producer.outcomes import Outcomes
from aioprod.producer.sender import Sender
from aioprod.producer.transactions.requests import ProducerIdentity, transaction_version
from aioprod.producer.unknown_topics import UnknownTopics

__all__ = ["Effects", "Present"]


@dataclass(slots=True)
class Present:
    """What is to be remembered of a transaction.

    `implicit`: Produce and TxnOffsetCommit add to it by themselves. `is_known`: the coordinator was told of it, so
    that it has to be ended; `may_be_known`: it may have been, as an answer was lost. `is_replaced`: what aborts it is
    that another epoch is asked for, as a new producer would.
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
    delivery: Completions
    topics: UnknownTopics
    sender: Sender
    guard: Guard
    flush: Callable[[float | None], Awaitable[None]]

    def admit(self, is_open: bool) -> None:
        """Whether records are accepted from now on."""
        self.guard.admit(is_open)

    def transaction_version(self) -> int:
        """The level of transactions that the cluster offers, 0 where it tells none."""
        return transaction_version(self.client)

    def begin(self, implicit: bool) -> None:
        """Another transaction begins: each partition has to join it, `implicit` by its first Produce request."""
        self.outcomes.allow_retries()
        self.sender.limit_version(ProduceRequest.VERSIONS[1] if implicit else FIRST_THAT_JOINS - 1)
        self.sequences.begin_transaction()
        self.guard.begin_transaction()

    def set_producer_id(self, identity: ProducerIdentity) -> None:
        """Batches that are stamped from now on carry this."""
        set_producer_id(self.accumulator, identity.producer_id, identity.epoch, self.now())

    @property
    def has_gap(self) -> bool:
        """Whether partitions are usable with a new epoch only, as stamped batches of theirs were not delivered."""
        return bool(self.sequences.unresolved)

    @property
    def has_sent(self) -> bool:
        """Whether a batch of the present transaction has left."""
        return self.sequences.stamped_in == self.sequences.transaction

    def release(self, partition: Partition, *, is_member: bool) -> None:
        """A held partition goes on, as a member of the transaction if the coordinator knows of it."""
        if is_member:
            partition.transaction = self.sequences.transaction
        if partition not in self.sequences.unresolved:
            partition.held = False
            reevaluate(self.accumulator, partition, self.now())

    def give_up_unsent(self, why: str, cause: AioprodError) -> None:
        """Fail soon what is not on the wire, and until the next transaction what would be sent again."""
        self.outcomes.stop_retries(why, cause)
        self.loop.call_soon(self._give_up_some)

    def _give_up_some(self) -> None:
        """A turn's worth of it."""
        cause = self.outcomes.given_up
        if cause is None:
            return
        are_parked = self.topics.refuse_some(lambda _topic: cause)
        if self.outcomes.fail_unsent(self.now()) or are_parked:
            self.loop.call_soon(self._give_up_some)
        self.delivery.run()
