"""DeleteRecords (key 21): delete the records of partitions before an offset, by their leader (KIP-107).

Versions: 2 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = [
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
]


class DeleteRecordsPartitionResult(Struct):
    """The first offset that all replicas still have, -1 with an error."""

    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


class DeleteRecordsTopicResult(Struct):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[DeleteRecordsPartitionResult, ...] = wire(array(DeleteRecordsPartitionResult))


class DeleteRecordsResponse(Response):
    """The partitions that were named."""

    API_KEY = 21
    NAME = "DeleteRecords"
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32, ignorable=True)
    topics: tuple[DeleteRecordsTopicResult, ...] = wire(array(DeleteRecordsTopicResult))


class DeleteRecordsPartition(Struct):
    """The first offset to keep, -1 to keep what is not replicated yet only."""

    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


class DeleteRecordsTopic(Struct):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[DeleteRecordsPartition, ...] = wire(array(DeleteRecordsPartition))


class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """The partitions."""

    API_KEY = 21
    NAME = "DeleteRecords"
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    RESPONSE = DeleteRecordsResponse

    topics: tuple[DeleteRecordsTopic, ...] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)
