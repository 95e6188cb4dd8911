"""How a fake broker answers Fetch and ListOffsets."""

from __future__ import annotations

from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from aioprod.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchPartition, PartitionData
from aioprod.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsTopicResponse,
)
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.log import FakePartition, Isolation
from aioprod.testing.fake.state.topics import led_partition
from aioprod.types import TopicPartition

__all__ = ["fetch", "list_offsets"]

BY_ID: Final = 13
"""Version of Fetch: topics have ids in place of names."""

ISOLATION: Final[tuple[Isolation, Isolation]] = ("read_uncommitted", "read_committed")
"""By the number that it has in requests."""


async def fetch(call: Call, request: FetchRequest) -> FetchResponse:
    """The batches from the wanted offsets on, once there are any or the client has waited as long as it wants to."""
    timers = call.state.timers
    end = timers.now() + request.max_wait_ms / 1000
    answer = _fetch(call, request)
    while request.min_bytes and timers.now() < end and not _says_anything(answer):
        await call.state.news(end - timers.now())
        answer = _fetch(call, request)
    return answer


def _fetch(call: Call, request: FetchRequest) -> FetchResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if call.version >= BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topics = []
    for asked in request.topics:
        topic = call.state.topics.find(asked.topic, asked.topic_id, by_id=call.version >= BY_ID)
        rows = []
        for row in asked.partitions:
            partition, error = led_partition(topic, row.partition, call.node_id, unknown, row.current_leader_epoch)
            name = topic.name if topic else asked.topic
            denied = call.denied("READ", "topic", name) if name else ErrorCode.NONE
            error = denied or call.fault.error_for(TopicPartition(name, row.partition)) or error
            if partition is None or error != ErrorCode.NONE:
                rows.append(_refused(row, error))
            else:
                rows.append(_fetched(row, partition, ISOLATION[request.isolation_level]))
        topics.append(FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=tuple(rows)))
    return FetchResponse(responses=tuple(topics))


def _says_anything(answer: FetchResponse) -> bool:
    return any(row.error_code or row.records for topic in answer.responses for row in topic.partitions)


def _fetched(row: FetchPartition, partition: FakePartition, isolation: Isolation) -> PartitionData:
    end = partition.end_offset(isolation)
    if not partition.first_offset <= row.fetch_offset <= partition.next_offset:
        return _refused(row, ErrorCode.OFFSET_OUT_OF_RANGE)
    found = b""
    for batch, data in partition.log:
        if batch.next_offset <= row.fetch_offset or batch.base_offset >= end:
            continue
        if found and len(found) + len(data) > row.partition_max_bytes:
            break
        found += data
    aborted = [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in partition.aborted
        if found and one.last_offset >= row.fetch_offset
    ]
    return PartitionData(
        partition_index=row.partition,
        high_watermark=partition.next_offset,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.first_offset,
        aborted_transactions=tuple(aborted) if isolation == "read_committed" else None,
        records=found,
    )


def _refused(row: FetchPartition, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=row.partition, error_code=error, high_watermark=-1, aborted_transactions=None, records=b""
    )


def list_offsets(call: Call, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Where logs begin and end, and which offset a time has."""
    isolation = ISOLATION[request.isolation_level]
    topics = []
    for asked in request.topics:
        rows = [_offset(call, asked.name, row, isolation) for row in asked.partitions]
        topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=tuple(rows)))
    return ListOffsetsResponse(topics=tuple(topics))


def _offset(call: Call, name: str, row: ListOffsetsPartition, isolation: Isolation) -> ListOffsetsPartitionResponse:
    topic, unknown = call.state.topics.get(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition, error = led_partition(topic, row.partition_index, call.node_id, unknown, row.current_leader_epoch)
    wanted = call.fault.error_for(TopicPartition(name, row.partition_index))
    error = call.denied("DESCRIBE", "topic", name) or wanted or error
    if partition is None or error != ErrorCode.NONE:
        return ListOffsetsPartitionResponse(partition_index=row.partition_index, error_code=error)
    timestamp, offset = partition.offset_at(row.timestamp, isolation)
    return ListOffsetsPartitionResponse(
        partition_index=row.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.leader_epoch if offset >= 0 else -1,
    )
