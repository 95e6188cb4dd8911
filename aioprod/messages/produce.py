"""Produce (key 0): send record batches to partition leaders, one batch for each partition.

Versions: 3 the first with record batch v2; 5 log_start_offset; 6 throttles after the response (KIP-219); 7 allows zstd;
8 record_errors (KIP-467); 9 flexible; 10 leader hints (KIP-951); 12 adds partitions to the transaction by itself
(KIP-890), so a transaction on brokers with transaction.version below 2 must stay at 11; 13 topic ids instead of names
(KIP-516). Brokers since 4.0 advertise 0 as the first version and reject everything below 3 (KAFKA-18659).
"""

from __future__ import annotations

import uuid

from aioprod.wire.buffer import Buffer
from aioprod.wire.schema import INT16, INT32, INT64, RECORDS, STRING, TEXT, UUID, Request, Response, Struct, array, wire

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


class BatchIndexAndErrorMessage(Struct):
    """A record for which the broker rejected its batch, by its index in the batch."""

    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(TEXT, nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    """The present leader, where the broker that answers is not the leader; -1 for unknown."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class PartitionProduceResponse(Struct):
    """The outcome of one batch."""

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, default=-1)
    """-1 unless the topic has LogAppendTime."""
    log_start_offset: int = wire(INT64, "5+", default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = wire(array(BatchIndexAndErrorMessage), "8+", ignorable=True)
    error_message: str | None = wire(TEXT, "8+", nullable="0+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    """The outcomes for one topic."""

    name: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = wire(array(PartitionProduceResponse))


class NodeEndpoint(Struct):
    """The address of a broker."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable="0+", default=None)


class ProduceResponse(Response):
    """The outcome of each batch."""

    API_KEY = 0
    NAME = "Produce"
    VERSIONS = (3, 13)
    FLEXIBLE = 9

    responses: tuple[TopicProduceResponse, ...] = wire(array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32)
    node_endpoints: tuple[NodeEndpoint, ...] = wire(array(NodeEndpoint), "10+", tag=0)
    """The addresses of the leaders that are hinted at."""


class PartitionProduceData(Struct):
    """One record batch for one partition."""

    index: int = wire(INT32)
    records: Buffer | None = wire(RECORDS, nullable="0+")


class TopicProduceData(Struct):
    """The batches for one topic, which is named up to version 12 and known by its id from 13 on."""

    name: str = wire(STRING, "0-12", ignorable=True)
    topic_id: uuid.UUID = wire(UUID, "13+", ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = wire(array(PartitionProduceData))


class ProduceRequest(Request[ProduceResponse]):
    """Batches to append."""

    API_KEY = 0
    NAME = "Produce"
    VERSIONS = (3, 13)
    FLEXIBLE = 9
    RESPONSE = ProduceResponse

    transactional_id: str | None = wire(STRING, nullable="0+", default=None)
    acks: int = wire(INT16)
    """0 means no answer at all, 1 for the acknowledgement of the leader, -1 for that of all in-sync replicas."""
    timeout_ms: int = wire(INT32)
    topic_data: tuple[TopicProduceData, ...] = wire(array(TopicProduceData))
