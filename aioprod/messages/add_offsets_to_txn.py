"""AddOffsetsToTxn (key 25): announce to the coordinator that a transaction will commit offsets of a group.

Versions: 3 flexible; 4 may be answered with TRANSACTION_ABORTABLE (KIP-890). Not needed where transaction.version is 2,
since TxnOffsetCommit 5 does it.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, INT32, INT64, STRING, Request, Response, wire

__all__ = ["AddOffsetsToTxnRequest", "AddOffsetsToTxnResponse"]


class AddOffsetsToTxnResponse(Response):
    """Whether the group was added."""

    API_KEY = 25
    NAME = "AddOffsetsToTxn"
    VERSIONS = (0, 4)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)


class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """The transaction and the group."""

    API_KEY = 25
    NAME = "AddOffsetsToTxn"
    VERSIONS = (0, 4)
    FLEXIBLE = 3
    RESPONSE = AddOffsetsToTxnResponse

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)
