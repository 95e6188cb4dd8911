"""A proxy that holds a request back between a client and its broker, and delivers it when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar, cast

from aioprod.messages.registry import decode_request
from aioprod.testing import KafkaCluster
from aioprod.testing.listening import close_server, listen
from aioprod.wire.codec import decode
from aioprod.wire.frame import RequestHeader, decode_response_header
from aioprod.wire.schema import Request, Response

__all__ = ["HeldRequest", "HoldingProxy", "holding"]

ResponseT = TypeVar("ResponseT", bound=Response)

_SIZE: Final = 4
_PATIENCE_S: Final = 60.0


class HeldRequest(Generic[ResponseT]):
    """The next request of a kind: it does not reach the broker before `release`, and its sender is cut off at once."""

    def __init__(self, kind: type[Request[ResponseT]]) -> None:
        self.kind = kind
        self.header: RequestHeader | None = None
        """That of the request, once it is held."""
        self.request: Any = None
        """The message, once it is held."""
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """The frame that the broker answers with."""

    def keep(self, frame: bytes, to_broker: asyncio.StreamWriter) -> None:
        """Hold this frame, which belongs on this connection."""
        self._frame, self._to_broker = frame, to_broker
        self.header, self.request = decode_request(frame[_SIZE:])

    def is_answered_by(self, frame: bytes) -> bool:
        """Whether a frame of the same connection is the answer."""
        correlation_id = int.from_bytes(frame[_SIZE : 2 * _SIZE], "big")
        return self.header is not None and correlation_id == self.header.correlation_id

    async def release(self) -> ResponseT:
        """Deliver the request on the connection by which it was sent; returns the broker's answer."""
        assert self.header is not None, f"No {self.kind.NAME} request was sent."
        self._to_broker.write(self._frame)
        async with asyncio.timeout(_PATIENCE_S):
            answer = await self.answer
        response, version = cast(type[ResponseT], self.kind.RESPONSE), self.header.version
        return decode(response, version, decode_response_header(response, version, answer[_SIZE:])[1])


class HoldingProxy:
    """Forwards whole frames to a broker, but for the request that it is to hold."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._wanted: HeldRequest[Any] | None = None

    def hold(self, kind: type[Request[ResponseT]]) -> HeldRequest[ResponseT]:
        """Hold the next request of this kind."""
        self._wanted = held = HeldRequest(kind)
        return held

    async def start(self) -> tuple[str, int]:
        """Listen; returns the address."""
        self._server = await listen(self._accept, "127.0.0.1", 0)
        return cast(tuple[str, int], self._server.sockets[0].getsockname())

    async def close(self) -> None:
        """Stop listening and close all connections."""
        assert self._server is not None
        await close_server(self._server)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._forward(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _forward(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection(*self._target)
        held: HeldRequest[Any] | None = None

        async def answer() -> None:
            while frame := await _next_frame(from_broker):
                if held is not None and held.is_answered_by(frame):
                    held.answer.set_result(frame)
                else:
                    to_client.write(frame)
            to_client.close()

        answering = asyncio.create_task(answer())
        try:
            while frame := await _next_frame(from_client):
                if self._is_wanted(frame):
                    held, self._wanted = self._wanted, None
                    assert held is not None
                    held.keep(frame, to_broker)
                    to_client.transport.abort()
                    await answering
                    return
                to_broker.write(frame)
        finally:
            answering.cancel()
            to_client.close()
            to_broker.close()

    def _is_wanted(self, frame: bytes) -> bool:
        key = int.from_bytes(frame[_SIZE : _SIZE + 2], "big")
        return self._wanted is not None and key == self._wanted.kind.API_KEY


async def _next_frame(reader: asyncio.StreamReader) -> bytes:
    """A frame with its size; nothing at the end of the stream."""
    try:
        head = await reader.readexactly(_SIZE)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (asyncio.IncompleteReadError, OSError):
        return b""


@asynccontextmanager
async def holding(cluster: KafkaCluster) -> AsyncIterator[HoldingProxy]:
    """A `HoldingProxy` between a broker and its `TcpProxy`, for connections that are made inside the block."""
    (outer,) = cluster.proxies.values()
    target = outer._target
    proxy = HoldingProxy(target)
    outer._target = await proxy.start()
    try:
        yield proxy
    finally:
        outer._target = target
        await proxy.close()
