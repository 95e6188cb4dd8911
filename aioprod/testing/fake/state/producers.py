"""What the leader of a partition knows of each producer, and which batches it takes (Kafka's `ProducerAppendInfo`).

A batch is taken if it is the next one, or the first of a newer epoch; if it is one of the last five it is answered as
the success that it was. A leader that knows nothing of a producer takes any sequence number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.records.parser import ParsedBatch

__all__ = ["NO_EPOCH", "NO_PRODUCER_ID", "ProducerState", "ProducerStates"]

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
SEQUENCE_MAX: Final = (1 << 31) - 1
CACHED_BATCHES: Final = 5


class Appended(NamedTuple):
    """A batch that a producer appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class Verification:
    """The first write of a transaction to a partition that was not appended yet: nothing may come before it.

    `lowest_sequence` is that of all batches that were tried; `is_implicit`: the first of them wanted to join its
    transaction by itself.
    """

    epoch: int
    lowest_sequence: int
    is_implicit: bool


def last_sequence(batch: ParsedBatch) -> int:
    """The sequence number of a batch's last record; after 2^31 - 1 comes 0."""
    return (batch.base_sequence + batch.last_offset_delta) & SEQUENCE_MAX


@dataclass(slots=True)
class ProducerState:
    """One producer id in one partition: its last batches, and where its open transaction begins."""

    epoch: int = NO_EPOCH
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=CACHED_BATCHES))
    transaction_start: int | None = None
    verification: Verification | None = None

    @property
    def last_sequence(self) -> int:
        """The one before the next, -1 before the first."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def has_open(self, epoch: int) -> bool:
        """Whether a transaction of this epoch has begun here."""
        return self.transaction_start is not None and self.epoch == epoch

    def verify(self, batch: ParsedBatch, *, is_implicit: bool) -> None:
        """Take note of a batch whose transaction the coordinator is asked about."""
        known = self.verification
        if known is None:
            self.verification = Verification(batch.producer_epoch, batch.base_sequence, is_implicit)
        elif batch.producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, batch.base_sequence)

    def stored_before(self, batch: ParsedBatch) -> int | None:
        """The offset that this very batch has already, if it is one of the last."""
        if batch.producer_epoch != self.epoch:
            return None
        wanted = (batch.base_sequence, last_sequence(batch))
        return next((known.base_offset for known in self.batches if known[:2] == wanted), None)

    def refusal(self, batch: ParsedBatch) -> ErrorCode:
        """Why a leader does not take `batch`, NONE if it does."""
        if batch.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if not self._is_next(batch):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if self.transaction_start is not None and not batch.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def _is_next(self, batch: ParsedBatch) -> bool:
        first = batch.base_sequence
        if self.verification is not None:
            if self.verification.is_implicit and first != 0 and not self.batches:
                return False
            if first > self.verification.lowest_sequence:
                return False
        if self.epoch == NO_EPOCH:
            return True
        previous = self.last_sequence if batch.producer_epoch == self.epoch else NO_SEQUENCE
        return first == (previous + 1) & SEQUENCE_MAX

    def append(self, batch: ParsedBatch, base_offset: int) -> None:
        """Remember a batch that was stored."""
        self._enter(batch.producer_epoch)
        self.batches.append(Appended(batch.base_sequence, last_sequence(batch), base_offset))
        if batch.is_transactional:
            self.verification = None
            if self.transaction_start is None:
                self.transaction_start = base_offset

    def end_transaction(self, epoch: int) -> int | None:
        """Take note of a marker with `epoch`; returns where the transaction began, None if it had nothing here."""
        start, self.transaction_start = self.transaction_start, None
        # The epoch of the marker is that of the next transaction where each end raises it: it may have begun already.
        if self.verification is not None and not (self.verification.is_implicit and self.verification.epoch == epoch):
            self.verification = None
        self._enter(epoch)
        return start

    def _enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerStates(dict[int, ProducerState]):
    """All producers of one partition by id."""

    def of(self, producer_id: int) -> ProducerState:
        """What is known of a producer, which is nothing at first."""
        return self.setdefault(producer_id, ProducerState())

    @property
    def first_open_offset(self) -> int | None:
        """Where the first transaction begins that has not ended."""
        return min((one.transaction_start for one in self.values() if one.transaction_start is not None), default=None)

    def expire(self) -> None:
        """Forget all that have no transaction open, as a broker does with those that were silent for a day."""
        for producer_id in [key for key, one in self.items() if one.transaction_start is None]:
            del self[producer_id]
