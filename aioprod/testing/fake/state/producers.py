"""The states of a partition's producers, and which batches its leader appends (Kafka's `ProducerAppendInfo`).

A leader appends a batch with the next sequence number, or the first of a newer epoch. A duplicate of one of the last
five batches is answered with the offset of the first. For an unknown producer any sequence number is accepted.
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
_NO_SEQUENCE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1
_CACHED_BATCHES: Final = 5


class Appended(NamedTuple):
    """A batch that a producer appended."""

    first_sequence: int
    last_sequence: int
    base_offset: int


@dataclass(slots=True)
class Verification:
    """A transaction's first write to a partition is not appended yet: no later batch may be appended before it.

    `lowest_sequence` is the lowest of all batches received so far; `is_implicit`: the first of them was to add the
    partition to the transaction implicitly.
    """

    epoch: int
    lowest_sequence: int
    is_implicit: bool


def last_sequence(batch: ParsedBatch) -> int:
    """The sequence number of a batch's last record; after 2^31 - 1 comes 0."""
    return (batch.base_sequence + batch.last_offset_delta) & _SEQUENCE_MAX


@dataclass(slots=True)
class ProducerState:
    """One producer id in one partition: its last batches, and where its open transaction begins."""

    epoch: int = NO_EPOCH
    batches: deque[Appended] = field(default_factory=lambda: deque(maxlen=_CACHED_BATCHES))
    transaction_start: int | None = None
    verification: Verification | None = None

    @property
    def last_sequence(self) -> int:
        """The last sequence number, -1 before the first batch."""
        return self.batches[-1].last_sequence if self.batches else _NO_SEQUENCE

    def has_open(self, epoch: int) -> bool:
        """Whether a transaction of this epoch is open in the partition."""
        return self.transaction_start is not None and self.epoch == epoch

    def verify(self, batch: ParsedBatch, *, is_implicit: bool) -> None:
        """Note a batch whose transaction is about to be verified by the coordinator."""
        known = self.verification
        if known is None:
            self.verification = Verification(batch.producer_epoch, batch.base_sequence, is_implicit)
        elif batch.producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = batch.producer_epoch, batch.base_sequence
        elif batch.producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, batch.base_sequence)

    def duplicate_offset(self, batch: ParsedBatch) -> int | None:
        """The base offset of this batch if it is a duplicate of one of the last five, else None."""
        if batch.producer_epoch != self.epoch:
            return None
        wanted = (batch.base_sequence, last_sequence(batch))
        return next((known.base_offset for known in self.batches if known[:2] == wanted), None)

    def append_error(self, batch: ParsedBatch) -> ErrorCode:
        """The error if `batch` can't be appended, else NONE."""
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
        previous = self.last_sequence if batch.producer_epoch == self.epoch else _NO_SEQUENCE
        return first == (previous + 1) & _SEQUENCE_MAX

    def append(self, batch: ParsedBatch, base_offset: int) -> None:
        """Note a batch that was appended."""
        self._set_epoch(batch.producer_epoch)
        self.batches.append(Appended(batch.base_sequence, last_sequence(batch), base_offset))
        if batch.is_transactional:
            self.verification = None
            if self.transaction_start is None:
                self.transaction_start = base_offset

    def end_transaction(self, epoch: int) -> int | None:
        """Note a marker with `epoch`; returns the transaction's first offset, None if it wrote nothing here."""
        start, self.transaction_start = self.transaction_start, None
        # Where each end bumps the epoch, the marker's is that of the next transaction, which may have begun already.
        if self.verification is not None and not (self.verification.is_implicit and self.verification.epoch == epoch):
            self.verification = None
        self._set_epoch(epoch)
        return start

    def _set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


class ProducerStates(dict[int, ProducerState]):
    """All producers of one partition by id."""

    def of(self, producer_id: int) -> ProducerState:
        """The state of a producer, created if missing."""
        return self.setdefault(producer_id, ProducerState())

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the open transactions, None if there is none."""
        return min((one.transaction_start for one in self.values() if one.transaction_start is not None), default=None)

    def expire(self) -> None:
        """Remove the producers without an open transaction, as brokers do after a day (`producer.id.expiration.ms`)."""
        for producer_id in [key for key, one in self.items() if one.transaction_start is None]:
            del self[producer_id]
