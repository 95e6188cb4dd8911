"""OffsetCommit (key 8): commit a group's offsets.

Versions: 5 no retention time any more; 6 leader epochs; 7 static members (KIP-345); 8 flexible; 9 for groups of the
consumer protocol, too (KIP-848); 10 topic ids in place of names.
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, wire

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]


class OffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetCommitResponseTopic(Struct):
    """The results for one topic."""

    name: str = wire(STRING, "0-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: tuple[OffsetCommitResponsePartition, ...] = wire(array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Response):
    """Errors by partition."""

    API_KEY = 8
    NAME = "OffsetCommit"
    VERSIONS = (2, 10)
    FLEXIBLE = 8

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = wire(array(OffsetCommitResponseTopic))


class OffsetCommitRequestPartition(Struct):
    """The next offset of one partition."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "6+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, nullable="0+")


class OffsetCommitRequestTopic(Struct):
    """Offsets of one topic, which is named up to version 9 and known by its id from 10 on."""

    name: str = wire(STRING, "0-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: tuple[OffsetCommitRequestPartition, ...] = wire(array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """The next offsets to read. Generation -1 and an empty member are a commit from outside of the group."""

    API_KEY = 8
    NAME = "OffsetCommit"
    VERSIONS = (2, 10)
    FLEXIBLE = 8
    RESPONSE = OffsetCommitResponse

    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, "7+", nullable="0+", default=None)
    retention_time_ms: int = wire(INT64, "2-4", default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = wire(array(OffsetCommitRequestTopic))
