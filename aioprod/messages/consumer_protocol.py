"""The protocol "consumer" of classic groups: a member's subscription to the leader, and its assignment from it.

Both are byte strings within JoinGroup and SyncGroup, behind their version as an int16. Versions: 1 owned partitions
(KIP-429); 2 the generation of their assignment (KIP-792); 3 racks (KIP-881). They are never flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BYTES, INT32, STRING, Message, Struct, array, wire

__all__ = ["ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "PartitionsOfTopic"]


class PartitionsOfTopic(Struct):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class ConsumerProtocolSubscription(Message):
    """A member's topics, its owned partitions, and the user data of its assignor."""

    NAME = "ConsumerProtocolSubscription"
    VERSIONS = (0, 3)
    FLEXIBLE = None

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    owned_partitions: tuple[PartitionsOfTopic, ...] = wire(array(PartitionsOfTopic), "1+", ignorable=True)
    generation_id: int = wire(INT32, "2+", default=-1, ignorable=True)
    rack_id: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message):
    """The assignment of one member."""

    NAME = "ConsumerProtocolAssignment"
    VERSIONS = (0, 3)
    FLEXIBLE = None

    assigned_partitions: tuple[PartitionsOfTopic, ...] = wire(array(PartitionsOfTopic))
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
