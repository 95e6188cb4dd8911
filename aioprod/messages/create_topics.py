"""CreateTopics (key 19): create topics.

Versions: 4 takes -1 for the broker's own partition count and replication factor (KIP-464); 5 flexible, and describes
what was created (KIP-525); 7 topic ids.
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]


class CreatableTopicConfigs(Struct):
    """A setting that the topic has."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)


class CreatableTopicResult(Struct):
    """One topic: an error, or what was created."""

    name: str = wire(STRING)
    topic_id: uuid.UUID = wire(UUID, "7+", ignorable=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")
    topic_config_error_code: int = wire(INT16, "5+", tag=0, ignorable=True)
    num_partitions: int = wire(INT32, "5+", default=-1, ignorable=True)
    replication_factor: int = wire(INT16, "5+", default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = wire(
        array(CreatableTopicConfigs), "5+", nullable="0+", ignorable=True
    )
    """None where they may not be seen."""


class CreateTopicsResponse(Response):
    """The outcome for each topic."""

    API_KEY = 19
    NAME = "CreateTopics"
    VERSIONS = (2, 7)
    FLEXIBLE = 5

    throttle_time_ms: int = wire(INT32)
    topics: tuple[CreatableTopicResult, ...] = wire(array(CreatableTopicResult))


class CreatableReplicaAssignment(Struct):
    """The brokers of one partition, its preferred leader first."""

    partition_index: int = wire(INT32)
    broker_ids: tuple[int, ...] = wire(array(INT32))


class CreatableTopicConfig(Struct):
    """A setting of the new topic."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")


class CreatableTopic(Struct):
    """A topic."""

    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: tuple[CreatableReplicaAssignment, ...] = wire(array(CreatableReplicaAssignment))
    """They place its replicas by hand; then the two counts must be -1."""
    configs: tuple[CreatableTopicConfig, ...] = wire(array(CreatableTopicConfig))


class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """Topics to create."""

    API_KEY = 19
    NAME = "CreateTopics"
    VERSIONS = (2, 7)
    FLEXIBLE = 5
    RESPONSE = CreateTopicsResponse

    topics: tuple[CreatableTopic, ...] = wire(array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60_000)
    validate_only: bool = wire(BOOL)
    """Only check whether that would work."""
