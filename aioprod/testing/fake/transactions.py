"""How a fake broker answers InitProducerId."""

from __future__ import annotations

from aioprod.errors import ErrorCode
from aioprod.messages import InitProducerIdRequest, InitProducerIdResponse
from aioprod.testing.fake.producers import NO_EPOCH
from aioprod.testing.fake.state import Call

__all__ = ["init_producer_id"]


def init_producer_id(call: Call, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new producer id."""
    if call.fault.error != ErrorCode.NONE:
        return InitProducerIdResponse(error_code=call.fault.error, producer_epoch=NO_EPOCH)
    return InitProducerIdResponse(producer_id=call.state.new_producer_id(), producer_epoch=0)
