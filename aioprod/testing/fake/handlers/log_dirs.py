"""How a fake broker answers DescribeLogDirs and DeleteRecords."""

from __future__ import annotations

from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from aioprod.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsTopicResult,
)
from aioprod.messages.describe_log_dirs import DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.topics import led_partition
from aioprod.types import TopicPartition

__all__ = ["delete_records", "describe_log_dirs"]

_VOLUME: Final = 1 << 40
_ALL: Final = -1


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Answer the one folder of this broker, with the partitions that it leads: no other broker has a replica."""
    if error := call.fault.error or call.denied("DESCRIBE", "cluster", CLUSTER):
        return DescribeLogDirsResponse(error_code=error, results=())
    wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    topics = []
    used = 0
    for name, topic in sorted(call.state.topics.items()):
        rows = [
            DescribeLogDirsPartition(
                partition_index=index, partition_size=sum(len(batch.data) for batch in partition.log), offset_lag=0
            )
            for index, partition in enumerate(topic.partitions)
            if partition.leader == call.node_id and (wanted is None or index in wanted.get(name, ()))
        ]
        if rows:
            used += sum(row.partition_size for row in rows)
            topics.append(DescribeLogDirsTopic(name=name, partitions=tuple(rows)))
    folder = DescribeLogDirsResult(
        log_dir="/var/lib/kafka", topics=tuple(topics), total_bytes=_VOLUME, usable_bytes=_VOLUME - used
    )
    return DescribeLogDirsResponse(results=(folder,))


def delete_records(call: Call, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move the start of logs; their batches stay stored, as those of a segment do."""
    topics = tuple(
        DeleteRecordsTopicResult(
            name=topic.name, partitions=tuple(_deleted(call, topic.name, row) for row in topic.partitions)
        )
        for topic in request.topics
    )
    return DeleteRecordsResponse(topics=topics)


def _deleted(call: Call, name: str, row: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    tp = TopicPartition(name, row.partition_index)
    partition = None
    error = call.fault.error_for(tp) or call.denied("DELETE", "topic", name)
    if error == ErrorCode.NONE:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition, error = led_partition(call.state.topics.get(name), tp.partition, call.node_id, unknown)
    if partition is not None:
        offset = partition.next_offset if row.offset == _ALL else row.offset
        if not 0 <= offset <= partition.next_offset:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            # Before the start there is nothing to delete.
            partition.first_offset = max(partition.first_offset, offset)
            return DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=partition.first_offset)
    return DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=-1, error_code=error)
