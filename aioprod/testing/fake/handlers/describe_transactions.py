"""How a fake broker answers DescribeTransactions."""

from __future__ import annotations

from typing import Final

from aioprod.errors import ErrorCode
from aioprod.messages import DescribeTransactionsRequest, DescribeTransactionsResponse
from aioprod.messages.describe_transactions import TopicData, TransactionState
from aioprod.testing.fake.state.shared import Call
from aioprod.testing.fake.state.transactions import State

__all__ = ["describe_transactions"]

NAMES: Final = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
}
"""What Kafka calls each state."""


def describe_transactions(call: Call, request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    """How it stands with transactional ids."""
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
        transaction_state=NAMES[one.state],
        transaction_timeout_ms=one.timeout_ms,
        producer_id=one.producer_id,
        producer_epoch=one.epoch,
        topics=tuple(TopicData(topic=name, partitions=tuple(indexes)) for name, indexes in topics.items()),
    )
