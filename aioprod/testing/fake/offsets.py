"""How a fake broker answers OffsetCommit, TxnOffsetCommit and OffsetFetch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from aioprod.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aioprod.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aioprod.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aioprod.testing.fake.groups import METADATA_MAX, Committed, FakeGroup
from aioprod.testing.fake.joining import Writer, join
from aioprod.testing.fake.state import Call
from aioprod.types import TopicPartition

__all__ = ["offset_commit", "offset_fetch", "txn_offset_commit"]

COMMIT_BY_ID: Final = 10
"""Version of OffsetCommit: topics have ids in place of names."""

FETCH_GROUPS: Final = 8
"""Version of OffsetFetch: many groups in one request."""

FETCH_BY_ID: Final = 10
"""Version of OffsetFetch: topics have ids in place of names."""

JOINS: Final = 5
"""Version of TxnOffsetCommit: offsets join their transaction by themselves."""

ABORTABLE: Final = 4
"""Version of TxnOffsetCommit: may be answered with TRANSACTION_ABORTABLE."""

NOTHING: Final = Committed(-1)


# -- commit ----------------------------------------------------------------------------------------------------------


def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit offsets outside of transactions."""
    group_id = request.group_id
    error = call.misdirected(group_id) or call.state.groups.refusal(
        group_id, request.member_id, request.generation_id_or_member_epoch, transactional=False
    )
    offsets = {} if error else call.state.groups[group_id].offsets
    topics = []
    for sent in request.topics:
        topic = call.state.topics.find(sent.name, sent.topic_id, by_id=call.version >= COMMIT_BY_ID)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is None and call.version >= COMMIT_BY_ID:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name if topic else sent.name
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=_commit(call, name, row, error, unknown, offsets)
            )
            for row in sent.partitions
        ]
        topics.append(OffsetCommitResponseTopic(name=sent.name, topic_id=sent.topic_id, partitions=tuple(rows)))
    return OffsetCommitResponse(topics=tuple(topics))


def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Commit offsets with a transaction."""
    group_id = request.group_id
    error = (
        call.misdirected(group_id)
        or _join(call, request)
        or call.state.groups.refusal(group_id, request.member_id, request.generation_id, transactional=True)
    )
    offsets = {} if error else call.state.groups[group_id].pending.setdefault(request.producer_id, {})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for sent in request.topics:
        rows = [
            TxnOffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=_commit(call, sent.name, row, error, unknown, offsets)
            )
            for row in sent.partitions
        ]
        topics.append(TxnOffsetCommitResponseTopic(name=sent.name, partitions=tuple(rows)))
    return TxnOffsetCommitResponse(topics=tuple(topics))


def _join(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode:
    writer = Writer(request.transactional_id, request.producer_id, request.producer_epoch, joins=call.version >= JOINS)
    error = join(call.state, writer, group=request.group_id)
    if error == ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and not writer.joins:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _commit(
    call: Call,
    name: str,
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    error: ErrorCode,
    unknown: ErrorCode,
    offsets: dict[TopicPartition, Committed],
) -> ErrorCode:
    """Put one offset into `offsets` unless `error` or anything else speaks against it; returns what."""
    tp = TopicPartition(name, row.partition_index)
    if call.state.topics.partition(tp) is None:
        error = unknown
    elif error == ErrorCode.NONE and len(row.committed_metadata or "") > METADATA_MAX:
        error = ErrorCode.OFFSET_METADATA_TOO_LARGE
    wanted = call.fault.error_for(tp)
    if error == ErrorCode.NONE and (wanted == ErrorCode.NONE or call.fault.apply):
        offsets[tp] = Committed(row.committed_offset, row.committed_leader_epoch, row.committed_metadata)
    return wanted or error


# -- fetch -----------------------------------------------------------------------------------------------------------


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """What groups have committed."""
    if call.version >= FETCH_GROUPS:
        groups = [_group(call, asked, stable=request.require_stable) for asked in request.groups]
        return OffsetFetchResponse(groups=tuple(groups))
    group_id = request.group_id
    error = _group_error(call, group_id)
    if error != ErrorCode.NONE:
        return OffsetFetchResponse(error_code=error)
    group = call.state.groups.get(group_id, FakeGroup())
    asked = None if request.topics is None else [(one.name, one.partition_indexes) for one in request.topics]
    topics = []
    for name, indexes in _wanted(group, asked):
        rows = []
        for index in indexes:
            known, refusal = _look_up(call, group, TopicPartition(name, index), stable=request.require_stable)
            rows.append(
                OffsetFetchResponsePartition(
                    partition_index=index,
                    committed_offset=known.offset,
                    committed_leader_epoch=known.leader_epoch,
                    metadata=known.metadata,
                    error_code=refusal,
                )
            )
        topics.append(OffsetFetchResponseTopic(name=name, partitions=tuple(rows)))
    return OffsetFetchResponse(topics=tuple(topics))


def _group(call: Call, request: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    error = _group_error(call, request.group_id)
    if error != ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    group = call.state.groups.get(request.group_id, FakeGroup())
    names = call.state.topics
    asked = None
    if request.topics is not None:
        found = [(names.find(one.name, one.topic_id, by_id=call.version >= FETCH_BY_ID), one) for one in request.topics]
        asked = [(topic.name if topic else one.name, one.partition_indexes) for topic, one in found]
    topics = []
    for name, indexes in _wanted(group, asked):
        rows = []
        for index in indexes:
            known, refusal = _look_up(call, group, TopicPartition(name, index), stable=stable)
            rows.append(
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=known.offset,
                    committed_leader_epoch=known.leader_epoch,
                    metadata=known.metadata,
                    error_code=refusal,
                )
            )
        topic = call.state.topics.get(name)
        fields = {} if topic is None else {"topic_id": topic.id}
        topics.append(OffsetFetchResponseTopics(name=name, partitions=tuple(rows), **fields))
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=tuple(topics))


def _group_error(call: Call, group_id: str) -> ErrorCode:
    """What speaks against looking into a group at all."""
    wanted = call.fault.error if call.fault.partition is None else ErrorCode.NONE
    return wanted or call.misdirected(group_id)


def _wanted(group: FakeGroup, asked: Iterable[tuple[str, Iterable[int]]] | None) -> Iterable[tuple[str, Iterable[int]]]:
    """Topics with partitions: those that are asked for, or all that the group has offsets for."""
    if asked is not None:
        return asked
    known: dict[str, list[int]] = {}
    for tp in sorted(group.offsets):
        known.setdefault(tp.topic, []).append(tp.partition)
    return known.items()


def _look_up(call: Call, group: FakeGroup, tp: TopicPartition, *, stable: bool) -> tuple[Committed, ErrorCode]:
    wanted = call.fault.error_for(tp)
    if wanted != ErrorCode.NONE:
        return NOTHING, wanted
    if stable and group.is_unstable(tp):
        return NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return group.offsets.get(tp, NOTHING), ErrorCode.NONE
