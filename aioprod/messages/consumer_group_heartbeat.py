"""ConsumerGroupHeartbeat (key 68): join, stay in and leave a group with the consumer protocol (KIP-848).

Versions: 1 the member makes up its own id (KIP-1082) and may subscribe by a regular expression of the broker's.
Member epochs of a request: 0 joins, -1 leaves, -2 leaves for now as a static member. None means "as before".
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import INT16, INT32, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = ["Assignment", "ConsumerGroupHeartbeatRequest", "ConsumerGroupHeartbeatResponse", "TopicPartitions"]


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID)
    partitions: tuple[int, ...] = wire(array(INT32))


class Assignment(Struct):
    """The partitions that the member shall hold."""

    topic_partitions: tuple[TopicPartitions, ...] = wire(array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(Response):
    """The member's epoch and, where it changed, its assignment."""

    API_KEY = 68
    NAME = "ConsumerGroupHeartbeat"
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+", default=None)
    member_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable="0+", default=None)


class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
    """The member, what it subscribes to and which partitions it holds."""

    API_KEY = 68
    NAME = "ConsumerGroupHeartbeat"
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    RESPONSE = ConsumerGroupHeartbeatResponse

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: tuple[str, ...] | None = wire(array(STRING), nullable="0+", default=None)
    subscribed_topic_regex: str | None = wire(STRING, "1+", nullable="0+", default=None)
    server_assignor: str | None = wire(STRING, nullable="0+", default=None)
    topic_partitions: tuple[TopicPartitions, ...] | None = wire(array(TopicPartitions), nullable="0+", default=None)
