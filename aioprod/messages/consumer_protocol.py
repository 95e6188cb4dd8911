"""The blobs of the protocol "consumer": what a member of a classic group tells the leader, and is told by it.

They travel within JoinGroup and SyncGroup, each with its version as an int16 before it. Versions: 1 owned partitions
(KIP-429); 2 the generation in which they were given (KIP-792); 3 racks (KIP-881). They are never flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BYTES, INT32, STRING, Message, Struct, array, wire

__all__ = ["ConsumerProtocolAssignment", "ConsumerProtocolSubscription", "PartitionsOfTopic"]


class PartitionsOfTopic(Struct):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class ConsumerProtocolSubscription(Message):
    """What a member reads, has and tells its assignor."""

    NAME = "ConsumerProtocolSubscription"
    VERSIONS = (0, 3)
    FLEXIBLE = None
    ALLOWS_TRAILING_BYTES = True

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
    owned_partitions: tuple[PartitionsOfTopic, ...] = wire(array(PartitionsOfTopic), "1+", ignorable=True)
    generation_id: int = wire(INT32, "2+", default=-1, ignorable=True)
    rack_id: str | None = wire(STRING, "3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message):
    """What a member gets."""

    NAME = "ConsumerProtocolAssignment"
    VERSIONS = (0, 3)
    FLEXIBLE = None
    ALLOWS_TRAILING_BYTES = True

    assigned_partitions: tuple[PartitionsOfTopic, ...] = wire(array(PartitionsOfTopic))
    user_data: bytes | None = wire(BYTES, nullable="0+", default=None)
