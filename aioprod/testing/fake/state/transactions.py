"""The transaction coordinator (Kafka's `TransactionCoordinator`): which transactional ids there are and how they stand.

The brokers of a fake cluster share one; which of them may speak for it is not its business. Versions: 1 is the protocol
of KIP-98, where a client adds partitions by request; 2 that of KIP-890, where a write adds its partition by itself and
each end of a transaction raises the epoch. The version of each request decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.records.parser import ControlType
from aioprod.testing.fake.state.producers import NO_EPOCH, NO_PRODUCER_ID
from aioprod.testing.fake.state.timers import Timers
from aioprod.types import TopicPartition

__all__ = ["Outcome", "State", "Transaction", "Transactions"]

EPOCH_MAX: Final = 32767
LAST_EPOCH: Final = EPOCH_MAX - 1
"""The last one that a client gets: the coordinator must be able to raise it once more, to fence the client."""

MARKER_RETRY_S: Final = 0.02
"""After so long the coordinator tries again to write markers, to partitions that had no leader."""


class State(Enum):
    """Where a transactional id stands."""

    EMPTY = auto()
    ONGOING = auto()
    PREPARE_COMMIT = auto()
    PREPARE_ABORT = auto()
    COMPLETE_COMMIT = auto()
    COMPLETE_ABORT = auto()


COMPLETING: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
ENDED: Final = {State.COMPLETE_COMMIT: True, State.COMPLETE_ABORT: False}


class Outcome(NamedTuple):
    """What the coordinator answers: an error, or who the producer is from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(slots=True)
