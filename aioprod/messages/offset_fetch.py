"""OffsetFetch (key 9): which offsets a group has committed.

Versions: 2 null topics mean all; 5 leader epochs; 6 flexible; 7 require_stable waits for running transactions
(KIP-447); 8 many groups at once (KIP-709), `groups` in place of `group_id` and `topics`; 9 member and its epoch
(KIP-848); 10 topic ids in place of names.
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, wire

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


class OffsetFetchResponsePartition(Struct):
    """The next offset of one partition, -1 if none is committed (up to version 7)."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "5-7", default=-1, ignorable=True)
    metadata: str | None = wire(STRING, nullable="0+")
    error_code: int = wire(INT16)


class OffsetFetchResponseTopic(Struct):
    """Offsets of one topic (up to version 7)."""

    name: str = wire(STRING)
    partitions: tuple[OffsetFetchResponsePartition, ...] = wire(array(OffsetFetchResponsePartition))


class OffsetFetchResponsePartitions(Struct):
    """The next offset of one partition, -1 if none is committed (from version 8 on)."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, default=-1)
    metadata: str | None = wire(STRING, nullable="0+")
    error_code: int = wire(INT16)


class OffsetFetchResponseTopics(Struct):
    """Offsets of one topic (from version 8 on), which is known by its id from 10 on."""

    name: str = wire(STRING, "8-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partitions: tuple[OffsetFetchResponsePartitions, ...] = wire(array(OffsetFetchResponsePartitions))


class OffsetFetchResponseGroup(Struct):
    """The offsets of one group."""

    group_id: str = wire(STRING)
    topics: tuple[OffsetFetchResponseTopics, ...] = wire(array(OffsetFetchResponseTopics))
    error_code: int = wire(INT16)


class OffsetFetchResponse(Response):
    """One group's offsets up to version 7, `groups` from 8 on."""

    API_KEY = 9
    NAME = "OffsetFetch"
    VERSIONS = (1, 10)
    FLEXIBLE = 6

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = wire(array(OffsetFetchResponseTopic), "0-7")
    error_code: int = wire(INT16, "2-7", ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = wire(array(OffsetFetchResponseGroup), "8+")


class OffsetFetchRequestTopic(Struct):
    """Partitions of one topic (up to version 7)."""

    name: str = wire(STRING)
    partition_indexes: tuple[int, ...] = wire(array(INT32))


class OffsetFetchRequestTopics(Struct):
    """Partitions of one topic (from version 8 on), which is known by its id from 10 on."""

    name: str = wire(STRING, "8-9", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    partition_indexes: tuple[int, ...] = wire(array(INT32))


class OffsetFetchRequestGroup(Struct):
    """One group; topics None for all."""

    group_id: str = wire(STRING)
    member_id: str | None = wire(STRING, "9+", nullable="0+", default=None, ignorable=True)
    member_epoch: int = wire(INT32, "9+", default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = wire(array(OffsetFetchRequestTopics), nullable="0+")


class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """The groups and topics: `group_id` and `topics` up to version 7, `groups` from 8 on; topics None for all."""

    API_KEY = 9
    NAME = "OffsetFetch"
    VERSIONS = (1, 10)
    FLEXIBLE = 6
    RESPONSE = OffsetFetchResponse

    group_id: str = wire(STRING, "0-7")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = wire(array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: tuple[OffsetFetchRequestGroup, ...] = wire(array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = wire(BOOL, "7+")
