"""How a fake broker answers Produce."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from aioprod.errors import CorruptRecordError, ErrorCode, ProtocolError
from aioprod.messages import ProduceRequest, ProduceResponse
from aioprod.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from aioprod.records.layout import ATTRIBUTES, CRC
from aioprod.records.parser import ParsedBatch, parse_batches
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.handlers.transactions import TransactionWriter, add_or_verify
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.fake.state.producers import NO_PRODUCER_ID, ProducerState
from aioprod.testing.fake.state.topics import FakeTopic, led_partition
from aioprod.types import TopicPartition
from aioprod.wire import crc

__all__ = ["has_failed", "produce"]

_BY_ID: Final = 13
"""Version: topics have ids in place of names."""

_HINTS: Final = 10
"""Version: NOT_LEADER_OR_FOLLOWER comes with the new leader (KIP-951)."""

_ABORTABLE: Final = 11
"""Version: the response may have TRANSACTION_ABORTABLE (KIP-890)."""

_ADDS_IMPLICITLY: Final = 12
"""Version: a write adds its partition to the transaction implicitly (KIP-890)."""

_ACKS: Final = (-1, 0, 1)


class Stored(NamedTuple):
    """The outcome for one batch: its error, or where it is stored."""

    error: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1


def produce(call: Call, request: ProduceRequest) -> ProduceResponse:
    """Append the batches of a request."""
    topics = tuple(_topic(call, request, sent) for sent in request.topic_data)
    call.state.wake_fetches()
    hinted = {row.current_leader.leader_id for topic in topics for row in topic.partition_responses} - {-1}
    nodes = [(node_id, *call.state.nodes[node_id]) for node_id in sorted(hinted)]
    racks = call.state.racks
    endpoints = [
        NodeEndpoint(node_id=node_id, host=host, port=port, rack=racks.get(node_id)) for node_id, host, port in nodes
    ]
    return ProduceResponse(responses=topics, node_endpoints=tuple(endpoints))


def has_failed(answer: ProduceResponse) -> bool:
    """Whether a response has an error. With acks=0 the broker closes the connection then, as it sends no response."""
    return any(row.error_code for topic in answer.responses for row in topic.partition_responses)


def _topic(call: Call, request: ProduceRequest, sent: TopicProduceData) -> TopicProduceResponse:
    topic = call.state.topics.find(sent.name, sent.topic_id, by_id=call.version >= _BY_ID)
    rows = []
    for data in sent.partition_data:
        row = _partition(call, request, TopicPartition(topic.name if topic else sent.name, data.index), data)
        if topic and row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and call.version >= _HINTS:
            row = replace(row, current_leader=_hint(call, topic, data.index))
        rows.append(row)
    return TopicProduceResponse(name=sent.name, topic_id=sent.topic_id, partition_responses=tuple(rows))


def _partition(
    call: Call, request: ProduceRequest, tp: TopicPartition, data: PartitionProduceData
) -> PartitionProduceResponse:
    if request.acks not in _ACKS:
        return PartitionProduceResponse(index=data.index, error_code=ErrorCode.INVALID_REQUIRED_ACKS, base_offset=-1)
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if call.version >= _BY_ID else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition, error = led_partition(call.state.topics.get(tp.topic), data.index, call.node_id, unknown)
    if denied := _denied(call, request, tp.topic):
        return PartitionProduceResponse(index=data.index, error_code=denied, base_offset=-1)
    injected = call.fault.error_for(tp)
    stored = Stored(error)
    if partition is not None and (injected == ErrorCode.NONE or call.fault.apply):
        stored = _append(call, request, tp, partition, bytes(data.records or b""))
    if injected != ErrorCode.NONE:
        stored = Stored(injected)
    return PartitionProduceResponse(
        index=data.index,
        error_code=stored.error,
        base_offset=stored.base_offset,
        log_append_time_ms=stored.append_time_ms,
        log_start_offset=-1 if partition is None else 0,
    )


def _denied(call: Call, request: ProduceRequest, topic: str) -> ErrorCode:
    """The error if the client is not authorized to write. A topic with an unknown id has no name."""
    transactional_id = request.transactional_id
    if transactional_id is not None and (denied := call.denied("WRITE", "transactional_id", transactional_id)):
        return denied
    return call.denied("WRITE", "topic", topic) if topic else ErrorCode.NONE


def _hint(call: Call, topic: FakeTopic, index: int) -> LeaderIdAndEpoch:
    """The current leader, if it is up and another broker."""
    known = topic.partitions[index]
    if not call.state.leader_hints or known.leader not in call.state.nodes or known.leader == call.node_id:
        return LeaderIdAndEpoch()
    return LeaderIdAndEpoch(leader_id=known.leader, leader_epoch=known.leader_epoch)


def _append(call: Call, request: ProduceRequest, tp: TopicPartition, partition: FakePartition, data: bytes) -> Stored:
    """Append one partition's batch, unless it is a duplicate."""
    config = call.state.topics[tp.topic].config
    if len(data) > int(config.get("max.message.bytes", call.state.message_max_bytes)):
        return Stored(ErrorCode.MESSAGE_TOO_LARGE)
    if request.acks == -1 and len(call.state.nodes) < int(config.get("min.insync.replicas", 1)):
        return Stored(ErrorCode.NOT_ENOUGH_REPLICAS)
    batch = _parse(data)
    if isinstance(batch, ErrorCode):
        return Stored(batch)
    if batch.producer_id == NO_PRODUCER_ID:
        return Stored(ErrorCode.NONE, partition.append(batch, data))
    known = partition.producers.of(batch.producer_id)
    error = ErrorCode.NONE
    if batch.is_transactional and not known.has_open(batch.producer_epoch):
        error = _add_or_verify(call, request, tp, known, batch)
    duplicate_offset = known.duplicate_offset(batch)
    if error == ErrorCode.NONE and duplicate_offset is not None:
        # Kafka answers the batch's own timestamp as the append time of a duplicate.
        return Stored(ErrorCode.NONE, duplicate_offset, batch.max_timestamp)
    error = error or known.append_error(batch)
    return Stored(error) if error != ErrorCode.NONE else Stored(error, partition.append(batch, data))


