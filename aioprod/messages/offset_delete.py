"""OffsetDelete (key 47, KIP-496): delete committed offsets of a group, of partitions that no member reads."""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]


class OffsetDeleteResponsePartition(Struct):
    """One partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetDeleteResponseTopic(Struct):
    """The partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[OffsetDeleteResponsePartition, ...] = wire(array(OffsetDeleteResponsePartition))


class OffsetDeleteResponse(Response):
    """The error of the whole request, or the outcome for each partition."""

    API_KEY = 47
    NAME = "OffsetDelete"
    VERSIONS = (0, 0)
    FLEXIBLE = None

    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32)
    topics: tuple[OffsetDeleteResponseTopic, ...] = wire(array(OffsetDeleteResponseTopic))


class OffsetDeleteRequestPartition(Struct):
    """One partition."""

    partition_index: int = wire(INT32)


class OffsetDeleteRequestTopic(Struct):
    """The partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[OffsetDeleteRequestPartition, ...] = wire(array(OffsetDeleteRequestPartition))


class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """The group and the partitions, for its coordinator."""

    API_KEY = 47
    NAME = "OffsetDelete"
    VERSIONS = (0, 0)
    FLEXIBLE = None
    RESPONSE = OffsetDeleteResponse

    group_id: str = wire(STRING)
    topics: tuple[OffsetDeleteRequestTopic, ...] = wire(array(OffsetDeleteRequestTopic))
