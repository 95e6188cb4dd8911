"""ConsumerGroupDescribe (key 69, KIP-848): the members of groups of the consumer protocol, by their coordinator.

Versions: 1 the kind of each member (KIP-1099).
"""

from __future__ import annotations

import uuid
from typing import Final

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = [
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "DescribedAssignment",
    "DescribedConsumerGroup",
    "DescribedConsumerGroupMember",
    "DescribedTopicPartitions",
]

_UNKNOWN_OPERATIONS: Final = -(2**31)


class DescribedTopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class DescribedAssignment(Struct):
    """The partitions of a member, now or as they will be."""

    topic_partitions: tuple[DescribedTopicPartitions, ...] = wire(array(DescribedTopicPartitions))


class DescribedConsumerGroupMember(Struct):
    """One member."""

    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable="0+", default=None)
    rack_id: str | None = wire(STRING, nullable="0+", default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(TEXT)
    client_host: str = wire(TEXT)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable="0+", default=None)
    assignment: DescribedAssignment = wire(DescribedAssignment)
    target_assignment: DescribedAssignment = wire(DescribedAssignment)
    member_type: int = wire(INT8, "1+", default=-1, ignorable=True)
    """0 for the classic protocol, 1 for the consumer protocol, -1 for unknown."""


class DescribedConsumerGroup(Struct):
    """One group."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+", default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(TEXT)
    members: tuple[DescribedConsumerGroupMember, ...] = wire(array(DescribedConsumerGroupMember))
    authorized_operations: int = wire(INT32, default=_UNKNOWN_OPERATIONS)


class ConsumerGroupDescribeResponse(Response):
    """The groups that were named."""

    API_KEY = 69
    NAME = "ConsumerGroupDescribe"
    VERSIONS = (0, 1)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    groups: tuple[DescribedConsumerGroup, ...] = wire(array(DescribedConsumerGroup))


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """The names of groups that the broker coordinates."""

    API_KEY = 69
    NAME = "ConsumerGroupDescribe"
    VERSIONS = (0, 1)
    FLEXIBLE = 0
    RESPONSE = ConsumerGroupDescribeResponse

    group_ids: tuple[str, ...] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, default=False)