class Transaction:
    """One transactional id: who owns it, and its transaction. `number` counts transactions.

    `last_epoch` and `previous_producer_id` are those before they were last raised, for an owner that asks again.
    `next_producer_id` is what takes over at the end of a transaction whose epoch is the last.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    state: State = State.EMPTY
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    number: int = 0

    @property
    def outcome(self) -> Outcome:
        """Who the producer is."""
        return Outcome(ErrorCode.NONE, self.producer_id, self.epoch)

    def refusal(self, producer_id: int, epoch: int) -> ErrorCode:
        """Why the producer may not add anything, NONE if it may."""
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.state in COMPLETING else ErrorCode.NONE


class Transactions(dict[str, Transaction]):
    """All transactional ids.

    `write_markers` writes a transaction's where it can, and takes off it what has got one. `marker_delay_s` is how long
    the coordinator takes to begin with them: meanwhile it answers CONCURRENT_TRANSACTIONS. By default that is no time,
    so that a test may look at what was committed as soon as the producer says so. `version` is the cluster's, for what
    no client asks for: fencing.
    """

    def __init__(
        self,
        timers: Timers,
        new_producer_id: Callable[[], int],
        write_markers: Callable[[Transaction, ControlType], None],
    ) -> None:
        super().__init__()
        self.version = 2
        self.marker_delay_s = 0.0
        self.timeout_max_ms = 900_000
        self._timers = timers
        self._new_producer_id = new_producer_id
        self._write_markers = write_markers

    # -- who the producer is -----------------------------------------------------------------------------------------

    def init(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> Outcome:
        """Make the caller the only owner; `producer_id` and `epoch` are its own where it was that before (KIP-360)."""
        if not transactional_id:
            return Outcome(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.timeout_max_ms:
            return Outcome(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        if transactional_id not in self:
            self[transactional_id] = Transaction(transactional_id, self._new_producer_id(), timeout_ms)
        one = self[transactional_id]
        is_known = producer_id != NO_PRODUCER_ID
        if one.state in COMPLETING:
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if is_known and not self._may_go_on(one, producer_id, epoch):
            return Outcome(ErrorCode.PRODUCER_FENCED)
        if one.state is State.ONGOING:
            self._fence(one)
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not self._raise_epoch(one, epoch if is_known else None):
            return Outcome(ErrorCode.PRODUCER_FENCED)
        one.state, one.timeout_ms = State.EMPTY, timeout_ms
        return one.outcome

    @staticmethod
    def _may_go_on(one: Transaction, producer_id: int, epoch: int) -> bool:
        repeats_the_last = producer_id == one.previous_producer_id and epoch >= LAST_EPOCH
        return one.epoch == NO_EPOCH or producer_id == one.producer_id or repeats_the_last

    def _raise_epoch(self, one: Transaction, expected: int | None) -> bool:
        """The next epoch, or the next producer id; False if `expected` is not the epoch that the caller may have."""
        if one.epoch >= LAST_EPOCH and expected in (None, one.epoch):
            one.last_epoch = NO_EPOCH if expected is None else one.epoch
            one.previous_producer_id, one.producer_id, one.epoch = one.producer_id, self._new_producer_id(), 0
        elif expected is None:
            one.last_epoch, one.epoch = NO_EPOCH, one.epoch + 1
        elif expected == one.epoch or one.epoch == NO_EPOCH:
            one.last_epoch, one.epoch = one.epoch, one.epoch + 1
        elif expected != one.last_epoch:
            return False
        return True

    def _owned(self, transactional_id: str, producer_id: int, epoch: int) -> tuple[Transaction | None, ErrorCode]:
        """The transaction of that owner, None with the reason when it is not the owner's or not at rest."""
        one = self.get(transactional_id)
        if one is None:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        refusal = one.refusal(producer_id, epoch)
        return (one if refusal == ErrorCode.NONE else None), refusal

    # -- what belongs to a transaction -------------------------------------------------------------------------------

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        partitions: Iterable[TopicPartition] = (),
        groups: Iterable[str] = (),
    ) -> Outcome:
        """Add partitions, and groups that offsets will be committed for; the first begin the transaction."""
        one, refusal = self._owned(transactional_id, producer_id, epoch)
        if one is None:
            return Outcome(refusal)
        if one.state is not State.ONGOING:
            one.state = State.ONGOING
            one.number += 1
            self._expire_later(one)
        one.partitions.update(partitions)
        one.groups.update(groups)
        return one.outcome

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        partitions: Iterable[TopicPartition] = (),
        groups: Iterable[str] = (),
    ) -> Outcome:
        """Whether partitions and groups were added to the transaction."""
        one, refusal = self._owned(transactional_id, producer_id, epoch)
        if one is not None and not (one.partitions.issuperset(partitions) and one.groups.issuperset(groups)):
            refusal = ErrorCode.TRANSACTION_ABORTABLE
        return Outcome(refusal)

    # -- how a transaction ends --------------------------------------------------------------------------------------

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commits: bool, version: int) -> Outcome:
        """Commit or abort; the answer has the producer's next epoch in `version` 2."""
        one = self.get(transactional_id)
        if one is None:
            return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_repeated = version >= 2 and self._is_repeated_end(one, producer_id, epoch)
        if producer_id != one.producer_id and not is_repeated:
            return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != one.epoch and not is_repeated:
            return Outcome(ErrorCode.PRODUCER_FENCED)
        if one.state in COMPLETING:
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if one.state is State.ONGOING:
            return self._begin_end(one, commits=commits, raises_epoch=version >= 2)
        if version < 2 or is_repeated:
            return one.outcome if ENDED.get(one.state) is commits else Outcome(ErrorCode.INVALID_TXN_STATE)
        # Version 2: an abort of nothing is an abort, and raises the epoch as any other.
        if commits:
            return Outcome(ErrorCode.INVALID_TXN_STATE)
        return self._begin_end(one, commits=False, raises_epoch=True)

    @staticmethod
    def _is_repeated_end(one: Transaction, producer_id: int, epoch: int) -> bool:
        """Whether the request comes with the epoch that its first try has raised already."""
        if one.state not in COMPLETING and one.state not in ENDED:
            return False
        if producer_id == one.producer_id:
            return one.epoch == epoch + 1
        return producer_id == one.previous_producer_id and epoch == LAST_EPOCH and one.epoch == 0

    def _begin_end(self, one: Transaction, *, commits: bool, raises_epoch: bool) -> Outcome:
        one.state = State.PREPARE_COMMIT if commits else State.PREPARE_ABORT
        if not raises_epoch:
            answer = one.outcome
        elif one.epoch >= LAST_EPOCH:
            one.next_producer_id = self._new_producer_id()
            one.last_epoch, one.epoch = one.epoch, min(one.epoch + 1, EPOCH_MAX)
            answer = Outcome(ErrorCode.NONE, one.next_producer_id, 0)
        else:
            one.last_epoch, one.epoch = one.epoch, one.epoch + 1
            answer = one.outcome
        self._complete_later(one)
        return answer

    def _fence(self, one: Transaction) -> None:
        """Abort what the owner has open, and let it do nothing more."""
        one.state = State.PREPARE_ABORT
        one.last_epoch = one.epoch if self.version >= 2 else NO_EPOCH
        one.epoch = min(one.epoch + 1, EPOCH_MAX)
        self._complete_later(one)

    def _expire_later(self, one: Transaction) -> None:
        number = one.number

        def expire() -> None:
            if one.state is State.ONGOING and one.number == number:
                self._fence(one)

        self._timers.later(one.timeout_ms / 1000, expire)

    def _complete_later(self, one: Transaction) -> None:
        if self.marker_delay_s > 0.0:
            self._timers.later(self.marker_delay_s, lambda: self._complete(one))
        else:
            self._complete(one)

    def _complete(self, one: Transaction) -> None:
        """Write the markers, which is the end where all could be written."""
        commits = one.state is State.PREPARE_COMMIT
        self._write_markers(one, ControlType.COMMIT if commits else ControlType.ABORT)
        if one.partitions or one.groups:
            self._timers.later(MARKER_RETRY_S, lambda: self._complete(one))
            return
        one.state = State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
        if one.next_producer_id != NO_PRODUCER_ID:
            one.previous_producer_id, one.producer_id, one.epoch = one.producer_id, one.next_producer_id, 0
            one.next_producer_id = NO_PRODUCER_ID
