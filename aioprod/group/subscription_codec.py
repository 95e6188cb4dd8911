"""Encodes subscriptions and assignments, which the brokers of a classic group pass between its members as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from aioprod.cluster.names import topic_name_error
from aioprod.errors import ProtocolError
from aioprod.group.assignors import Subscription
from aioprod.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    PartitionsOfTopic,
)
from aioprod.types import TopicPartition
from aioprod.wire.buffer import Buffer, Reader, Writer
from aioprod.wire.codec import decode, encode_into
from aioprod.wire.schema import Message

__all__ = ["check_count", "decode_assignment", "decode_subscription", "encode_assignment", "encode_subscription"]

_ASSIGNED_MAX: Final = 100_000
"""The most partitions of one member. They are taken over in one step, which takes about a microsecond for each."""

MessageT = TypeVar("MessageT", bound=Message)


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """A subscription as Java sends it: sorted, and in the newest version.

    Older readers understand the beginning of that.
    """
    message = ConsumerProtocolSubscription(
        topics=tuple(sorted(subscription.topics)),
        user_data=subscription.user_data,
        owned_partitions=_by_topic(sorted(subscription.owned)),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _encoded(message, version)


def decode_subscription(data: Buffer, group_instance_id: str | None = None) -> Subscription:
    """The subscription of a member; `group_instance_id` comes from JoinGroup itself. Raises ProtocolError."""
    message = _decoded(ConsumerProtocolSubscription, data)
    _check_topics(message, message.topics, message.owned_partitions)
    return Subscription(
        message.topics,
        owned=_flat(message.owned_partitions),
        generation=message.generation_id,
        rack=message.rack_id,
        user_data=message.user_data,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], version: int = 3) -> bytes:
    """The assignment of a member."""
    return _encoded(ConsumerProtocolAssignment(assigned_partitions=_by_topic(partitions)), version)


def decode_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """The assignment of a member; no bytes are an empty one. Raises ProtocolError."""
    if not len(data):
        return ()
    message = _decoded(ConsumerProtocolAssignment, data)
    topics = message.assigned_partitions
    check_count(sum(len(one.partitions) for one in topics))
    _check_topics(message, [], topics)
    return _flat(topics)


def check_count(assigned: int) -> None:
    """Raises ProtocolError for more partitions than one member can read."""
    if assigned > _ASSIGNED_MAX:
        raise ProtocolError(f"This member is assigned {assigned:,} partitions, and reads {_ASSIGNED_MAX:,} at most.")


def _encoded(message: Message, version: int) -> bytes:
    writer = Writer()
    writer.int16(version)
    encode_into(writer, message, version)
    return writer.getvalue()


def _decoded(kind: type[MessageT], data: Buffer) -> MessageT:
    """Decode a message.

    A version that is not known here begins with the fields of the newest known one, and is read as that.
    """
    try:
        reader = Reader(data)
        version = reader.int16()
        if version < 0:
            raise ProtocolError(f"its version is {version}.")
        return decode(kind, min(version, kind.VERSIONS[1]), reader.rest())
    except ProtocolError as fault:
        raise _invalid(kind.NAME, fault.message) from fault


def _check_topics(message: Message, names: Iterable[str], topics: Sequence[PartitionsOfTopic]) -> None:
    """Raise ProtocolError for names and partitions that no topic has: they would be looked up, read and logged."""
    for name in [*names, *(one.topic for one in topics)]:
        if (complaint := topic_name_error(name)) is not None:
            raise _invalid(message.NAME, complaint)
    for one in topics:
        if min(one.partitions, default=0) < 0:
            raise _invalid(message.NAME, f"topic {one.topic!r} has no partition {min(one.partitions)}.")


def _invalid(name: str, why: str) -> ProtocolError:
    return ProtocolError(f"A member of the group sent an invalid {name}: {why}")


def _by_topic(partitions: Iterable[TopicPartition]) -> tuple[PartitionsOfTopic, ...]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return tuple(PartitionsOfTopic(topic=topic, partitions=tuple(indexes)) for topic, indexes in found.items())


def _flat(topics: Sequence[PartitionsOfTopic]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(one.topic, index) for one in topics for index in one.partitions)
