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
    UnsupportedVersionError,
    UsageError,
)

__all__ = ["ReplacedError", "ends", "is_fenced"]


class ReplacedError(ProducerFencedError):
    """Another relay has taken over, and must not be fenced."""


_ENDING: Final = (
    AuthenticationError,
    AuthorizationError,
    ConfigError,
    InvalidRecordError,
    MarkerError,
    ReplacedError,
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


def ends(error: AioprodError | OSError) -> bool:
    """Whether no repetition mends it: a person has to change a setting, a right or a record."""
    if isinstance(error, DeliveryError) and error.code in _POISONED:
        return True
    return isinstance(error, _ENDING) or isinstance(error.__cause__, _ENDING)
