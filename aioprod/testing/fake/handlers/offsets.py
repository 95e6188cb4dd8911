"""How a fake broker answers OffsetCommit, TxnOffsetCommit and OffsetFetch."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from aioprod._authorization_errors import DENIAL_CODES
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
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aioprod.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aioprod.messages.txn_offset_commit import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.transactions import TransactionWriter, add_or_verify
from aioprod.testing.fake.state.groups import Committed, Committer, FakeGroup
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID

__all__ = ["offset_commit", "offset_fetch", "txn_offset_commit"]

RowT = TypeVar("RowT")

_COMMIT_BY_EPOCH: Final = 9
"""Version of OffsetCommit: members of KIP-848 groups may use it."""

_COMMIT_BY_ID: Final = 10
"""Version of OffsetCommit: topics have ids in place of names."""

_FETCH_GROUPS: Final = 8
"""Version of OffsetFetch: several groups in one request."""

_FETCH_BY_ID: Final = 10
"""Version of OffsetFetch: topics have ids in place of names."""

_ADDS_IMPLICITLY: Final = 5
"""Version of TxnOffsetCommit: the request adds the group to the transaction implicitly (KIP-890)."""

_ABORTABLE: Final = 4
"""Version of TxnOffsetCommit: the response may have TRANSACTION_ABORTABLE."""

_TXN_COMMIT_BY_ID: Final = 6
"""Version of TxnOffsetCommit: topics have ids in place of names (KIP-1319)."""

_NOTHING: Final = Committed(-1)


# --- OffsetCommit and TxnOffsetCommit


def offset_commit(call: Call, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit offsets of a group."""
    group_id = request.group_id
    committer = Committer(
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        is_transactional=False,
        is_before_kip848=call.version < _COMMIT_BY_EPOCH,
    )
    error = (
        call.denied("READ", "group", group_id)
        or call.misdirected(group_id)
        or call.state.groups.commit_error(group_id, committer)
    )

    def store(tp: TopicPartition, committed: Committed) -> None:
        call.state.groups[group_id].commit(tp, committed)

    topics = []
    for sent in request.topics:
        name, unknown = _topic(call, sent, by_id=call.version >= _COMMIT_BY_ID)
        rows = [
            OffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=_commit(call, name, row, error, unknown, store)
            )
            for row in sent.partitions
        ]
        topics.append(OffsetCommitResponseTopic(name=sent.name, topic_id=sent.topic_id, partitions=tuple(rows)))
    return OffsetCommitResponse(topics=tuple(topics))