def _add_or_verify(
    call: Call, request: ProduceRequest, tp: TopicPartition, known: ProducerState, batch: ParsedBatch
) -> ErrorCode:
    """Add the partition to the transaction, or verify that it was added, before the transaction's first write to it."""
    if request.transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if batch.producer_epoch < known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    adds_implicitly = call.version >= _ADDS_IMPLICITLY
    known.verify(batch, is_implicit=adds_implicitly)
    writer = TransactionWriter(request.transactional_id, batch.producer_id, batch.producer_epoch, adds_implicitly)
    error = add_or_verify(call.state, writer, partition=tp)
    if error == ErrorCode.TRANSACTION_ABORTABLE and call.version < _ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    is_hidden = error == ErrorCode.CONCURRENT_TRANSACTIONS and not adds_implicitly
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE or is_hidden:
        # Clients of older versions retry this error without a metadata refresh.
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error


def _parse(data: bytes) -> ParsedBatch | ErrorCode:
    """Parse and validate the one batch in `data`; returns the error of an invalid one."""
    try:
        (batch,) = parse_batches(data, verify_crc=False)
    except (ProtocolError, ValueError):
        return ErrorCode.INVALID_RECORD
    if crc.function()(data[ATTRIBUTES:]) != int.from_bytes(data[CRC:ATTRIBUTES], "big"):
        return ErrorCode.CORRUPT_MESSAGE
    try:
        count = len(list(batch.records()))
    except CorruptRecordError:
        return ErrorCode.INVALID_RECORD
    has_sequence = batch.producer_id == NO_PRODUCER_ID or batch.base_sequence >= 0
    is_whole = batch.size == len(data) and count == batch.count == batch.last_offset_delta + 1
    return batch if is_whole and has_sequence and not batch.is_control else ErrorCode.INVALID_RECORD
