"""The exception for an error code of a broker, and which one to raise after several attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Protocol

from aioprod._authorization_errors import Right, authorization_error
from aioprod.errors import (
    AioprodError,
    BrokerError,
    ErrorCode,
    InvalidTopicError,
    RequestTimedOutError,
    TopicExistsError,
    UnknownTopicError,
)
from aioprod.types import TopicPartition

__all__ = ["UNKNOWN_TOPIC_CODES", "broker_error", "named", "partition_codes", "prefer_specific_error"]

UNKNOWN_TOPIC_CODES: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_NAMED_MAX: Final = 5
"""How many partitions a message names."""


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...

    @property
    def error_code(self) -> int: ...


class _Topic(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> Iterable[_Partition]: ...


def broker_error(
    what: str,
    code: ErrorCode | int,
    rights: Iterable[Right] = (),
    *,
    message: str | None = None,
    instead: str | None = None,
) -> AioprodError:
    """The exception for the operation `what` (a sentence without its full stop) that failed with `code`.

    The class is AuthorizationError, UnknownTopicError, InvalidTopicError or TopicExistsError where the code is one of
    theirs, else BrokerError. `message` is the broker's own, `rights` are the ACLs that the operation needs,
    and `instead` is one that suffices too.
    """
    answered = f"{what}: the broker answered {ErrorCode.name_of(code)}."
    if denied := authorization_error(answered, code, rights, instead=instead):
        return denied
    text = f"{what}: {message.rstrip('.')}." if message else answered
    if code in UNKNOWN_TOPIC_CODES:
        return UnknownTopicError(text)
    if code == ErrorCode.TOPIC_ALREADY_EXISTS:
        return TopicExistsError(text, code=code)
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return InvalidTopicError(text)
    return BrokerError(text, code=code)


def prefer_specific_error(before: AioprodError | None, error: AioprodError, *, was_cut_off: bool) -> AioprodError:
    """The more specific error of two failed attempts: `error`, the later one, unless it only ran out of time.

    `was_cut_off`: the caller's deadline left the later attempt less time than an attempt has by itself.
    """
    says_less = was_cut_off and isinstance(error, RequestTimedOutError)
    return error if before is None or not says_less else before


def partition_codes(topics: Iterable[_Topic]) -> dict[TopicPartition, ErrorCode | int]:
    """The code that a response has for each partition."""
    return {
        TopicPartition(topic.name, row.partition_index): ErrorCode.of(row.error_code)
        for topic in topics
        for row in topic.partitions
    }


def named(tps: Collection[TopicPartition]) -> str:
    """Partitions as a message names them: the first ones, and the number of the others."""
    names = [f"{topic}-{index}" for topic, index in sorted(tps)]
    more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
    return ", ".join(names[:_NAMED_MAX]) + more
