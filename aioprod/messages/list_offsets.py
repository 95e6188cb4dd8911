"""ListOffsets (key 2): which offset a partition has at a time, or at its start or end.

Versions: 2 isolation level (1: read_committed); 4 leader epochs; 6 flexible; 7 the timestamp -3 (KIP-734); 8 -4
(KIP-405); 9 -5 (KIP-1005); 10 a timeout (KIP-1075); 11 -6 (KIP-1023).
Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp, -4 earliest on the broker's own
disk, -5 latest in remote storage, -6 earliest not yet in remote storage.
"""

from __future__ import annotations

from aioprod.wire.schema import INT8, INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]


class ListOffsetsPartitionResponse(Struct):
    """The first offset at or after the given time, -1 if there is none."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, default=-1)
    offset: int = wire(INT64, default=-1)
    leader_epoch: int = wire(INT32, "4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The offsets of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ListOffsetsPartitionResponse, ...] = wire(array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Response):
    """Offsets by partition."""

    API_KEY = 2
    NAME = "ListOffsets"
    VERSIONS = (1, 11)
    FLEXIBLE = 6

    throttle_time_ms: int = wire(INT32, "2+", ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = wire(array(ListOffsetsTopicResponse))


class ListOffsetsPartition(Struct):
    """The time to look up in one partition, in milliseconds or special."""

    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, "4+", default=-1, ignorable=True)
    timestamp: int = wire(INT64)


class ListOffsetsTopic(Struct):
    """What to look up in one topic."""

    name: str = wire(STRING)
    partitions: tuple[ListOffsetsPartition, ...] = wire(array(ListOffsetsPartition))


class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """Times to look up."""

    API_KEY = 2
    NAME = "ListOffsets"
    VERSIONS = (1, 11)
    FLEXIBLE = 6
    RESPONSE = ListOffsetsResponse

    replica_id: int = wire(INT32)
    """-1 for clients."""
    isolation_level: int = wire(INT8, "2+")
    topics: tuple[ListOffsetsTopic, ...] = wire(array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, "10+", ignorable=True)
