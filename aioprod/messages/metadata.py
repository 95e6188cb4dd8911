"""Metadata (key 3): brokers, topics, partitions and their leaders.

Versions: 1 null topics mean all of them and an empty list none (0: an empty list means all); 4
allow_auto_topic_creation; 7 leader epochs, to be trusted from 9 on (KAFKA-9212); 8 authorized operations; 9 flexible;
10 topic ids in answers; 12 topics may be named by id; 13 an error for the whole answer (KIP-1102).
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import BOOL, INT16, INT32, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = [
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataResponseBroker",
    "MetadataResponsePartition",
    "MetadataResponseTopic",
]


class MetadataResponseBroker(Struct):
    """A broker and where to reach it."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, "1+", nullable="0+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    """A partition."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    """-1 while the partition has no leader."""
    leader_epoch: int = wire(INT32, "7+", default=-1, ignorable=True)
    replica_nodes: tuple[int, ...] = wire(array(INT32))
    isr_nodes: tuple[int, ...] = wire(array(INT32))
    offline_replicas: tuple[int, ...] = wire(array(INT32), "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    """A topic or the reason why it is not described. The name is None if the request named an unknown id."""

    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable="12+")
    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    is_internal: bool = wire(BOOL, "1+", ignorable=True)
    partitions: tuple[MetadataResponsePartition, ...] = wire(array(MetadataResponsePartition))
    topic_authorized_operations: int = wire(INT32, "8+", default=-0x8000_0000)


class MetadataResponse(Response):
    """The cluster as one broker sees it. Authorized operations are bits, at their default if not requested."""

    API_KEY = 3
    NAME = "Metadata"
    VERSIONS = (0, 13)
    FLEXIBLE = 9

    throttle_time_ms: int = wire(INT32, "3+", ignorable=True)
    brokers: tuple[MetadataResponseBroker, ...] = wire(array(MetadataResponseBroker))
    cluster_id: str | None = wire(TEXT, "2+", nullable="0+", default=None, ignorable=True)
    controller_id: int = wire(INT32, "1+", default=-1, ignorable=True)
    topics: tuple[MetadataResponseTopic, ...] = wire(array(MetadataResponseTopic))
    cluster_authorized_operations: int = wire(INT32, "8-10", default=-0x8000_0000)
    error_code: int = wire(INT16, "13+", ignorable=True)


class MetadataRequestTopic(Struct):
    """One topic, by name or from version 12 on by id."""

    topic_id: uuid.UUID = wire(UUID, "10+", ignorable=True)
    name: str | None = wire(STRING, nullable="10+")


class MetadataRequest(Request[MetadataResponse]):
    """Which topics to describe, None for all of them."""

    API_KEY = 3
    NAME = "Metadata"
    VERSIONS = (0, 13)
    FLEXIBLE = 9
    RESPONSE = MetadataResponse

    topics: tuple[MetadataRequestTopic, ...] | None = wire(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = wire(BOOL, "4+", default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, "8-10")
    include_topic_authorized_operations: bool = wire(BOOL, "8+")
