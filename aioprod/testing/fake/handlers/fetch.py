"""How a fake broker answers Fetch and ListOffsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from aioprod.errors import ErrorCode
from aioprod.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from aioprod.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchPartition, PartitionData
from aioprod.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.fetch_sessions import Key
from aioprod.testing.fake.state.log import FakePartition, Isolation
from aioprod.testing.fake.state.topics import led_partition, replicated_partition
from aioprod.types import TopicPartition

__all__ = ["fetch", "list_offsets"]

_FROM_FOLLOWERS: Final = 11
"""Version of Fetch: followers answer too, and leaders name one that is in the client's rack."""

_BY_ID: Final = 13
"""Version of Fetch: topics have ids in place of names."""

_WITH_EPOCH: Final = 4
"""Version of ListOffsets: answers have the leader epoch of the offset."""

_ISOLATION: Final[tuple[Isolation, Isolation]] = ("read_uncommitted", "read_committed")
"""By its number in requests."""


async def fetch(call: Call, request: FetchRequest) -> FetchResponse:
    """Answer batches from the requested offsets on, as soon as there are `min_bytes` or `max_wait_ms` has passed."""
    timers = call.state.timers
    end = timers.now() + request.max_wait_ms / 1000
    fetched = call.state.fetch_sessions(call.node_id).take(request, by_id=call.version >= _BY_ID)
    if isinstance(fetched, ErrorCode):
        return FetchResponse(error_code=fetched, responses=())
    rows = _read_all(call, request, fetched.rows)
    while timers.now() < end and not _is_enough(rows, request.min_bytes):
        await call.state.wait_for_records(end - timers.now())
        rows = _read_all(call, request, fetched.rows)
    shown = fetched.shown(rows)
    fetched.answered(shown)
    topics: dict[tuple[str, UUID], list[PartitionData]] = {}
    for (name, topic_id, _), row in shown.items():
        topics.setdefault((name, topic_id), []).append(row)
    return FetchResponse(
        session_id=fetched.session_id,
        responses=tuple(
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(found))
            for (name, topic_id), found in topics.items()
        ),
    )


def _read_all(call: Call, request: FetchRequest, rows: Mapping[Key, FetchPartition]) -> dict[Key, PartitionData]:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if call.version >= _BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found: dict[Key, PartitionData] = {}
    for key, row in rows.items():
        name, topic_id, _ = key
        topic = call.state.topics.find(name, topic_id, by_id=call.version >= _BY_ID)
        if call.version >= _FROM_FOLLOWERS:
            partition, error = replicated_partition(topic, row.partition, unknown, row.current_leader_epoch)
        else:
            partition, error = led_partition(topic, row.partition, call.node_id, unknown, row.current_leader_epoch)
        name = topic.name if topic else name
        denied = call.denied("READ", "topic", name) if name else ErrorCode.NONE
        error = denied or call.fault.error_for(TopicPartition(name, row.partition)) or error
        if partition is None or error != ErrorCode.NONE:
            found[key] = _error_row(row, error)
        else:
            found[key] = _read(call, row, partition, request)
    return found


def _is_enough(rows: Mapping[Key, PartitionData], min_bytes: int) -> bool:
    found = sum(len(row.records or b"") for row in rows.values())
    return found >= min_bytes or any(row.error_code or row.preferred_read_replica >= 0 for row in rows.values())


def _read(call: Call, row: FetchPartition, partition: FakePartition, request: FetchRequest) -> PartitionData:
    isolation = _ISOLATION[request.isolation_level]
    replica = partition.replica(call.node_id)
    read_replica = -1
    if call.version >= _FROM_FOLLOWERS and request.rack_id and partition.leader == call.node_id:
        read_replica = call.state.read_replica(partition, request.rack_id, row.fetch_offset)
    if not partition.first_offset <= row.fetch_offset <= replica.log_end:
        return _error_row(row, ErrorCode.OFFSET_OUT_OF_RANGE)
    found, log = bytearray(), partition.log
    end = row.fetch_offset if read_replica >= 0 else min(partition.end_offset(isolation), replica.high_watermark)
    for place in range(bisect_right(log, row.fetch_offset, key=lambda stored: stored.batch.next_offset), len(log)):
        batch, data = log[place]
        if batch.base_offset >= end or (found and len(found) + len(data) > row.partition_max_bytes):
            break
        found += data
    aborted = [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in partition.aborted
        if found and one.last_offset >= row.fetch_offset
    ]
    return PartitionData(
        partition_index=row.partition,
        high_watermark=replica.high_watermark,
        last_stable_offset=min(partition.last_stable_offset, replica.high_watermark),
        log_start_offset=partition.first_offset,
        aborted_transactions=tuple(aborted) if isolation == "read_committed" else None,
        preferred_read_replica=read_replica,
        records=bytes(found),
    )


def _error_row(row: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=row.partition, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer the first or last offset of logs, or the offset of a timestamp."""
    isolation = _ISOLATION[request.isolation_level]
    topics = []
    for wanted in request.topics:
        rows = [_offset(call, wanted.name, row, isolation) for row in wanted.partitions]
        topics.append(ListOffsetsTopicResponse(name=wanted.name, partitions=tuple(rows)))
    return ListOffsetsResponse(topics=tuple(topics))


def _offset(call: Call, name: str, row: ListOffsetsPartition, isolation: Isolation) -> ListOffsetsPartitionResponse:
    topic, unknown = call.state.topics.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition, error = led_partition(topic, row.partition_index, call.node_id, unknown, row.current_leader_epoch)
    injected = call.fault.error_for(TopicPartition(name, row.partition_index))
    error = call.denied("DESCRIBE", "topic", name) or injected or error
    if partition is None or error != ErrorCode.NONE:
        return ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error)
    timestamp, offset = partition.offset_at(row.timestamp, isolation)
    return ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.leader_epoch if offset >= 0 and call.version >= _WITH_EPOCH else -1,
    )
