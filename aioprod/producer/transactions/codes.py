"""What the error codes of the transaction requests mean: done, again, abort, or the end of the producer.

The tables are Java's, but for codes that Java does not name: where a request only adds to a transaction these let it
be aborted, which is always safe, instead of ending the producer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode

__all__ = ["FATAL_FOR_RECORDS", "Meaning", "Step", "meaning_of"]


class Step(Enum):
    """The requests of a transaction; the value says what each is for."""

    INITIALIZE = "initialize the transactional id"
    ADD_PARTITIONS = "add partitions to the transaction"
    ADD_OFFSETS = "add a group's offsets to the transaction"
    COMMIT_OFFSETS = "commit a group's offsets in the transaction"
    COMMIT = "commit the transaction"
    ABORT = "abort the transaction"


class Meaning(Enum):
    """What to do after a code."""

    DONE = "done"
    WAIT = "retry in some milliseconds: the transaction before is still being completed"
    AGAIN = "retry after retry.backoff.ms"
    FAILED = "the transaction can only be aborted"
    FENCED = "another producer took over, or the transaction timed out"
    BROKEN = "the producer can't continue"


_C: Final = ErrorCode
_EVERYWHERE: Final = {
    _C.NONE: Meaning.DONE,
    _C.CONCURRENT_TRANSACTIONS: Meaning.WAIT,
    _C.COORDINATOR_LOAD_IN_PROGRESS: Meaning.AGAIN,
    _C.COORDINATOR_NOT_AVAILABLE: Meaning.AGAIN,
    _C.NOT_COORDINATOR: Meaning.AGAIN,
    _C.TRANSACTION_ABORTABLE: Meaning.FAILED,
    # Old coordinators say INVALID_PRODUCER_EPOCH where newer ones say PRODUCER_FENCED (KIP-588).
    _C.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    _C.PRODUCER_FENCED: Meaning.FENCED,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning.BROKEN,
    _C.INVALID_PRODUCER_ID_MAPPING: Meaning.BROKEN,
    _C.INVALID_TXN_STATE: Meaning.BROKEN,
    _C.UNSUPPORTED_VERSION: Meaning.BROKEN,
    _C.UNSUPPORTED_FOR_MESSAGE_FORMAT: Meaning.BROKEN,
}
_OTHERWISE: Final = {
    Step.INITIALIZE: Meaning.BROKEN,
    Step.ADD_PARTITIONS: Meaning.FAILED,
    Step.ADD_OFFSETS: Meaning.FAILED,
    Step.COMMIT_OFFSETS: Meaning.FAILED,
    Step.COMMIT: Meaning.BROKEN,
    Step.ABORT: Meaning.BROKEN,
}

FATAL_FOR_RECORDS: Final[dict[int, Meaning]] = {
    _C.INVALID_PRODUCER_EPOCH: Meaning.FENCED,
    _C.PRODUCER_FENCED: Meaning.FENCED,
    _C.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Meaning.BROKEN,
    _C.CLUSTER_AUTHORIZATION_FAILED: Meaning.BROKEN,
    _C.UNSUPPORTED_VERSION: Meaning.BROKEN,
}
"""The codes of a Produce response that end the producer; after any other a failed batch fails its transaction only."""


def meaning_of(step: Step, code: ErrorCode | int) -> Meaning:
    """What the answer `code` to a request means; a code that is not known is never tried again."""
    if not isinstance(code, ErrorCode):
        return _OTHERWISE[step]
    if step in (Step.ABORT, Step.INITIALIZE) and code == _C.TRANSACTION_ABORTABLE:
        # What can't even be aborted leaves nothing to do.
        return Meaning.BROKEN
    if step is Step.COMMIT and code == _C.INVALID_TXN_STATE:
        # What the coordinator has aborted itself, as its time was over, can't be committed (measured on 4.3).
        return Meaning.FENCED
    return _EVERYWHERE.get(code) or (Meaning.AGAIN if code.retriable else _OTHERWISE[step])
