"""Every error that aioprod raises on purpose.

AioprodError
├── ConfigError                   a setting is unknown, wrong or contradicts another            (ValueError)
├── UsageError                    wrong loop or thread, forked process, not started             (RuntimeError)
│   └── ProducerClosedError       the producer is closed or is closing
├── InvalidRecordError            partition, timestamp or headers of a record are out of range  (ValueError)
│   ├── SerializationError        a key, value or header is not of a type that becomes bytes    (TypeError)
│   ├── RecordTooLargeError       one record is over max.request.size or buffer.memory
│   └── InvalidTopicError         the topic's name is not a legal one
│       └── UnknownTopicError     no broker knows the topic
├── BufferFullError               buffer.memory is used up
├── MetadataTimeoutError          no metadata came within max.block.ms                          (TimeoutError)
├── FlushTimeoutError             flush(timeout) ended with undelivered records                 (TimeoutError)
├── AuthenticationError           the broker does not accept the credentials
├── AuthorizationError            the principal lacks a right
├── ProducerFencedError           another producer took over the transactional id
├── TransactionAbortedError       the transaction was aborted, its records with it
├── TransactionUnknownError       it is not known whether a transaction was committed
├── MarkerError                   a relay's marker and its source don't belong together
├── BrokerConnectionError         a connection could not be made, or was lost                   (ConnectionError)
│   ├── TlsError                  one side does not accept the other's certificate or TLS
│   └── RequestTimedOutError      the broker did not answer within request.timeout.ms           (TimeoutError)
├── ProtocolError                 the peer sent bytes that are not a Kafka answer
│   └── CorruptRecordError        a record batch is malformed or its checksum is wrong
├── UnsupportedVersionError       the broker and aioprod share no version of a request
├── BrokerError                   a broker answered with an error code
│   └── TopicExistsError          a topic of that name exists already
├── TopicFailuresError            some topics of a call could not be created, deleted or extended
├── GroupFailuresError            some groups of a call, or offsets of one, could not be deleted
├── UndeliveredRowsError          rows of a Spark job could not be delivered
├── StillUnknownError             it can't be said (yet) whether a record is stored
├── SendFailuresError             records of a send_many() or send_arrow() failed               (ExceptionGroup)
└── DeliveryError                 an accepted record was not delivered; always one of the three:
    ├── NotSentError              it never left this process: safe to send again
    ├── UnknownOutcomeError       it was sent and the answer was lost: it may be stored
    └── RejectedError             a broker rejected it: it will not be stored

A record that fails as its producer is fenced ends with a DeliveryError of its family that is a ProducerFencedError too.

`may_be_stored` says whether what was to be written may be in the log. It is True of UnknownOutcomeError,
StillUnknownError, TransactionUnknownError, FlushTimeoutError and UndeliveredRowsError, of any error of a commit whose
request may have reached the coordinator, and of any error of a `send_many()` that has sent some of its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from aioprod._acl_names import Operation as Operation  # Named so, they are importable from here, too.
from aioprod._acl_names import ResourceType as ResourceType
from aioprod._base_error import AioprodError
from aioprod._error_codes import ErrorCode

if TYPE_CHECKING:
    from aioprod.consumed_record import ConsumedRecord

__all__ = [
    "AioprodError",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerConnectionError",
    "BrokerError",
    "BufferFullError",
    "ConfigError",
    "CorruptRecordError",
    "DeliveryError",
    "ErrorCode",
    "FlushTimeoutError",
    "GroupFailuresError",
    "InvalidRecordError",
    "InvalidTopicError",
    "MarkerError",
    "MetadataTimeoutError",
    "NotSentError",
    "ProducerClosedError",
    "ProducerFencedError",
    "ProtocolError",
    "RecordTooLargeError",
    "RejectedError",
    "RequestTimedOutError",
    "SendFailuresError",
    "SerializationError",
    "SpoolError",
    "StillUnknownError",
    "TlsError",
    "TopicExistsError",
    "TopicFailuresError",
    "TransactionAbortedError",
    "TransactionUnknownError",
    "UndeliveredRowsError",
    "UnknownOutcomeError",
    "UnknownTopicError",
    "UnsupportedVersionError",
    "UsageError",
]


class ConfigError(AioprodError, ValueError):
    """A setting is unknown, has a wrong value or contradicts another one."""


class UsageError(AioprodError, RuntimeError):
    """The object can't be used here: wrong event loop or thread, a forked process, or not started yet."""


class ProducerClosedError(UsageError):
    """The producer is closed, or is closing and accepts no more records."""


class InvalidRecordError(AioprodError, ValueError):
    """A record can't be sent as it is: its partition, timestamp or headers are out of range."""


