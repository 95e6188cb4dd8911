"""Errors of aioprod as errors that handlers written for aiokafka find.

What the producer raises is a class of aiokafka's and aioprod's own error at once (`both`): `except KafkaTimeoutError`
and `except AioprodError` find it, its text says what happened to which record, and it has `may_be_stored`, `hint` and
the other attributes of the `AioprodError`.
"""

from __future__ import annotations

from typing import Any, Final

from aioprod.compat.aiokafka import errors as kafka_errors
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    BufferFullError,
    DeliveryError,
    FlushTimeoutError,
    InvalidTopicError,
    MetadataTimeoutError,
    ProducerClosedError,
    ProducerFencedError,
    ProtocolError,
    RecordTooLargeError,
    RequestTimedOutError,
    TransactionAbortedError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)

__all__ = ["as_kind", "both", "kafka_error", "kind_of"]


_KINDS: Final[tuple[tuple[type[AioprodError], str], ...]] = (
    (ProducerFencedError, "ProducerFenced"),
    (RecordTooLargeError, "MessageSizeTooLargeError"),
    (UnknownTopicError, "UnknownTopicOrPartitionError"),
    (InvalidTopicError, "InvalidTopicError"),
    (AuthenticationError, "AuthenticationFailedError"),
    (RequestTimedOutError, "RequestTimedOutError"),
    (BrokerConnectionError, "KafkaConnectionError"),
    (BufferFullError, "KafkaTimeoutError"),
    (MetadataTimeoutError, "KafkaTimeoutError"),
    (FlushTimeoutError, "KafkaTimeoutError"),
    (ProducerClosedError, "ProducerClosed"),
    (ProtocolError, "KafkaProtocolError"),
    (UnsupportedVersionError, "IncompatibleBrokerVersion"),
    (UsageError, "IllegalStateError"),
)
"""The first that fits; an error of a broker goes by its code, and one with a cause by its cause."""

_RIGHTS: Final = {
    "topic": "TopicAuthorizationFailedError",
    "group": "GroupAuthorizationFailedError",
    "cluster": "ClusterAuthorizationFailedError",
    "transactional_id": "TransactionalIdAuthorizationFailed",
}


_made: Final[dict[tuple[type[Exception], type[AioprodError]], type[Exception]]] = {}


def kafka_error(error: AioprodError) -> Exception:
    """The error as users of aiokafka know it; one that has no counterpart there is returned as it is."""
    kind = None if hasattr(error, "_of") else kind_of(error)
    return error if kind is None else as_kind(kind, error)


def kind_of(error: BaseException) -> type[Exception] | None:
    """aiokafka's class for what happened, None if there is none."""
    for ours, name in _KINDS:
        if isinstance(error, ours):
            return _named(name)
    if isinstance(error, AuthorizationError):
        return _named(_RIGHTS.get(error.resource_type or "", "KafkaError"))
    if isinstance(error, (BrokerError, DeliveryError)) and error.code is not None:
        return kafka_errors.for_code(error.code)
    if isinstance(error, (DeliveryError, TransactionAbortedError)):
        by_cause = None if error.__cause__ is None else kind_of(error.__cause__)
        # Without an answer or another reason, a record has run out of time.
        return by_cause or _named("KafkaTimeoutError" if isinstance(error, DeliveryError) else "KafkaError")
    return None


def as_kind(kind: type[Exception], error: AioprodError) -> Exception:
    """`error` as an object of a class that is a `kind`, too; it keeps its text, attributes and cause."""
    made = _rebuilt(kind, type(error), error.args, error.__dict__)
    made.__cause__ = error.__cause__
    return made


def both(kind: type[Exception], ours: type[AioprodError]) -> type[Exception]:
    """A class that is found by `except` under either name; it has the name of `kind`, and is made once."""
    if issubclass(ours, kind):
        return ours
    if (kind, ours) not in _made:
        fields = {"__module__": kind.__module__, "__reduce__": _reduce, "_of": (kind, ours)}
        _made[kind, ours] = type(kind.__name__, (kind, ours), fields)
    return _made[kind, ours]


def _reduce(self: Any) -> tuple[Any, ...]:
    return _rebuilt, (*self._of, self.args, self.__dict__)


def _rebuilt(
    kind: type[Exception], ours: type[AioprodError], args: tuple[Any, ...], fields: dict[str, Any]
) -> Exception:
    """Without the constructors, which differ in their arguments."""
    made_of = both(kind, ours)
    made: Exception = (OSError if issubclass(made_of, OSError) else Exception).__new__(made_of)
    made.args = args
    made.__dict__.update(fields)
    return made


def _named(name: str) -> type[Exception]:
    kind: type[Exception] = getattr(kafka_errors, name)
    return kind
