"""The future of one request, completed with the decoded response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from aioprod.errors import AioprodError, ProtocolError
from aioprod.wire.codec import decode
from aioprod.wire.schema import AnyRequest, Request, Response

if TYPE_CHECKING:
    from aioprod.wire.buffer import Buffer

__all__ = ["PendingResponse"]

ResponseT = TypeVar("ResponseT", bound=Response)


class PendingResponse(Generic[ResponseT]):
    """The response to a request of `kind` in `version` that is in flight.

    `fault` makes the error for a body that can't be decoded, and `throttle` applies the throttle time of the response.
    """

    __slots__ = ("_fault", "_future", "_kind", "_throttle", "_version")

    def __init__(
        self,
        kind: type[Request[ResponseT]],
        version: int,
        future: asyncio.Future[ResponseT],
        fault: Callable[[str], ProtocolError],
        throttle: Callable[[type[AnyRequest], int, int], None],
    ) -> None:
        self._future = future
        self._kind = kind
        self._version = version
        self._fault = fault
        self._throttle = throttle

    def complete(self, body: Buffer | None, error: AioprodError | None) -> None:
        """Complete the future with the response in `body`, or with the error; raises ProtocolError as it fails it.

        A future that was cancelled drops the response.
        """
        if self._future.done():
            return
        if body is None:
            assert error is not None
            self._future.set_exception(error.again())
            return
        try:
            response: ResponseT = decode(self._kind.RESPONSE, self._version, body)  # type: ignore[assignment]  # by declaration
        except ProtocolError as fault:
            error = self._fault(fault.message)
            self._future.set_exception(error.again())
            raise error from fault
        self._throttle(self._kind, self._version, getattr(response, "throttle_time_ms", 0))
        self._future.set_result(response)
