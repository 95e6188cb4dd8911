"""How a fake broker answers Produce."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aioprod.errors import CorruptRecordError, ErrorCode
from aioprod.messages import ProduceRequest, ProduceResponse
from aioprod.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aioprod.records.parser import ParsedBatch, parse_batches
from aioprod.testing.fake.joining import Writer, join
from aioprod.testing.fake.log import FakePartition
from aioprod.testing.fake.producers import NO_PRODUCER_ID, ProducerState
from aioprod.testing.fake.state import Call
from aioprod.testing.fake.topics import FakeTopic, led_partition
from aioprod.types import TopicPartition

__all__ = ["produce"]

BY_ID: Final = 13
"""Version: topics have ids in place of names."""

HINTS: Final = 10
"""Version: the answer names the new leader (KIP-951)."""

ABORTABLE: Final = 11
"""Version: may be answered with TRANSACTION_ABORTABLE (KIP-890)."""

JOINS: Final = 12
"""Version: a write adds its partition to the transaction by itself (KIP-890)."""


def produce(call: Call, request: ProduceRequest) -> ProduceResponse:
    """Append the batches of a request."""
    topics = tuple(_topic(call, request, sent) for sent in request.topic_data)
    call.state.tell_readers()
    hinted = {row.current_leader.leader_id for topic in topics for row in topic.partition_responses} - {-1}
    endpoints = [NodeEndpoint(node_id=node_id, host=host, port=port) for node_id, (host, port) in _nodes(call, hinted)]
    return ProduceResponse(responses=topics, node_endpoints=tuple(endpoints))


def _nodes(call: Call, wanted: set[int]) -> list[tuple[int, tuple[str, int]]]:
    return [(node_id, call.state.nodes[node_id]) for node_id in sorted(wanted)]


def _topic(call: Call, request: ProduceRequest, sent: TopicProduceData) -> TopicProduceResponse:
    topic = call.state.topics.find(sent.name, sent.topic_id, by_id=call.version >= BY_ID)
    rows = []
    for data in sent.partition_data:
        row = _partition(call, request, TopicPartition(topic.name if topic else sent.name, data.index), data)
        if topic and row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= HINTS:
            row = replace(row, current_leader=_hint(call, topic, data.index))
        rows.append(row)
    return TopicProduceResponse(name=sent.name, topic_id=sent.topic_id, partition_responses=tuple(rows))


def _partition(
    call: Call, request: ProduceRequest, tp: TopicPartition, data: PartitionProduceData
) -> PartitionProduceResponse:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if call.version >= BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = call.state.topics.get(tp.topic)
    partition, error = led_partition(topic, data.index, call.node_id, unknown)
    wanted = call.fault.error_for(tp)
    base_offset = -1
    if partition is not None and (wanted == ErrorCode.NONE or call.fault.apply):
        error, base_offset = _append(call, request, tp, partition, bytes(data.records or b""))
    if wanted != ErrorCode.NONE:
        error, base_offset = wanted, -1
    return PartitionProduceResponse(index=data.index, error_code=error, base_offset=base_offset, log_start_offset=0)


def _hint(call: Call, topic: FakeTopic, index: int) -> LeaderIdAndEpoch:
    """Who leads now, if that is known."""
    known = topic.partitions[index]
    if not call.state.leader_hints or known.leader not in call.state.nodes or known.leader == call.node_id:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)


def _append(
    call: Call, request: ProduceRequest, tp: TopicPartition, partition: FakePartition, data: bytes
) -> tuple[ErrorCode, int]:
    """Store what one produce brought, unless it is stored already; error and base offset."""
    config = call.state.topics[tp.topic].config
    if len(data) > int(config.get("max.message.bytes", call.state.message_max_bytes)):
        return ErrorCode.MESSAGE_TOO_LARGE, -1
    if request.acks == -1 and len(call.state.nodes) < int(config.get("min.insync.replicas", 1)):
        return ErrorCode.NOT_ENOUGH_REPLICAS, -1
    batch = _readable(data)
    if batch is None:
        return ErrorCode.CORRUPT_MESSAGE, -1
    if batch.producer_id == NO_PRODUCER_ID:
        return ErrorCode.NONE, partition.append(batch, data)
    known = partition.producers.of(batch.producer_id)
    if batch.is_transactional and not known.has_open(batch.producer_epoch):
        refusal = _join(call, request, tp, known, batch)
        if refusal != ErrorCode.NONE:
            return refusal, -1
    stored_before = known.stored_before(batch)
    if stored_before is not None:
        return ErrorCode.NONE, stored_before
    refusal = known.refusal(batch)
    return (refusal, -1) if refusal != ErrorCode.NONE else (ErrorCode.NONE, partition.append(batch, data))


def _join(
    call: Call, request: ProduceRequest, tp: TopicPartition, known: ProducerState, batch: ParsedBatch
) -> ErrorCode:
    """Have the coordinator agree to the first write of a transaction to a partition."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    joins = call.version >= JOINS
    known.verify(batch, is_implicit=joins)
    writer = Writer(request.transactional_id, batch.producer_id, batch.producer_epoch, joins)
    error = join(call.state, writer, partition=tp)
    if error == ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    is_hidden = error == ErrorCode.CONCURRENT_TRANSACTIONS and not joins
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE or is_hidden:
        # Older clients retry this one without asking for metadata.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def _readable(data: bytes) -> ParsedBatch | None:
    """The only batch in `data`, if all of it is as it should be."""
    try:
        (batch,) = parse_batches(data)
        whole = len(list(batch.records())) == batch.count == batch.last_offset_delta + 1
    except (CorruptRecordError, ValueError):
        return None
    return batch if whole else None
