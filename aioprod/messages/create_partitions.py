"""CreatePartitions (key 37): more partitions for topics.

Versions: 2 flexible; 3 may be answered with THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]


class CreatePartitionsTopicResult(Struct):
    """The outcome for one topic."""

    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+", default=None)


class CreatePartitionsResponse(Response):
    """The outcome for each topic."""

    API_KEY = 37
    NAME = "CreatePartitions"
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    results: tuple[CreatePartitionsTopicResult, ...] = wire(array(CreatePartitionsTopicResult))


class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition."""

    broker_ids: tuple[int, ...] = wire(array(INT32))


class CreatePartitionsTopic(Struct):
    """A topic and how many partitions it shall have in all; assignments None to have the brokers choose."""

    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = wire(array(CreatePartitionsAssignment), nullable="0+")


class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """The topics that shall grow."""

    API_KEY = 37
    NAME = "CreatePartitions"
    VERSIONS = (0, 3)
    FLEXIBLE = 2
    RESPONSE = CreatePartitionsResponse

    topics: tuple[CreatePartitionsTopic, ...] = wire(array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)
