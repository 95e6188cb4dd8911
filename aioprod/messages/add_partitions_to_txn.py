"""AddPartitionsToTxn (key 24): announce to the coordinator the partitions that a transaction will write to.

Versions: 3 flexible and the last one for clients; from 4 on brokers batch transactions among themselves (KIP-890). Not
used at all where transaction.version is 2, since Produce 12 does it.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = [
    "AddPartitionsToTxnPartitionResult",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddPartitionsToTxnResult",
    "AddPartitionsToTxnTopic",
    "AddPartitionsToTxnTopicResult",
    "AddPartitionsToTxnTransaction",
]


class AddPartitionsToTxnPartitionResult(Struct):
    """The result for one partition."""

    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


class AddPartitionsToTxnTopicResult(Struct):
    """The results for one topic."""

    name: str = wire(STRING)
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = wire(array(AddPartitionsToTxnPartitionResult))


class AddPartitionsToTxnResult(Struct):
    """The results of one transaction."""

    transactional_id: str = wire(STRING)
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = wire(array(AddPartitionsToTxnTopicResult))


class AddPartitionsToTxnResponse(Response):
    """Errors by partition: `results_by_topic_v3_and_below`, or from version 4 on by transaction."""

    API_KEY = 24
    NAME = "AddPartitionsToTxn"
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, "4+", ignorable=True)
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = wire(array(AddPartitionsToTxnResult), "4+")
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = wire(
        array(AddPartitionsToTxnTopicResult), "0-3"
    )


class AddPartitionsToTxnTopic(Struct):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class AddPartitionsToTxnTransaction(Struct):
    """One transaction of a broker's batch."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    verify_only: bool = wire(BOOL)
    topics: tuple[AddPartitionsToTxnTopic, ...] = wire(array(AddPartitionsToTxnTopic))


class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """Clients set the fields called v3_and_below and send version 3 at most."""

    API_KEY = 24
    NAME = "AddPartitionsToTxn"
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    RESPONSE = AddPartitionsToTxnResponse

    transactions: tuple[AddPartitionsToTxnTransaction, ...] = wire(array(AddPartitionsToTxnTransaction), "4+")
    v3_and_below_transactional_id: str = wire(STRING, "0-3")
    v3_and_below_producer_id: int = wire(INT64, "0-3")
    v3_and_below_producer_epoch: int = wire(INT16, "0-3")
    v3_and_below_topics: tuple[AddPartitionsToTxnTopic, ...] = wire(array(AddPartitionsToTxnTopic), "0-3")
