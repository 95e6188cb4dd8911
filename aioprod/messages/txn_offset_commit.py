"""TxnOffsetCommit (key 28): commit a group's offsets as part of a transaction.

Versions: 2 leader epochs; 3 flexible, and the group's generation and member fence off zombies (KIP-447); 5 adds the
offsets to the transaction by itself (KIP-890), so brokers with transaction.version below 2 get 4 at most; 6 topic ids
in place of names (KIP-1319).
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import INT16, INT32, INT64, STRING, UUID, Request, Response, Struct, array, wire

__all__ = [
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
]


class TxnOffsetCommitResponsePartition(Struct):
    """The result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class TxnOffsetCommitResponseTopic(Struct):
    """The results for one topic."""

    name: str = wire(STRING, "0-5", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = wire(array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Response):
    """Errors by partition."""

    API_KEY = 28
    NAME = "TxnOffsetCommit"
    VERSIONS = (0, 6)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = wire(array(TxnOffsetCommitResponseTopic))


class TxnOffsetCommitRequestPartition(Struct):
    """The next offset of one partition."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, "2+", default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    """Offsets of one topic, which is named up to version 5 and known by its id from 6 on."""

    name: str = wire(STRING, "0-5", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "6+", ignorable=True)
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = wire(array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """The next offsets to read, with the group's metadata where the member is known (version 3 and later)."""

    API_KEY = 28
    NAME = "TxnOffsetCommit"
    VERSIONS = (0, 6)
    FLEXIBLE = 3
    RESPONSE = TxnOffsetCommitResponse

    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id_or_member_epoch: int = wire(INT32, "3+", default=-1)
    member_id: str = wire(STRING, "3+")
    group_instance_id: str | None = wire(STRING, "3+", nullable="0+", default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = wire(array(TxnOffsetCommitRequestTopic))
