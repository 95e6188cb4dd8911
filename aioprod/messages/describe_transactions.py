"""DescribeTransactions (key 65): the state of transactional ids, as their coordinator sees it (KIP-664)."""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = ["DescribeTransactionsRequest", "DescribeTransactionsResponse", "TopicData", "TransactionState"]


class TopicData(Struct):
    """Partitions of one topic that are in the transaction."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class TransactionState(Struct):
    """One transactional id: the epoch is the newest, the state is Empty, Ongoing, CompleteCommit, CompleteAbort, ..."""

    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: tuple[TopicData, ...] = wire(array(TopicData))


class DescribeTransactionsResponse(Response):
    """A state for each id."""

    API_KEY = 65
    NAME = "DescribeTransactions"
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    transaction_states: tuple[TransactionState, ...] = wire(array(TransactionState))


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """Which transactional ids to describe."""

    API_KEY = 65
    NAME = "DescribeTransactions"
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    RESPONSE = DescribeTransactionsResponse

    transactional_ids: tuple[str, ...] = wire(array(STRING))
