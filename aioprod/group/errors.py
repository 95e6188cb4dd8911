"""The errors of a member that can't join its group or stay in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aioprod._authorization_errors import Right, authorization_error
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aioprod.group.member_log import MemberLog
from aioprod.types import TopicPartition

__all__ = ["is_retriable", "log_retry", "member_error", "no_such_offset", "static_membership_error"]

_C: Final = ErrorCode
_REASONS: Final = {
    _C.FENCED_INSTANCE_ID: (
        "another member has joined under its group.instance.id",
        "Give each member of the group a group.instance.id of its own, and end the old one before its successor.",
    ),
    _C.INCONSISTENT_GROUP_PROTOCOL: (
        "its members share no assignor, or the group is used for something else",
        "List an assignor that all members have.",
    ),
    _C.GROUP_MAX_SIZE_REACHED: (
        "the group is full",
        "Raise group.max.size (group.consumer.max.size) on the brokers, or use fewer members.",
    ),
    _C.INVALID_SESSION_TIMEOUT: (
        "session.timeout.ms is out of the brokers' range",
        "Stay within group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers.",
    ),
    _C.INVALID_GROUP_ID: ("the name is invalid, or a group of another type has it", "Use another group_id."),
    _C.GROUP_ID_NOT_FOUND: ("there is no group of that name and type", "Use another group_id."),
    _C.UNSUPPORTED_ASSIGNOR: (
        "the brokers don't have the assignor of group.remote.assignor",
        "Use one of group.consumer.assignors of the brokers, such as uniform or range.",
    ),
    _C.UNRELEASED_INSTANCE_ID: (
        "another member has its group.instance.id",
        "Close that one first: the id is free when the member has left or its session has timed out.",
    ),
    _C.UNSUPPORTED_VERSION: (
        "the brokers don't support a setting of the member",
        "group.protocol=consumer needs brokers from 4.0 on, group.instance.id from 2.3 on.",
    ),
}


def member_error(
    group_id: str, purpose: str, code: ErrorCode | int, broker_message: str | None = None, topics: Collection[str] = ()
) -> AioprodError:
    """The error for a member of the group that could not `purpose`; `broker_message` comes from the response.

    AuthorizationError where that is the reason, else BrokerError. Brokers don't say which of its `topics` a member may
    not describe: all of several are in the hint, and the error names none.
    """
    reason, hint = _REASONS.get(code, (broker_message, None)) if isinstance(code, ErrorCode) else (broker_message, None)
    what = f"A member of group {group_id!r} could not {purpose}: "
    name = ErrorCode.name_of(code)
    rights = [Right("READ", "group", group_id)]
    rights += [Right(operation, "topic", topic) for operation in ("DESCRIBE", "READ") for topic in sorted(topics)]
    if denied := authorization_error(f"{what}the coordinator answered {name}.", code, rights):
        if denied.resource_type == "topic" and len(topics) > 1:
            denied.resource = None
        return denied
    why = f"{reason.rstrip('.')} ({name})" if reason else f"the coordinator answered {name}"
    return BrokerError(f"{what}{why}.", code=code, hint=hint)


def static_membership_error(group_id: str) -> UnsupportedVersionError:
    """The error for a static member whose coordinator is too old for that (KIP-345)."""
    return UnsupportedVersionError(
        f"A member of group {group_id!r} has a group.instance.id, and the group's coordinator is older than 2.3.",
        hint="group.instance.id needs brokers from 2.3 on: leave it out.",
    )


def no_such_offset(tp: TopicPartition, offset: int, why: str) -> BrokerError:
    """The error for a partition whose log does not have the offset to read next, where nothing says what to do then."""
    return BrokerError(
        f"Partition {tp.partition} of topic {tp.topic!r} can't be read from offset {offset} on: {why}, "
        f"and auto.offset.reset is none.",
        code=ErrorCode.OFFSET_OUT_OF_RANGE,
        hint="Commit another offset, or set auto_offset_reset to earliest or latest.",
    )


def log_retry(log: MemberLog, error: AioprodError, failures: int) -> None:
    """Log that a member tries again after a code that does not say what is wrong; the first time as a warning."""
    write = log.debug if failures else log.warning
    write("tries again: %s", error.message)


def is_retriable(error: AioprodError) -> bool:
    """Whether a request that failed with `error` may succeed when it is sent again.

    A BrokerConnectionError is an unforeseen one: the coordinator retries all others until the request is overdue.
    """
    return isinstance(error, RequestTimedOutError | BrokerConnectionError)
