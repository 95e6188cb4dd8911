"""The two requests that change leaders, declared here because aioprod itself does not use them.

AlterPartitionReassignments (key 45) and ElectLeaders (key 43), in their first flexible versions.
"""

from __future__ import annotations

from aioprod.wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = [
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "ElectionPartitions",
    "ReassignedPartition",
    "ReassignedTopic",
]


class ReassignmentOfPartition(Struct):
    """What became of one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")


class ReassignmentOfTopic(Struct):
    """What became of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ReassignmentOfPartition, ...] = wire(array(ReassignmentOfPartition))


class AlterPartitionReassignmentsResponse(Response):
    """An error of all, or of each partition."""

    API_KEY = 45
    NAME = "AlterPartitionReassignments"
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
    responses: tuple[ReassignmentOfTopic, ...] = wire(array(ReassignmentOfTopic))


class ReassignedPartition(Struct):
    """The replicas that a partition is to have, its preferred leader first."""

    partition_index: int = wire(INT32)
    replicas: tuple[int, ...] | None = wire(array(INT32), nullable="0+", default=None)


class ReassignedTopic(Struct):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ReassignedPartition, ...] = wire(array(ReassignedPartition))


class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """Where replicas are to be."""

    API_KEY = 45
    NAME = "AlterPartitionReassignments"
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    RESPONSE = AlterPartitionReassignmentsResponse

    timeout_ms: int = wire(INT32, default=10_000)
    topics: tuple[ReassignedTopic, ...] = wire(array(ReassignedTopic))


class ElectionOfPartition(Struct):
    """What became of one partition; error 84 is that its preferred leader leads already."""

    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")


class ElectionOfTopic(Struct):
    """What became of one topic."""

    topic: str = wire(STRING)
    partition_result: tuple[ElectionOfPartition, ...] = wire(array(ElectionOfPartition))


class ElectLeadersResponse(Response):
    """An error of all, or of each partition."""

    API_KEY = 43
    NAME = "ElectLeaders"
    VERSIONS = (2, 2)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    replica_election_results: tuple[ElectionOfTopic, ...] = wire(array(ElectionOfTopic))


class ElectionPartitions(Struct):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """Partitions to be led by their preferred leaders (type 0)."""

    API_KEY = 43
    NAME = "ElectLeaders"
    VERSIONS = (2, 2)
    FLEXIBLE = 2
    RESPONSE = ElectLeadersResponse

    election_type: int = wire(INT8)
    topic_partitions: tuple[ElectionPartitions, ...] | None = wire(array(ElectionPartitions), nullable="0+")
    timeout_ms: int = wire(INT32, default=10_000)
