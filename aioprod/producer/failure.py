"""What a failed record's waiters get: an exception of its own, and the record as it was."""

from __future__ import annotations

from typing import Final, NamedTuple

from aioprod._error_codes import ErrorCode
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    FencedNotSentError,
    FencedRejectedError,
    FencedUnknownOutcomeError,
    NotSentError,
    ProducerFencedError,
    RejectedError,
    TransactionAbortedError,
    UnknownOutcomeError,
)
from aioprod.producer.batching.unknown import Sent, UnknownBatch
from aioprod.records.cursor import EncodedRecord
from aioprod.records.headers import decode_headers
from aioprod.types import ProducerRecord

__all__ = ["Failure", "is_aborted_on_purpose", "kind_of", "rebuilt"]


_FENCED: Final[dict[type[DeliveryError], type[DeliveryError]]] = {
    NotSentError: FencedNotSentError,
    UnknownOutcomeError: FencedUnknownOutcomeError,
    RejectedError: FencedRejectedError,
}


def kind_of(family: type[DeliveryError], cause: BaseException | None) -> type[DeliveryError]:
    """The class of a failed record's error: its family; that of one that is fenced is a ProducerFencedError as well."""
    return _FENCED[family] if isinstance(cause, ProducerFencedError) else family


def is_aborted_on_purpose(error: BaseException | None) -> bool:
    """Whether a record failed as its user aborted the transaction, and for no other reason."""
    while isinstance(error, AioprodError):
        if isinstance(error, TransactionAbortedError) and error.on_purpose:
            return True
        error = error.__cause__
    return False


class Failure(NamedTuple):
    """Why the records of a batch failed; each of them gets an exception of its own from it."""

    family: type[DeliveryError]
    event: str
    """What happened to how many records of which partition."""
    why: str
    """For what reason."""
    topic: str
    partition: int
    attempts: int = 0
    broker: int | None = None
    age_s: float = 0.0
    code: ErrorCode | int | None = None
    cause: BaseException | None = None
    hint: str | None = None
    reasons: dict[int, str] | None = None
    """What the broker said of single records, by their index in the batch (KIP-467)."""
    unknown: UnknownBatch | None = None
    """What is kept to find out whether the batch is stored."""

    @property
    def message(self) -> str:
        """What happened, and why."""
        return f"{self.event}: {self.why}"

    def error(self, index: int) -> DeliveryError:
        """The exception for the record at `index` of the batch."""
        message = self.message
        if self.reasons is not None:
            reason = self.reasons.get(index, "others of its batch are to blame.")
            message += f" This record: {reason}"
        error = kind_of(self.family, self.cause)(
            message,
            topic=self.topic,
            partition=self.partition,
            attempts=self.attempts,
            broker=self.broker,
            age_s=self.age_s,
            code=self.code,
            hint=self.hint,
        )
        error.__cause__ = self.cause
        if isinstance(error, UnknownOutcomeError) and self.unknown is not None:
            error._sent = Sent(self.unknown, index)
        return error


def rebuilt(topic: str, partition: int, record: EncodedRecord) -> ProducerRecord:
    """A record as its user would give it, from its encoded parts; -1 stands for no partition, or no timestamp."""
    return ProducerRecord(
        topic,
        record.value,
        key=record.key,
        partition=partition if partition >= 0 else None,
        headers=decode_headers(record.headers, 0, len(record.headers)),
        timestamp=record.timestamp if record.timestamp >= 0 else None,
    )
