"""The start offsets of a member (OffsetFetch), and its commits (OffsetCommit)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final
from uuid import UUID

from aioprod._authorization_errors import Right
from aioprod.calls.broker_errors import named, partition_codes
from aioprod.calls.committed_offsets import group_error, stable_offsets
from aioprod.calls.coordinator import COORDINATOR_RETRIABLE, Coordinator
from aioprod.errors import (
    AioprodError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
)
from aioprod.group.errors import static_membership_error
from aioprod.group.offset_reset import OffsetReset
from aioprod.messages import OffsetCommitRequest, OffsetCommitResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from aioprod.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["commit_offsets", "start_offsets"]

_FIRST_WITH_IDS: Final = 10
_FIRST_STATIC: Final = 7
_UNCLEAR: Final = (None, ErrorCode.UNKNOWN_SERVER_ERROR)
"""The codes after which it is not known whether the offset of a partition is committed."""
_UNKNOWN_ID_TRIES: Final = 5
"""Tries with an unknown topic id, in about two seconds: brokers learn a new one; that of a deleted topic is gone."""
_TAKEN_OVER: Final = (
    "Its partitions may have another owner now, which starts at the last committed offsets: undo what was done since "
    "then if it counts twice, and continue to read."
)

_HINTS: Final[Mapping[ErrorCode | int, str]] = {
    ErrorCode.ILLEGAL_GENERATION: _TAKEN_OVER,
    ErrorCode.UNKNOWN_MEMBER_ID: _TAKEN_OVER,
    ErrorCode.STALE_MEMBER_EPOCH: _TAKEN_OVER,
    ErrorCode.FENCED_INSTANCE_ID: "Another member with the same group.instance.id has taken its place: each needs one "
    "of its own.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing: commit again afterwards what is still owned.",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "Commit less metadata with an offset (offset.metadata.max.bytes on the "
    "brokers).",
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: "Commit fewer partitions at once, or less metadata with them.",
    ErrorCode.UNKNOWN_TOPIC_ID: "The topic that was read is deleted: one that was created later under its name has "
    "offsets of its own.",
}


async def start_offsets(
    coordinator: Coordinator, partitions: Iterable[TopicPartition], deadline: float, reset: OffsetReset
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """The committed offsets with their metadata, None where `reset` says where to start.

    Waits for transactions that may still change them (KIP-447), until `deadline` (monotonic seconds); brokers before
    2.5 don't support that, and our producers don't commit the offsets of a member there. Raises BrokerError
    (OFFSET_OUT_OF_RANGE) if nothing was committed and that is an error, RequestTimedOutError, AuthorizationError and
    what else `stable_offsets` raises.
    """
    requested = tuple(partitions)
    if not requested:
        return {}
    committed = await stable_offsets(coordinator, requested, deadline, may_be_old=True)
    missing = [tp for tp, found in committed.items() if found is None]
    if missing and reset.is_error:
        raise BrokerError(
            f"Group {coordinator.key!r} has committed nothing for {named(missing)}, and auto.offset.reset is none.",
            code=ErrorCode.OFFSET_OUT_OF_RANGE,
            hint="Commit the offset to start at, or set auto_offset_reset to earliest or latest.",
        )
    return committed


async def commit_offsets(
    coordinator: Coordinator,
    metadata: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: float,
    *,
    topic_ids: Mapping[TopicPartition, UUID] = MappingProxyType({}),
    tries_max: int | None = None,
) -> None:
    """Commit the next offsets to read; errors that may pass are retried until `deadline` (monotonic seconds).

    Where all have one of `topic_ids`, and the coordinator knows ids (4.1), nothing is committed for other topics of the
    same names: an id that no topic has is an error after a few tries (UNKNOWN_TOPIC_ID). With `tries_max`, any error
    that may pass is raised after so many tries. Some may be committed when it raises: AuthorizationError,
    RequestTimedOutError, and BrokerError with its code, also for REBALANCE_IN_PROGRESS, and where the coordinator has
    fenced the member (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, STALE_MEMBER_EPOCH). `may_be_stored`
    of the error says whether that can be.
    """
    left = dict(offsets)
    sent = 0

    def build(version: int) -> OffsetCommitRequest:
        nonlocal sent
        request = _request(metadata, left, topic_ids, version)
        sent += 1
        return request

    at_most = None if all(tp in topic_ids for tp in offsets) else _FIRST_WITH_IDS - 1
    tries = 0
    last_error: AioprodError | None = None
    while left:
        message = ByVersion(OffsetCommitRequest, build, at_most)
        try:
            response = await coordinator.request(message, deadline=deadline, error_of=_code_for_coordinator)
        except AioprodError as error:
            error.may_be_stored = sent > 0
            if last_error is None or not isinstance(error, RequestTimedOutError):
                raise
            late = RequestTimedOutError(last_error.message)
            late.may_be_stored = error.may_be_stored
            raise late from last_error
        tries += 1
        codes = _codes(response, topic_ids)
        left = {tp: offset for tp, offset in left.items() if codes.get(tp) != ErrorCode.NONE}
        for tp in left:
            last_error = _commit_error(metadata.group_id, tp, codes.get(tp))
            # A request without an answer may have been carried out, and this one in part.
            last_error.may_be_stored = sent > tries or len(left) < len(offsets) or codes.get(tp) in _UNCLEAR
            if tries == tries_max or not _may_pass(codes.get(tp), tries):
                raise last_error
        if left:
            await coordinator.pause(tries - 1, deadline)


def _request(
    metadata: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, UUID],
    version: int,
) -> OffsetCommitRequest:
    if version < _FIRST_STATIC and metadata.group_instance_id is not None:
        raise static_membership_error(metadata.group_id)
    topics: dict[tuple[str, UUID], list[OffsetCommitRequestPartition]] = {}
    for tp, (offset, comment) in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=tp.partition, committed_offset=offset, committed_metadata=comment
        )
        topic_id = topic_ids[tp] if version >= _FIRST_WITH_IDS else ZERO_UUID
        topics.setdefault((tp.topic, topic_id), []).append(row)
    return OffsetCommitRequest(
        group_id=metadata.group_id,
        generation_id_or_member_epoch=metadata.generation_id,
        member_id=metadata.member_id,
        group_instance_id=metadata.group_instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=tuple(rows))
            for (name, topic_id), rows in topics.items()
        ),
    )


def _codes(
    response: OffsetCommitResponse, topic_ids: Mapping[TopicPartition, UUID]
) -> dict[TopicPartition, ErrorCode | int]:
    """The code of each partition; the response to a request by id has no names."""
    names = {topic_id: tp.topic for tp, topic_id in topic_ids.items()}
    return partition_codes(
        replace(topic, name=topic.name or names.get(topic.topic_id, "")) for topic in response.topics
    )


def _code_for_coordinator(response: OffsetCommitResponse) -> int:
    """The first code that is about the coordinator and not about a partition, else NONE."""
    codes = (row.error_code for topic in response.topics for row in topic.partitions)
    return next((code for code in codes if code in COORDINATOR_RETRIABLE), ErrorCode.NONE)


def _may_pass(code: ErrorCode | int | None, tries: int) -> bool:
    """Whether a partition with this code is tried again, after so many tries."""
    is_over = code == ErrorCode.UNKNOWN_TOPIC_ID and tries >= _UNKNOWN_ID_TRIES
    return isinstance(code, ErrorCode) and code.retriable and not is_over


def _commit_error(group: str, tp: TopicPartition, code: ErrorCode | int | None) -> AioprodError:
    what = f"Group {group!r} could not commit for {named([tp])}"
    if code is None:
        return ProtocolError(f"{what}: its coordinator left it out of the response.")
    rights = [Right("READ", "topic", tp.topic), Right("READ", "group", group)]
    return group_error(what, code, rights, _HINTS.get(code))