class SerializationError(InvalidRecordError, TypeError):
    """A key, value or header could not be turned into bytes, or back.

    `topic`, `partition` and `offset` name the record that was read, and `record` has it as it is stored, with its key,
    value and headers in bytes; they are None for a record to send.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.record: ConsumedRecord | None = None


class RecordTooLargeError(InvalidRecordError):
    """One record is larger than `max.request.size` or `buffer.memory`."""


class InvalidTopicError(InvalidRecordError):
    """The topic's name is not one that Kafka allows."""


class UnknownTopicError(InvalidTopicError):
    """No broker knows the topic, and the cluster does not create it."""


class BufferFullError(AioprodError):
    """`buffer.memory` is used up by records that have not been delivered yet."""


class MetadataTimeoutError(AioprodError, TimeoutError):
    """No metadata of the cluster, or of a topic's partitions, came within `max.block.ms`."""


class FlushTimeoutError(AioprodError, TimeoutError):
    """`flush(timeout)` ended while `remaining` records had no outcome yet; their delivery continues."""

    may_be_stored = True

    def __init__(self, message: str, *, remaining: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.remaining = remaining


class AuthenticationError(AioprodError):
    """The broker does not accept the credentials."""


class AuthorizationError(AioprodError):
    """The broker does not allow `operation` on `resource`; the hint has the missing ACL.

    `resource_type` is "topic", "group", "cluster", "transactional_id" or "delegation_token", `resource` its name, which
    is "kafka-cluster" for the cluster, and `operation` the missing right, as "WRITE" or "DESCRIBE".
    Each is None where the broker's answer does not say.
    """

    def __init__(
        self,
        message: str,
        *,
        resource_type: ResourceType | None = None,
        resource: str | None = None,
        operation: Operation | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.resource_type = resource_type
        self.resource = resource
        self.operation = operation


class ProducerFencedError(AioprodError):
    """A newer producer with the same transactional id took over.

    A record that fails for this reason ends with a `DeliveryError` of its family that is a ProducerFencedError, too.
    """


class TransactionAbortedError(AioprodError):
    """The transaction was aborted, so the record was not written.

    `on_purpose`: its user aborted it, or left its block with an exception; nothing had failed before.
    """

    def __init__(self, message: str, *, on_purpose: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.on_purpose = on_purpose


class TransactionUnknownError(AioprodError):
    """It is not known whether the transaction was committed; this never means that it was not.

    `code` is the coordinator's last error code, None if it did not answer. `status` is the transaction's, fetched
    from the coordinator afterwards (an `aioprod.transactions.TransactionStatus`, None if that was not possible). To
    find out, call the session's `begin()` and then `committed_offsets()`: the offsets that were sent with the
    transaction are there if it was committed.
    """

    may_be_stored = True

    def __init__(
        self, message: str, *, code: ErrorCode | int | None = None, status: Any = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.status = status


class MarkerError(AioprodError):
    """The marker of a relay and its source don't belong together, or one of them is gone: a person has to look.

    Nothing is sent on a guess.
    """


class SpoolError(AioprodError):
    """The folder of a spool can't be used: it is damaged, another process's, or its disk has failed.

    Nothing is skipped. `may_be_stored` says whether a record whose write has failed may be there after the next start.
    """


class BrokerConnectionError(AioprodError, ConnectionError):
    """A connection could not be made or was lost; `address` is `host:port` of the peer, or None.

    `is_mismatch`: the peer behaved as a listener of another `security.protocol` does; a broker that is being stopped
    may do so too.
    """

    def __init__(
        self, message: str, *, address: str | None = None, hint: str | None = None, is_mismatch: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.address = address
        self.is_mismatch = is_mismatch


class TlsError(BrokerConnectionError):
    """The TLS handshake failed: a certificate is not accepted, or there is no version or cipher in common."""


class RequestTimedOutError(BrokerConnectionError, TimeoutError):
    """A broker did not answer a request within `request.timeout.ms`, so its connection was closed."""


class ProtocolError(AioprodError):
    """The peer sent bytes that are not a Kafka answer, or a length over its limit."""


class CorruptRecordError(ProtocolError):
    """A record batch is malformed, or its CRC-32C does not match its bytes."""


class UnsupportedVersionError(AioprodError):
    """The broker and aioprod have no version of a request in common, or a field has no place in the version."""


class BrokerError(AioprodError):
    """A broker answered with an error; `code` is an `ErrorCode`, or a plain int for a code that is not known yet."""

    def __init__(self, message: str, *, code: ErrorCode | int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class TopicExistsError(BrokerError):
    """A topic could not be created: the name is in use."""


class TopicFailuresError(AioprodError):
    """A call for several topics failed for some of them, and is done for the others.

    `failures` has the error of each topic that failed, by its name.
    """

    def __init__(self, message: str, *, failures: Mapping[str, AioprodError], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.failures = failures


class GroupFailuresError(AioprodError):
    """A call for several groups, or partitions of one, failed for some of them, and is done for the others.

    `failures` has the error of each that failed, by the name of the group or by the partition.
    """

    def __init__(self, message: str, *, failures: Mapping[Any, AioprodError], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.failures = failures


class UndeliveredRowsError(AioprodError):
    """Rows of a Spark job could not be delivered; the message names the first of them. Others may be stored."""

    may_be_stored = True


class DeliveryError(AioprodError):
    """An accepted record was not delivered: each is of exactly one of the three subclasses, which say what that means.

    `attempts` counts how often the record was sent, `broker` is the node id it was last sent to (None if never),
    `age_s` is its age in seconds, `code` the last error code of a broker (None if no broker answered),
    and `__cause__` what went wrong last.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        attempts: int = 0,
        broker: int | None = None,
        age_s: float = 0.0,
        code: ErrorCode | int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.topic = topic
        self.partition = partition
        self.attempts = attempts
        self.broker = broker
        self.age_s = age_s
        self.code = code


class NotSentError(DeliveryError):
    """The record never left this process: sending it again can't make a duplicate."""


class UnknownOutcomeError(DeliveryError):
    """The record was sent and the answer was lost: it may be stored, sending it again may make a duplicate.

    `Producer.resolve` finds out which.
    """

    may_be_stored = True
    _sent: Any = None
    """The record's batch and its index there, as the producer that sent it keeps them."""

    @property
    def resolvable(self) -> bool:
        """Whether `Producer.resolve` may find out, now or later: the producer that sent the record is idempotent."""
        return self._sent is not None and bool(self._sent.is_open)


class StillUnknownError(AioprodError):
    """It can't be said whether a record is stored: by now, or for ever where `resolvable` of its error is False.

    `reason` is one of "undecided" (no later record of the partition was acknowledged), "unanswered" (it could not be
    read), "no right", "too many bytes", "not ended" (its transaction), "deleted", "lost state", "unclean election",
    "another producer id", "recreated", "long ago" and "not idempotent". The message says it in a sentence.
    """

    may_be_stored = True

    def __init__(self, message: str, *, reason: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reason = reason


class RejectedError(DeliveryError):
    """A broker rejected the record: it is not stored and will not be."""


class FencedNotSentError(NotSentError, ProducerFencedError):
    """The record never left this process, as another producer took over the transactional id."""


class FencedUnknownOutcomeError(UnknownOutcomeError, ProducerFencedError):
    """The record may be stored, and another producer took over the transactional id, which aborts the transaction."""


class FencedRejectedError(RejectedError, ProducerFencedError):
    """A broker rejected the record, as another producer took over the transactional id."""


class SendFailuresError(AioprodError, ExceptionGroup[AioprodError]):
    """Records of a bulk call failed; `exceptions` are the first hundred failures, `indexes` their places in the call.

    `count` is how many failed in all. `may_be_stored` is True where it is of one of them, and where there are more than
    a hundred, as the others are not looked at. `except*` and `split()` take the group apart by the kinds of
    errors; a part counts what it holds.
    """

    count: int
    indexes: tuple[int, ...]

    def __new__(cls, message: str, exceptions: Sequence[AioprodError], **fields: object) -> Self:
        """The group, whose `message` and `exceptions` never change."""
        return ExceptionGroup.__new__(cls, message, exceptions)

    def __init__(
        self,
        message: str,
        exceptions: Sequence[AioprodError],
        *,
        count: int,
        indexes: tuple[int, ...],
        hint: str | None = None,
    ) -> None:
        Exception.__init__(self, message, exceptions)
        self.hint = hint
        self.count = count
        self.indexes = indexes
        self.may_be_stored = count > len(exceptions) or any(error.may_be_stored for error in exceptions)

    def __reduce__(self) -> tuple[Any, ...]:
        return _regrouped, (type(self), self.message, self.exceptions, self.__dict__)

    def derive(self, excs: Sequence[Any], /) -> Any:
        """A group of some of these errors; raises ValueError for another one: its place in the call is not known."""
        places = {id(error): index for error, index in zip(self.exceptions, self.indexes, strict=True)}
        for error in excs:
            if id(error) not in places:
                raise ValueError(f"{error!r:.200} is none of the errors of this group: derive() takes a part of them.")
        indexes = tuple(places[id(error)] for error in excs)
        return SendFailuresError(self.message, excs, count=len(excs), indexes=indexes, hint=self.hint)


def _regrouped(
    kind: type[SendFailuresError], message: str, errors: tuple[AioprodError, ...], fields: dict[str, Any]
) -> SendFailuresError:
    error = kind(message, errors, count=fields["count"], indexes=fields["indexes"])
    error.__dict__.update(fields)
    return error
