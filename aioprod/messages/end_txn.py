"""EndTxn (key 26): commit or abort the running transaction.

Versions: 3 flexible; 5 the answer carries the producer id and epoch for the next transaction (KIP-890), for
transaction.version 2 only.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, wire

__all__ = ["EndTxnRequest", "EndTxnResponse"]


class EndTxnResponse(Response):
    """The outcome; from version 5 on with the producer id and epoch of the next transaction, -1 if they stay."""

    API_KEY = 26
    NAME = "EndTxn"
    VERSIONS = (0, 5)
    FLEXIBLE = 3

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, "5+", default=-1, ignorable=True)
    producer_epoch: int = wire(INT16, "5+", default=-1, ignorable=True)


class EndTxnRequest(Request[EndTxnResponse]):
    """The end of a transaction."""

    API_KEY = 26
    NAME = "EndTxn"
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    RESPONSE = EndTxnResponse

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)
    """False aborts the transaction."""
