"""How a fake broker answers FindCoordinator, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aioprod.errors import ErrorCode, ResourceType
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult
from aioprod.messages.find_coordinator import Coordinator
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.state.shared import Call
from aioprod.testing.fake.state.transactions import Outcome
from aioprod.types import TopicPartition

__all__ = ["add_offsets_to_txn", "add_partitions_to_txn", "end_txn", "find_coordinator", "init_producer_id"]

MANY_KEYS: Final = 4
"""Version of FindCoordinator: many keys in one request."""

KEY_TYPES: Final[Mapping[int, ResourceType]] = {0: "group", 1: "transactional_id"}
"""What keys of FindCoordinator are."""

RAISES_EPOCH: Final = 5
"""Version of EndTxn: each end raises the epoch (KIP-890)."""


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Who coordinates groups or transactional ids."""
    if call.version >= MANY_KEYS:
        found = [_coordinator(call, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(found))
    one = _coordinator(call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(call: Call, key: str, key_type: int) -> Coordinator:
    node_id = call.state.coordinator(key)
    error = call.fault.error
    if error == ErrorCode.NONE and key_type not in KEY_TYPES:
        error = ErrorCode.INVALID_REQUEST
    if error == ErrorCode.NONE:
        error = call.denied("DESCRIBE", KEY_TYPES[key_type], key)
    if error == ErrorCode.NONE and node_id not in call.state.nodes:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error != ErrorCode.NONE or node_id is None:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=error.name)
    host, port = call.state.nodes[node_id]
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")


def _carry_out(call: Call, transactional_id: str, work: Callable[[], Outcome]) -> Outcome:
    """What the coordinator says, unless another broker is the one to ask, or a fault wants another answer."""
    refused = call.denied("WRITE", "transactional_id", transactional_id) or call.misdirected(transactional_id)
    if refused != ErrorCode.NONE:
        return Outcome(refused)
    if call.fault.error == ErrorCode.NONE:
        return work()
    if call.fault.apply:
        work()
    return Outcome(call.fault.error)


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A producer id and epoch."""
    if request.transactional_id is None:
        may_not = call.denied("IDEMPOTENT_WRITE", "cluster", CLUSTER)
        refused = call.fault.error or (may_not if call.denied("WRITE", "topic", None) else ErrorCode.NONE)
        outcome = Outcome(refused) if refused else Outcome(ErrorCode.NONE, call.state.new_producer_id(), 0)
    else:
        wanted, timeout_ms = request.transactional_id, request.transaction_timeout_ms
        init = call.state.transactions.init
        outcome = _carry_out(
            call, wanted, lambda: init(wanted, timeout_ms, request.producer_id, request.producer_epoch)
        )
    return InitProducerIdResponse(
        error_code=outcome.error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch
    )


def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add partitions to a transaction, in the versions for clients: all of them or none."""
    transactional_id = request.v3_and_below_transactional_id
    wanted = [TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
    unauthorized = call.denied("WRITE", "transactional_id", transactional_id)
    errors = {
        tp: unauthorized or call.denied("WRITE", "topic", tp.topic) or _unknown(call, tp) or call.fault.error_for(tp)
        for tp in wanted
    }
    if any(errors.values()) and not call.fault.apply:
        errors = {tp: error or ErrorCode.OPERATION_NOT_ATTEMPTED for tp, error in errors.items()}
    else:
        producer_id, epoch = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        add = call.state.transactions.add
        error = call.misdirected(transactional_id) or add(transactional_id, producer_id, epoch, partitions=wanted).error
        errors = {tp: known or error for tp, known in errors.items()}
    topics = []
    for topic in request.v3_and_below_topics:
        rows = [
            AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
            )
            for index in topic.partitions
        ]
        topics.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=tuple(rows)))
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=tuple(topics))


def _unknown(call: Call, tp: TopicPartition) -> ErrorCode:
    known = call.state.topics.partition(tp) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def add_offsets_to_txn(call: Call, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add a group to a transaction."""
    wanted, producer_id, epoch = request.transactional_id, request.producer_id, request.producer_epoch
    add = call.state.transactions.add

    def work() -> Outcome:
        denied = call.denied("READ", "group", request.group_id)
        return Outcome(denied) if denied else add(wanted, producer_id, epoch, groups=[request.group_id])

    outcome = _carry_out(call, wanted, work)
    return AddOffsetsToTxnResponse(error_code=outcome.error)


def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort."""
    wanted, producer_id, epoch = request.transactional_id, request.producer_id, request.producer_epoch
    version = 2 if call.version >= RAISES_EPOCH else 1
    end = call.state.transactions.end
    outcome = _carry_out(
        call, wanted, lambda: end(wanted, producer_id, epoch, commits=request.committed, version=version)
    )
    if version == 1:
        return EndTxnResponse(error_code=outcome.error)
    return EndTxnResponse(error_code=outcome.error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch)
