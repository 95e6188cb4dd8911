"""What a broker's answer means for a batch: delivered, again, in halves, or failed, and of which family that is."""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod.errors import DeliveryError, NotSentError, RejectedError, UnknownOutcomeError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.sequences import Sequences

__all__ = ["AMBIGUOUS", "Verdict", "failure_family", "judge", "waits_to_join"]

AMBIGUOUS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Codes that a leader may also give after it has appended the batch: while it waits for the replicas it can lose the
leadership, the topic or its disk. After such an answer the records may be in the log."""


_OUT_OF_SEQUENCE: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)

_NOT_JOINED: Final = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS)
"""The codes for the first batch of a partition in a transaction while its coordinator is busy: with the transaction
before, or with the first batch of another process in the same transaction. They do not mean missing replicas."""


class Verdict(Enum):
    """What to do with a batch that a broker answered for."""

    DELIVERED = "delivered"
    RETRY = "retry"
    SPLIT = "split"
    FAIL = "fail"


def judge(batch: Batch, code: ErrorCode | int, retries: int, sequences: Sequences | None) -> Verdict:
    """Read the error code of a Produce response for one batch; `retries` is how often it may be sent again.

    Codes that we don't know are not retried, as Java does. `sequences` are those of the producer, None without
    idempotence: they note a batch that is out of sequence. The codes that wait for something of our own count no
    retry: those of a batch that is out of sequence, and of one that waits to join its transaction.
    """
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.DELIVERED
    if sequences is not None and batch.base_sequence >= 0 and code in _OUT_OF_SEQUENCE:
        return _out_of_sequence(batch, sequences)
    if sequences is not None and sequences.transactional and waits_to_join(batch, code):
        return Verdict.RETRY
    if code == ErrorCode.MESSAGE_TOO_LARGE and batch.builder.count > 1:
        return Verdict.SPLIT
    if isinstance(code, ErrorCode) and code.retriable and batch.attempts <= retries:
        return Verdict.RETRY
    return Verdict.FAIL


def _out_of_sequence(batch: Batch, sequences: Sequences) -> Verdict:
    """Retry after the batch that fills the gap before it or, if none does, in a new epoch."""
    if sequences.is_forgotten(batch):
        return Verdict.FAIL
    is_gap = sequences.out_of_sequence(batch)
    return Verdict.FAIL if is_gap and sequences.transactional else Verdict.RETRY


def waits_to_join(batch: Batch, code: ErrorCode | int | None) -> bool:
    """Whether a transactional batch was rejected because its partition could not join the transaction yet."""
    return code in _NOT_JOINED and not batch.partition.is_established


def failure_family(batch: Batch) -> type[DeliveryError]:
    """Which of the three outcomes a batch has that will not be sent (again)."""
    if batch.maybe_stored or batch.unanswered:
        return UnknownOutcomeError
    if batch.code is not None:
        return RejectedError
    return NotSentError
