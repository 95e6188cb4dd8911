"""Which failures of a relay may pass, and which end it."""

from __future__ import annotations

from typing import Final

from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    MarkerError,
    ProducerFencedError,
    SpoolError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.relay.claim import ReplacedError

__all__ = ["ends", "is_fenced", "is_poison"]


_ENDING: Final = (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    MarkerError,
    ReplacedError,
    SpoolError,
    UnsupportedVersionError,
    UsageError,
)
_POISONED: Final = frozenset(
    {
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""What brokers say of a record that they will never take."""


def is_fenced(error: BaseException) -> bool:
    """Whether brokers say that another producer has the transactional id; they say so after a time-out, too."""
    return isinstance(error, ProducerFencedError) or isinstance(error.__cause__, ProducerFencedError)


def is_poison(error: BaseException | None) -> bool:
    """Whether it is a record that brokers will not take: too large, invalid, of a topic that is gone or forbidden."""
    if error is None or isinstance(error, MarkerError):  # Its cause may be what is wrong with the marker's topic.
        return False
    if isinstance(error, AuthorizationError):
        return error.resource_type == "topic"
    if isinstance(error, DeliveryError) and error.code in _POISONED:
        return True
    return isinstance(error, InvalidRecordError) or is_poison(error.__cause__)


def ends(error: AioprodError | OSError) -> bool:
    """Whether no repetition mends it: a person has to change a setting, a right or a record."""
    return is_poison(error) or isinstance(error, _ENDING) or isinstance(error.__cause__, _ENDING)