def txn_offset_commit(call: Call, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Add offsets of a group to a transaction; they count when it commits."""
    group_id = request.group_id
    committer = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, is_transactional=True
    )
    error = (
        call.denied("WRITE", "transactional_id", request.transactional_id)
        or call.denied("READ", "group", group_id)
        or call.misdirected(group_id)
        or _add_or_verify(call, request)
        or call.state.groups.commit_error(group_id, committer)
    )
    if not error:
        call.state.groups[group_id].pending.setdefault(request.producer_id, {})

    def store(tp: TopicPartition, committed: Committed) -> None:
        call.state.groups[group_id].commit_in_transaction(request.producer_id, tp, committed)

    topics = []
    for sent in request.topics:
        name, unknown = _topic(call, sent, by_id=call.version >= _TXN_COMMIT_BY_ID)
        rows = [
            TxnOffsetCommitResponsePartition(
                partition_index=row.partition_index, error_code=_commit(call, name, row, error, unknown, store)
            )
            for row in sent.partitions
        ]
        topics.append(TxnOffsetCommitResponseTopic(name=sent.name, topic_id=sent.topic_id, partitions=tuple(rows)))
    return TxnOffsetCommitResponse(topics=tuple(topics))


def _topic(
    call: Call, sent: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic, *, by_id: bool
) -> tuple[str, ErrorCode]:
    """The name of a topic that a request has, and the error of its partitions if it does not exist."""
    topic = call.state.topics.find(sent.name, sent.topic_id, by_id=by_id)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return (topic.name if topic else sent.name), unknown


def _add_or_verify(call: Call, request: TxnOffsetCommitRequest) -> ErrorCode:
    writer = TransactionWriter(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        adds_implicitly=call.version >= _ADDS_IMPLICITLY,
    )
    error = add_or_verify(call.state, writer, group=request.group_id)
    if error == ErrorCode.TRANSACTION_ABORTABLE and call.version < _ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and not writer.adds_implicitly:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error


def _commit(
    call: Call,
    name: str,
    row: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    error: ErrorCode,
    unknown: ErrorCode,
    store: Callable[[TopicPartition, Committed], None],
) -> ErrorCode:
    """Store one offset by `store` unless there is an error, which is returned; `error` is that of the whole group."""
    tp = TopicPartition(name, row.partition_index)
    if error in DENIAL_CODES.values():
        return error
    if denied := call.denied("READ", "topic", name):
        error = denied
    elif call.state.topics.partition(tp) is None:
        error = unknown
    elif error == ErrorCode.NONE and len(row.committed_metadata or "") > call.state.offset_metadata_max_bytes:
        error = ErrorCode.OFFSET_METADATA_TOO_LARGE
    injected = call.fault.error_for(tp)
    if error == ErrorCode.NONE and (injected == ErrorCode.NONE or call.fault.apply):
        store(tp, Committed(row.committed_offset, row.committed_leader_epoch, row.committed_metadata))
    return injected or error


# --- OffsetFetch


class TopicQuery(NamedTuple):
    """One requested topic; `is_known` is False for an id that no topic has."""

    name: str
    topic_id: uuid.UUID
    indexes: Sequence[int]
    is_known: bool = True


def offset_fetch(call: Call, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """Answer the offsets that groups have committed."""
    if call.version >= _FETCH_GROUPS:
        groups = [_group(call, wanted, stable=request.require_stable) for wanted in request.groups]
        return OffsetFetchResponse(groups=tuple(groups))
    error = _group_error(call, request.group_id)
    if error != ErrorCode.NONE:
        return OffsetFetchResponse(error_code=error)
    group = call.state.groups.get(request.group_id, FakeGroup())
    queries = _all_of(call, group)
    if request.topics is not None:
        queries = [TopicQuery(one.name, ZERO_UUID, one.partition_indexes) for one in request.topics]
    topics = [
        OffsetFetchResponseTopic(
            name=one.name,
            partitions=_rows(OffsetFetchResponsePartition, call, group, one, stable=request.require_stable),
        )
        for one in queries
    ]
    return OffsetFetchResponse(topics=tuple(topics))


def _group(call: Call, request: OffsetFetchRequestGroup, *, stable: bool) -> OffsetFetchResponseGroup:
    error = _group_error(call, request.group_id)
    if error != ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    group = call.state.groups.get(request.group_id, FakeGroup())
    error = group.fetch_error(request.member_id, request.member_epoch)
    if error != ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
    queries = _all_of(call, group) if request.topics is None else [_named(call, one) for one in request.topics]
    topics = [
        OffsetFetchResponseTopics(
            name=one.name,
            topic_id=one.topic_id,
            partitions=_rows(OffsetFetchResponsePartitions, call, group, one, stable=stable),
        )
        for one in queries
    ]
    return OffsetFetchResponseGroup(group_id=request.group_id, topics=tuple(topics))


def _group_error(call: Call, group_id: str) -> ErrorCode:
    """The error for a whole group, NONE if there is none."""
    injected = call.fault.error if call.fault.partition is None else ErrorCode.NONE
    return call.denied("DESCRIBE", "group", group_id) or injected or call.misdirected(group_id)


def _named(call: Call, wanted: OffsetFetchRequestTopics) -> TopicQuery:
    if call.version < _FETCH_BY_ID:
        return TopicQuery(wanted.name, ZERO_UUID, wanted.partition_indexes)
    topic = call.state.topics.find("", wanted.topic_id, by_id=True)
    return TopicQuery(
        topic.name if topic else "", wanted.topic_id, wanted.partition_indexes, is_known=topic is not None
    )


def _all_of(call: Call, group: FakeGroup) -> list[TopicQuery]:
    """All topics and partitions that a group has offsets for and that the client may see."""
    known: dict[str, list[int]] = {}
    for tp in sorted(group.offsets):
        known.setdefault(tp.topic, []).append(tp.partition)
    topics = call.state.topics
    return [
        TopicQuery(name, topics[name].id, indexes)
        for name, indexes in known.items()
        if name in topics and not call.denied("DESCRIBE", "topic", name)
    ]


def _rows(
    row: Callable[..., RowT], call: Call, group: FakeGroup, query: TopicQuery, *, stable: bool
) -> tuple[RowT, ...]:
    """The response's rows for the partitions of one topic."""
    rows = []
    for index in query.indexes:
        known, error = _NOTHING, ErrorCode.UNKNOWN_TOPIC_ID
        if query.is_known:
            known, error = _committed(call, group, TopicPartition(query.name, index), stable=stable)
        rows.append(
            row(
                partition_index=index,
                committed_offset=known.offset,
                committed_leader_epoch=known.leader_epoch,
                metadata=known.metadata,
                error_code=error,
            )
        )
    return tuple(rows)


def _committed(call: Call, group: FakeGroup, tp: TopicPartition, *, stable: bool) -> tuple[Committed, ErrorCode]:
    error = call.denied("DESCRIBE", "topic", tp.topic) or call.fault.error_for(tp)
    if error != ErrorCode.NONE:
        return _NOTHING, error
    if stable and group.is_unstable(tp):
        return _NOTHING, ErrorCode.UNSTABLE_OFFSET_COMMIT
    return group.offsets.get(tp, _NOTHING), ErrorCode.NONE
