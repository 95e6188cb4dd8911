"""Deleting groups, and committed offsets of a group, by their coordinators (DeleteGroups, OffsetDelete)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from aioprod._authorization_errors import Right
from aioprod.admin.groups import missing_group
from aioprod.calls.broker_errors import broker_error, named, partition_codes
from aioprod.calls.committed_offsets import group_error
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProtocolError
from aioprod.group.validation import checked_group, checked_partitions
from aioprod.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    OffsetDeleteRequest,
)
from aioprod.messages.offset_delete import OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from aioprod.types import TopicPartition

__all__ = ["delete_groups", "delete_offsets"]

_IN_USE: Final = "Close its members first."
_MAYBE_DONE: Final = "An earlier try of this call had no clear response: it may have deleted it."


async def delete_groups(
    session: Session, group_ids: Iterable[str], missing_ok: bool, deadline: float
) -> dict[str, AioprodError]:
    """Delete groups that have no members; returns the errors of those that failed."""
    names = list(dict.fromkeys(map(checked_group, group_ids)))
    failures = await asyncio.gather(*(_failure_of_group(session, name, missing_ok, deadline) for name in names))
    return {name: failure for name, failure in zip(names, failures, strict=True) if failure is not None}


async def _failure_of_group(session: Session, name: str, missing_ok: bool, deadline: float) -> AioprodError | None:
    """Delete one group; returns why that failed."""
    coordinator = Coordinator(session.client, "group", name, then="DELETE")

    def code_of(response: DeleteGroupsResponse) -> int:
        for row in response.results:
            if row.group_id == name:
                return row.error_code
        raise ProtocolError(f"The coordinator's response does not contain group {name!r}.")

    try:
        response = await coordinator.request(
            DeleteGroupsRequest(groups_names=(name,)), deadline=deadline, error_of=code_of
        )
    except AioprodError as error:
        return error
    code = ErrorCode.of(code_of(response))
    if code == ErrorCode.NONE or (missing_ok and code == ErrorCode.GROUP_ID_NOT_FOUND):
        return None
    return _group_failure(coordinator, code, f"Group {name!r} could not be deleted")


async def delete_offsets(
    session: Session, group_id: str, partitions: TopicPartition | Iterable[TopicPartition], deadline: float
) -> tuple[int, dict[TopicPartition, AioprodError]]:
    """Delete what a group has committed for partitions: how many these are, and the errors of those that failed."""
    coordinator = Coordinator(session.client, "group", checked_group(group_id), then="DELETE")
    wanted = checked_partitions(partitions)
    response = await coordinator.request(_request(group_id, wanted), deadline=deadline)
    code = ErrorCode.of(response.error_code)
    if code != ErrorCode.NONE:
        raise _group_failure(coordinator, code, f"Offsets of group {group_id!r} could not be deleted")
    codes = partition_codes(response.topics)
    failures = {tp: _failure_of_offset(group_id, tp, codes.get(tp)) for tp in wanted}
    return len(wanted), {tp: failure for tp, failure in failures.items() if failure is not None}


def _request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(OffsetDeleteRequestPartition(partition_index=tp.partition))
    return OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(OffsetDeleteRequestTopic(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
    )


def _failure_of_offset(group_id: str, tp: TopicPartition, code: ErrorCode | int | None) -> AioprodError | None:
    if code == ErrorCode.NONE:
        return None
    what = f"The offset of group {group_id!r} for {named([tp])} could not be deleted"
    if code is None:
        return ProtocolError(f"{what}: its coordinator left it out of the response.")
    messages: dict[ErrorCode | int, str] = {
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: f"members of the group read topic {tp.topic!r}",
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such partition",
    }
    error = broker_error(what, code, [Right("READ", "topic", tp.topic)], message=messages.get(code))
    if code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        error.hint = _IN_USE
    return error


def _group_failure(coordinator: Coordinator, code: ErrorCode | int, what: str) -> AioprodError:
    """The error of a request about the group of `coordinator`: `what` failed, a sentence without its stop."""
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        missing = missing_group(coordinator.key)
        missing.hint = _MAYBE_DONE if coordinator.lost else None
        return missing
    if code == ErrorCode.NON_EMPTY_GROUP:
        return BrokerError(f"{what}: the group has members.", code=ErrorCode.NON_EMPTY_GROUP, hint=_IN_USE)
    return group_error(what, code, [Right("DELETE", "group", coordinator.key)])
