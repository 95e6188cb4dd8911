"""InitProducerId (key 22): get a producer id and epoch, for idempotence or for a transactional id.

Versions: 2 flexible; 3 a live producer may name its id to have its epoch raised (KIP-360); 5 may be answered with
TRANSACTION_ABORTABLE (KIP-890); 6 two-phase commit (KIP-939), still unstable and never negotiated.
"""

from __future__ import annotations

from aioprod.errors import ProtocolError
from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, wire

__all__ = ["InitProducerIdRequest", "InitProducerIdResponse", "check_identity"]


class InitProducerIdResponse(Response):
    """The producer id and its epoch."""

    API_KEY = 22
    NAME = "InitProducerId"
    VERSIONS = (0, 6)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
    ongoing_txn_producer_id: int = wire(INT64, "6+", default=-1)
    ongoing_txn_producer_epoch: int = wire(INT16, "6+", default=-1)


class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """A new producer id, or a new epoch of one. Producer id and epoch are -1, or those to be raised."""

    API_KEY = 22
    NAME = "InitProducerId"
    VERSIONS = (0, 6)
    FLEXIBLE = 2
    RESPONSE = InitProducerIdResponse
    STABLE_MAX = 5

    transactional_id: str | None = wire(STRING, nullable="0+")
    """None for a producer that is idempotent only."""
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, "3+", default=-1)
    producer_epoch: int = wire(INT16, "3+", default=-1)
    enable2_pc: bool = wire(BOOL, "6+")
    keep_prepared_txn: bool = wire(BOOL, "6+")


def check_identity(producer_id: int, epoch: int) -> None:
    """Raise ProtocolError for an id or an epoch that no broker gives: both count from 0."""
    if producer_id < 0 or epoch < 0:
        raise ProtocolError(f"A broker gave epoch {epoch} of producer id {producer_id}, and neither can be negative.")
