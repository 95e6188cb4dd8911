"""Fetch (key 1): read record batches.

Versions: 4 the first with record batch v2 and the isolation level (1: read_committed); 7 fetch sessions (KIP-227;
session 0 with epoch -1 is none); 9 leader epochs; 11 reading from a follower (KIP-392); 12 flexible; 13 topic ids in
place of names (KIP-516); 15 to 18 the state of followers; 16 leader hints (KIP-951).
"""

from __future__ import annotations

import uuid

from aioprod.wire.buffer import Buffer
from aioprod.wire.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Request, Response, Struct, array, wire

__all__ = [
    "AbortedTransaction",
    "EpochEndOffset",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchableTopicResponse",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ReplicaState",
    "SnapshotId",
]


class EpochEndOffset(Struct):
    """Where the log of the fetching replica diverges from the leader's; -1 if it does not."""

    epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


class LeaderIdAndEpoch(Struct):
    """The present leader, where the broker that answers is not the leader; -1 for unknown."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class SnapshotId(Struct):
    """The snapshot to read instead, for followers of the metadata log; -1 for none."""

    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


class AbortedTransaction(Struct):
    """A producer whose records from `first_offset` up to its next abort marker are to be left out."""

    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


class PartitionData(Struct):
    """What was read from one partition; the last batch may be cut short by the size limits."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = wire(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId = wire(SnapshotId, "12+", tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = wire(array(AbortedTransaction), nullable="0+")
    preferred_read_replica: int = wire(INT32, "11+", default=-1)
    records: Buffer | None = wire(RECORDS, nullable="0+")


class FetchableTopicResponse(Struct):
    """What was read from one topic."""

    topic: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: tuple[PartitionData, ...] = wire(array(PartitionData))


class NodeEndpoint(Struct):
    """The address of a broker."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable="0+", default=None)


class FetchResponse(Response):
    """Record batches by partition."""

    API_KEY = 1
    NAME = "Fetch"
    VERSIONS = (4, 18)
    FLEXIBLE = 12

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "7+", ignorable=True)
    session_id: int = wire(INT32, "7+")
    responses: tuple[FetchableTopicResponse, ...] = wire(array(FetchableTopicResponse))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(array(NodeEndpoint), "16+", tag=0)
    """The addresses of the leaders that are hinted at."""


class ReplicaState(Struct):
    """The follower that fetches; -1 for clients."""

    replica_id: int = wire(INT32, default=-1)
    replica_epoch: int = wire(INT64, default=-1)


class FetchPartition(Struct):
    """Where to read one partition, and how much of it at most."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, "9+", default=-1, ignorable=True)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, "12+", default=-1)
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: uuid.UUID = wire(UUID, "17+", tag=0, ignorable=True)
    high_watermark: int = wire(INT64, "18+", tag=1, default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True)


class FetchTopic(Struct):
    """What to read from one topic, which is named up to version 12 and known by its id from 13 on."""

    topic: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: tuple[FetchPartition, ...] = wire(array(FetchPartition))


class ForgottenTopic(Struct):
    """Partitions to leave out of the fetch session from now on."""

    topic: str = wire(STRING, "7-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partitions: tuple[int, ...] = wire(array(INT32))


class FetchRequest(Request[FetchResponse]):
    """Where to read from."""

    API_KEY = 1
    NAME = "Fetch"
    VERSIONS = (4, 18)
    FLEXIBLE = 12
    RESPONSE = FetchResponse

    cluster_id: str | None = wire(STRING, "12+", nullable="0+", tag=0, default=None, ignorable=True)
    replica_id: int = wire(INT32, "0-14", default=-1)
    """-1 for clients."""
    replica_state: ReplicaState = wire(ReplicaState, "15+", tag=1)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=0x7FFF_FFFF)
    isolation_level: int = wire(INT8)
    session_id: int = wire(INT32, "7+", ignorable=True)
    session_epoch: int = wire(INT32, "7+", default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = wire(array(FetchTopic))
    forgotten_topics_data: tuple[ForgottenTopic, ...] = wire(array(ForgottenTopic), "7+")
    rack_id: str = wire(STRING, "11+", ignorable=True)
