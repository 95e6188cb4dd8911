"""What a broker refused, as the exception that says so."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    InvalidTopicError,
    UnknownTopicError,
)
from aioprod.types import TopicPartition

__all__ = ["UNKNOWN_TOPIC_CODES", "named", "refusal"]

UNKNOWN_TOPIC_CODES: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_NAMED_MAX: Final = 5
"""How many partitions a message names."""

_UNAUTHORIZED: Final = frozenset({ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})


def refusal(what: str, topic: str | None, code: ErrorCode | int, said: str | None = None) -> AioprodError:
    """The error for `what` (a sentence without its stop) that failed for `topic`; `said` are the broker's own words.

    The class is AuthorizationError, UnknownTopicError or InvalidTopicError where the code says so, else BrokerError.
    """
    message = f"{what}: {said.rstrip('.') if said else f'the broker answered {ErrorCode.said(code)}'}."
    if code in _UNAUTHORIZED:
        return AuthorizationError(message, resource=topic, hint="Allow this client to do that (ACLs).")
    if code in UNKNOWN_TOPIC_CODES:
        return UnknownTopicError(message)
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return InvalidTopicError(message)
    return BrokerError(message, code=code)


def named(tps: Collection[TopicPartition]) -> str:
    """Partitions as a message names them: the first ones, and how many there are more."""
    names = [f"{topic}-{index}" for topic, index in sorted(tps)]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
