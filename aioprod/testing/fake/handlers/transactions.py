"""How a fake broker answers InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and DescribeTransactions.

Produce and TxnOffsetCommit call `add_or_verify` before a transaction's first write to a partition or group (KIP-890).
The coordinator itself is in `state/transactions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult
from aioprod.messages.describe_transactions import TopicData, TransactionState
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.cluster_state import FakeState
from aioprod.testing.fake.state.transactions import Outcome, State
from aioprod.types import TopicPartition

__all__ = [
    "TransactionWriter",
    "add_offsets_to_txn",
    "add_or_verify",
    "add_partitions_to_txn",
    "describe_transactions",
    "end_txn",
    "init_producer_id",
]

_BUMPS_EPOCH: Final = 5
"""Version of EndTxn: each end of a transaction bumps the epoch (KIP-890)."""

_NAMES: Final = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}
"""The name of each state in responses."""


def _unless_denied(call: Call, transactional_id: str, work: Callable[[], Outcome]) -> Outcome:
    """The outcome of `work`, or the error of the client's rights, of the wrong coordinator, or of a fault."""
    error = call.denied("WRITE", "transactional_id", transactional_id) or call.misdirected(transactional_id)
    if error != ErrorCode.NONE:
        return Outcome(error)
    if call.fault.error == ErrorCode.NONE:
        return work()
    if call.fault.apply:
        work()
    return Outcome(call.fault.error)


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Assign a producer id and epoch."""
    if request.transactional_id is None:
        may_not = call.denied("IDEMPOTENT_WRITE", "cluster", CLUSTER)
        error = call.fault.error or (may_not if call.denied("WRITE", "topic", None) else ErrorCode.NONE)
        outcome = Outcome(error) if error else Outcome(ErrorCode.NONE, call.state.new_producer_id(), 0)
    else:
        wanted, timeout_ms = request.transactional_id, request.transaction_timeout_ms
        init = call.state.transactions.init
        outcome = _unless_denied(
            call, wanted, lambda: init(wanted, timeout_ms, request.producer_id, request.producer_epoch)
        )
    return InitProducerIdResponse(
        error_code=outcome.error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch
    )


def add_partitions_to_txn(call: Call, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add partitions to a transaction, all of them or none (the versions that clients use)."""
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
    """Add a consumer group to a transaction."""
    wanted, producer_id, epoch = request.transactional_id, request.producer_id, request.producer_epoch
    add = call.state.transactions.add

    def work() -> Outcome:
        denied = call.denied("READ", "group", request.group_id)
        return Outcome(denied) if denied else add(wanted, producer_id, epoch, groups=[request.group_id])

    outcome = _unless_denied(call, wanted, work)
    return AddOffsetsToTxnResponse(error_code=outcome.error)


def end_txn(call: Call, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort a transaction."""
    wanted, producer_id, epoch = request.transactional_id, request.producer_id, request.producer_epoch
    version = 2 if call.version >= _BUMPS_EPOCH else 1
    end = call.state.transactions.end
    outcome = _unless_denied(
        call, wanted, lambda: end(wanted, producer_id, epoch, commits=request.committed, version=version)
    )
    if version == 1:
        return EndTxnResponse(error_code=outcome.error)
    return EndTxnResponse(error_code=outcome.error, producer_id=outcome.producer_id, producer_epoch=outcome.epoch)


def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """Answer the state of transactional ids."""
    return DescribeTransactionsResponse(
        transaction_states=tuple(_described(call, transactional_id) for transactional_id in request.transactional_ids)
    )


def _described(call: Call, transactional_id: str) -> TransactionState:
    one = call.state.transactions.get(transactional_id)
    denied = call.denied("DESCRIBE", "transactional_id", transactional_id)
    error = denied or call.fault.error or call.misdirected(transactional_id)
    if error == ErrorCode.NONE and one is None:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if error != ErrorCode.NONE or one is None:
        return TransactionState(error_code=error, transactional_id=transactional_id)
    topics: dict[str, list[int]] = {}
    for tp in sorted(one.partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=_NAMES[one.state],
        transaction_timeout_ms=one.timeout_ms,
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        topics=tuple(TopicData(topic=name, partitions=tuple(indexes)) for name, indexes in topics.items()),
    )


class TransactionWriter(NamedTuple):
    """The producer of a transactional write.

    `adds_implicitly`: the request itself adds the partition or group; otherwise it must have been added before.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    adds_implicitly: bool


def add_or_verify(
    state: FakeState, writer: TransactionWriter, *, partition: TopicPartition | None = None, group: str = ""
) -> ErrorCode:
    """Add a partition or group to the writer's transaction, or verify that it was added.

    Returns the coordinator's error, with INVALID_PRODUCER_EPOCH for PRODUCER_FENCED, as Kafka's leaders do.
    """
    transactional_id, producer_id, epoch, adds_implicitly = writer
    if not state.is_serving(state.coordinator(transactional_id)):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    call = state.transactions.add if adds_implicitly else state.transactions.verify
    partitions = [] if partition is None else [partition]
    error = call(transactional_id, producer_id, epoch, partitions=partitions, groups=[group] if group else []).error
    return ErrorCode.INVALID_PRODUCER_EPOCH if error == ErrorCode.PRODUCER_FENCED else error
