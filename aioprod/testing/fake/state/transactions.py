"""The transaction coordinator (Kafka's `TransactionCoordinator`): transactional ids and their transactions.

The brokers of a fake cluster share one; the handlers check which broker is the coordinator. Transaction version 1 is
the protocol of KIP-98, where a client adds partitions by request; version 2 that of KIP-890, where a write adds its
partition implicitly and each end of a transaction bumps the epoch. The version of each request decides.
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

_EPOCH_MAX: Final = 32767
LAST_EPOCH: Final = _EPOCH_MAX - 1
"""The last epoch that a client gets: the coordinator must be able to bump it once more, to fence the client."""

_MARKER_RETRY_S: Final = 0.02
"""How long the coordinator waits before it retries markers for partitions without a leader."""


class State(Enum):
    """The state of a transactional id."""

    EMPTY = auto()
    ONGOING = auto()
    PREPARE_COMMIT = auto()
    PREPARE_ABORT = auto()
    COMPLETE_COMMIT = auto()
    COMPLETE_ABORT = auto()


COMPLETING: Final = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
_ENDED: Final = {State.COMPLETE_COMMIT: True, State.COMPLETE_ABORT: False}


class Outcome(NamedTuple):
    """The coordinator's answer: an error, or the producer's id and epoch from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(slots=True)
class Transaction:
    """One transactional id: its producer, and its transaction. `number` counts transactions.

    `last_epoch` and `previous_producer_id` are those before the last change, to recognize retries of the request that
    changed them. `next_producer_id` replaces the producer id at the end of a transaction with the last epoch.
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
        """The producer's id and epoch as an answer."""
        return Outcome(ErrorCode.NONE, self.producer_id, self.epoch)

    def producer_error(self, producer_id: int, epoch: int) -> ErrorCode:
        """The error if this producer may not add anything, else NONE."""
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.CONCURRENT_TRANSACTIONS if self.state in COMPLETING else ErrorCode.NONE


class Transactions(dict[str, Transaction]):
    """All transactional ids.

    `write_markers` writes markers where a leader is up, and removes those partitions and groups from the transaction.
    `marker_delay_s` is the delay before that, during which the coordinator answers CONCURRENT_TRANSACTIONS. It is 0 by
    default, so that a test may read committed records as soon as the producer's commit returns. `version` is the
    cluster's transaction version, for what no request decides: fencing.
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

    # --- producer id and epoch

    def init(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> Outcome:
        """Bump the epoch, which fences others; `producer_id` and `epoch` are the caller's, if any (KIP-360)."""
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
        if is_known and not self._may_continue(one, producer_id, epoch):
            return Outcome(ErrorCode.PRODUCER_FENCED)
        if one.state is State.ONGOING:
            self._fence(one)
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not self._bump_epoch(one, epoch if is_known else None):
            return Outcome(ErrorCode.PRODUCER_FENCED)
        one.state, one.timeout_ms = State.EMPTY, timeout_ms
        return one.outcome

    @staticmethod
    def _may_continue(one: Transaction, producer_id: int, epoch: int) -> bool:
        repeats_the_last = producer_id == one.previous_producer_id and epoch >= LAST_EPOCH
        return one.epoch == NO_EPOCH or producer_id == one.producer_id or repeats_the_last

    def _bump_epoch(self, one: Transaction, expected: int | None) -> bool:
        """Bump the epoch, or the producer id after the last epoch; False if `expected` is not the current epoch."""
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

    def _find_owned(self, transactional_id: str, producer_id: int, epoch: int) -> tuple[Transaction | None, ErrorCode]:
        """The transactional id if this is its producer and it is not completing; otherwise None and the error."""
        one = self.get(transactional_id)
        if one is None:
            return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
        error = one.producer_error(producer_id, epoch)
        return (one if error == ErrorCode.NONE else None), error

    # --- partitions and groups

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        partitions: Iterable[TopicPartition] = (),
        groups: Iterable[str] = (),
    ) -> Outcome:
        """Add partitions, and groups whose offsets will be committed; the first ones begin the transaction."""
        one, error = self._find_owned(transactional_id, producer_id, epoch)
        if one is None:
            return Outcome(error)
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
        one, error = self._find_owned(transactional_id, producer_id, epoch)
        if one is not None and not (one.partitions.issuperset(partitions) and one.groups.issuperset(groups)):
            error = ErrorCode.TRANSACTION_ABORTABLE
        return Outcome(error)

    # --- end of a transaction

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, commits: bool, version: int) -> Outcome:
        """Commit or abort; in `version` 2 the answer has the producer's next epoch."""
        one = self.get(transactional_id)
        if one is None:
            return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        is_retry = version >= 2 and self._is_retried_end(one, producer_id, epoch)
        if producer_id != one.producer_id and not is_retry:
            return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if epoch != one.epoch and not is_retry:
            return Outcome(ErrorCode.PRODUCER_FENCED)
        if one.state in COMPLETING:
            return Outcome(ErrorCode.CONCURRENT_TRANSACTIONS)
        if one.state is State.ONGOING:
            return self._begin_end(one, commits=commits, bumps_epoch=version >= 2)
        if version < 2 or is_retry:
            return one.outcome if _ENDED.get(one.state) is commits else Outcome(ErrorCode.INVALID_TXN_STATE)
        # Version 2: an abort of an empty transaction bumps the epoch as any other.
        if commits:
            return Outcome(ErrorCode.INVALID_TXN_STATE)
        return self._begin_end(one, commits=False, bumps_epoch=True)

    @staticmethod
    def _is_retried_end(one: Transaction, producer_id: int, epoch: int) -> bool:
        """Whether this is a retry of a request that has already bumped the epoch."""
        if one.state not in COMPLETING and one.state not in _ENDED:
            return False
        if producer_id == one.producer_id:
            return one.epoch == epoch + 1
        return producer_id == one.previous_producer_id and epoch == LAST_EPOCH and one.epoch == 0

    def _begin_end(self, one: Transaction, *, commits: bool, bumps_epoch: bool) -> Outcome:
        one.state = State.PREPARE_COMMIT if commits else State.PREPARE_ABORT
        if not bumps_epoch:
            answer = one.outcome
        elif one.epoch >= LAST_EPOCH:
            one.next_producer_id = self._new_producer_id()
            one.last_epoch, one.epoch = one.epoch, min(one.epoch + 1, _EPOCH_MAX)
            answer = Outcome(ErrorCode.NONE, one.next_producer_id, 0)
        else:
            one.last_epoch, one.epoch = one.epoch, one.epoch + 1
            answer = one.outcome
        self._complete_later(one)
        return answer

    def _fence(self, one: Transaction) -> None:
        """Abort the open transaction and bump the epoch, so that its producer is fenced."""
        one.state = State.PREPARE_ABORT
        one.last_epoch = one.epoch if self.version >= 2 else NO_EPOCH
        one.epoch = min(one.epoch + 1, _EPOCH_MAX)
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
        """Write the markers; the transaction is complete once all are written, else retry later."""
        commits = one.state is State.PREPARE_COMMIT
        self._write_markers(one, ControlType.COMMIT if commits else ControlType.ABORT)
        if one.partitions or one.groups:
            self._timers.later(_MARKER_RETRY_S, lambda: self._complete(one))
            return
        one.state = State.COMPLETE_COMMIT if commits else State.COMPLETE_ABORT
        if one.next_producer_id != NO_PRODUCER_ID:
            one.previous_producer_id, one.producer_id, one.epoch = one.producer_id, one.next_producer_id, 0
            one.next_producer_id = NO_PRODUCER_ID
