"""What a broker's answer means for a batch: delivered, again, in halves, or failed, and of which family that is."""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod.errors import DeliveryError, NotSentError, RejectedError, UnknownOutcomeError
from aioprod.producer.batching.batch import Batch

__all__ = ["AMBIGUOUS", "Verdict", "failure_family", "judge"]

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


class Verdict(Enum):
    """What to do with a batch that a broker answered for."""

    DELIVERED = "delivered"
    RETRY = "retry"
    SPLIT = "split"
    FAIL = "fail"


def judge(batch: Batch, code: ErrorCode | int, retries: int) -> Verdict:
    """Read the error code of a Produce response for one batch; `retries` is how often it may be sent again.

    Codes that we don't know are not retried, as Java does.
    """
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.DELIVERED
    if code == ErrorCode.MESSAGE_TOO_LARGE and batch.builder.count > 1:
        return Verdict.SPLIT
    if isinstance(code, ErrorCode) and code.retriable and batch.attempts <= retries:
        return Verdict.RETRY
    return Verdict.FAIL


def failure_family(batch: Batch) -> type[DeliveryError]:
    """Which of the three outcomes a batch has that will not be sent (again)."""
    if batch.maybe_stored or batch.unanswered:
        return UnknownOutcomeError
    if batch.code is not None:
        return RejectedError
    return NotSentError
