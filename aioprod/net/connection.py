"""The socket of one broker connection: bytes in, bytes out, events to the owner; core.connection decides."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, cast

from aioprod.core.connection import Complete, Connection, Phase
from aioprod.errors import AioprodError, BrokerConnectionError, ProtocolError
from aioprod.messages.negotiation import ApiVersions, ByVersion
from aioprod.messages.registry import REQUESTS_BY_KEY
from aioprod.net.addresses import text_of
from aioprod.net.settings import Address
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from aioprod.wire.schema import Request, Response

__all__ = ["BrokerConnection", "ConnectionOwner"]

ResponseT = TypeVar("ResponseT", bound=Response)


class ConnectionOwner(Protocol):
    """Who hears of a connection. Only `due` is called from within a call of the owner."""

    def connection_made(self, connection: BrokerConnection) -> None:
        """The transport is there; the versions are being negotiated."""

    def connection_ready(self, connection: BrokerConnection) -> None:
        """The versions are negotiated: requests may be sent."""

    def connection_data(self, connection: BrokerConnection) -> None:
        """The answers in one chunk of bytes were completed; the connection may be closed because of a later one."""

    def connection_writable(self, connection: BrokerConnection) -> None:
        """The transport takes more again."""

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        """The transport is gone and everything outstanding was completed; `error` is None if we closed it."""

    def due(self, when: float) -> None:
        """Something has to be looked after at that time, in monotonic seconds."""

    def failed(self, error: BaseException) -> None:
        """A callback raised: a bug, here or above."""


class BrokerConnection(asyncio.Protocol):
    """One TCP connection to a broker; usable once `connection_ready` was called.

    `address` is what it was made to; `node_id` is that of the broker it is used for, negative for a bootstrap server.
    `closed` tells that no more requests are taken; what is outstanding is completed when the transport is gone.
    """

    versions: ApiVersions

    def __init__(
        self,
        state: Connection,
        node_id: int,
        address: Address,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
    ) -> None:
        self.node_id = node_id
        self.address = address
        self.can_write = True
        self.closed = False
        self.local = ""
        self._state = state
        self._owner = owner
        self._loop = loop
        self._clock = clock
        self._gone: asyncio.Future[None] = loop.create_future()
        self._shut = False
        self._transport: asyncio.Transport

    def __repr__(self) -> str:
        return f"<BrokerConnection {self.local} -> {self.peer}, {self._state.phase.value}, {self.in_flight} in flight>"

    @property
    def peer(self) -> str:
        """The other side, as messages name it."""
        return self._state.peer

    @property
    def in_flight(self) -> int:
        """Requests that were sent and whose answers are outstanding."""
        return len(self._state.exchanges)

    @property
    def throttled_until(self) -> float:
        """Until when the broker wants no more requests, in monotonic seconds; 0.0 if it never said so."""
        return self._state.throttled_until

    @property
    def last_used(self) -> float:
        """When bytes went out or came in last, in monotonic seconds."""
        return self._state.last_used

    @property
    def waits_since(self) -> float:
        """When the request was sent whose answer is outstanding longest, in monotonic seconds; infinite without one."""
        return min((exchange.deadline - exchange.timeout_s for exchange in self._state.exchanges), default=math.inf)

    def rename(self, node_id: int, peer: str) -> None:
        """The address turned out to be that of broker `node_id`."""
        self.node_id = node_id
        self._state.peer = peer

    # -- requests ----------------------------------------------------------------------------------------------------

    def request(
        self, message: Request[ResponseT] | ByVersion[ResponseT], *, timeout_s: float | None = None
    ) -> asyncio.Future[ResponseT]:
        """Send `message` in the version that both sides speak; the future gives the decoded answer.

        The default timeout is `request.timeout.ms`; when it passes, the whole connection is given up. Raises
        UnsupportedVersionError, or the reason if the connection is closed; the future fails with
        BrokerConnectionError or ProtocolError. Cancelling the future drops the answer, not the request.
        """
        kind: type[Request[ResponseT]]
        if isinstance(message, ByVersion):
            kind = message.kind
            version = self.versions.pick(kind, at_most=message.at_most)
            message = message.build(version)
        else:
            kind = type(message)
            version = self.versions.pick(kind)
        body = encode(message, version)
        future: asyncio.Future[ResponseT] = self._loop.create_future()

        def complete(answer: Buffer | None, error: AioprodError | None) -> None:
            if future.done():
                return
            if answer is None:
                assert error is not None
                future.set_exception(error.again())
                return
            try:
                response: ResponseT = decode(kind.RESPONSE, version, answer)  # type: ignore[assignment]  # by declaration
            except ProtocolError as fault:
                error = self._state.fault(fault.message)
                future.set_exception(error.again())
                raise error from fault
            self.throttle(kind.API_KEY, version, getattr(response, "throttle_time_ms", 0))
            future.set_result(response)

        flexible = kind.is_flexible(version)
        self.send_parts(kind.API_KEY, version, flexible, (body,), len(body), complete, timeout_s=timeout_s)
        return future

    def send_parts(
        self,
        api_key: int,
        version: int,
        flexible: bool,
        parts: Sequence[Buffer],
        size: int,
        complete: Complete,
        *,
        timeout_s: float | None = None,
        expect_response: bool = True,
    ) -> None:
        """Send one request whose body is `parts`, of `size` bytes together, without copying them.

        `complete(body, error)` is called once: with the body of the answer, or with the reason why there is none, and
        then only when the transport no longer holds the parts. They must not change before. With
        `expect_response=False` (acks=0) the parts are copied and `complete` is never called. Raises the reason if
        the connection is closed.
        """
        if self.closed:
            raise self._state.error or BrokerConnectionError(f"The connection to {self.peer} is closed.")
        header = self._state.begin(
            REQUESTS_BY_KEY[api_key],
            version,
            flexible,
            size,
            self._clock(),
            complete,
            timeout_s=timeout_s,
            expect_response=expect_response,
        )
        if expect_response:
            self._transport.writelines([header, *parts])
            self._owner.due(self._state.exchanges[-1].deadline)
        else:
            self._transport.write(b"".join([header, *parts]))

    def throttle(self, api_key: int, version: int, throttle_time_ms: int) -> None:
        """Take note of the throttle time in an answer; `request` does so itself, the user of `send_parts` has to."""
        if throttle_time_ms > 0:
            self._state.throttle(REQUESTS_BY_KEY[api_key], version, throttle_time_ms, self._clock())
            self._owner.due(self._state.throttled_until)

    def unthrottle(self) -> None:
        """The throttle time has passed."""
        self._state.throttled_until = 0.0

    # -- the end -----------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> float:
        """When the next answer is overdue, in monotonic seconds; gives the connection up if one is overdue now."""
        if not self.closed and (error := self._state.overdue(now)) is not None:
            self.abort(error)
        return math.inf if self.closed else self._state.next_deadline()

    def abort(self, error: AioprodError) -> None:
        """Give the connection up at once; what is outstanding fails with `error` as soon as the transport is gone."""
        if self._state.error is None:
            self._state.error = error
        self.closed = True
        self._transport.abort()

    def shut(self) -> None:
        """Take no more requests, write out what was taken, then close."""
        if not self.closed:
            self.closed = self._shut = True
            self._state.error = BrokerConnectionError(f"The connection to {self.peer} was closed by this client.")
            self._transport.close()

    async def close(self, flush_s: float = 0.05) -> None:
        """Shut, and wait until the transport is gone; what is not written out after `flush_s` seconds is dropped."""
        self.shut()
        try:
            await asyncio.wait([self._gone], timeout=flush_s)
        finally:
            self._transport.abort()
        await self._gone

    # -- asyncio.Protocol --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: the transports of uvloop are not asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("sockname")
        self.local = "" if name is None else text_of(name[:2])
        self._state.open(self._clock())
        self._owner.connection_made(self)
        self._start_up()

    def _start_up(self) -> None:
        output = self._state.take_output()
        if output:
            self._transport.write(output)
            self._owner.due(self._state.next_deadline())

    def data_received(self, data: bytes) -> None:
        state = self._state
        was_ready = state.phase is Phase.READY
        try:
            for exchange, body in state.receive(data, self._clock()):
                assert exchange.complete is not None
                exchange.complete(body, None)
                if self.closed:
                    break
            self._start_up()
        except Exception as error:  # whatever it is, the outstanding requests have to hear of it
            self._give_up(error)
        if was_ready:
            self._tell(self._owner.connection_data)
        elif state.versions is not None and not self.closed:
            self.versions = state.versions
            self._tell(self._owner.connection_ready)

    def eof_received(self) -> None:
        # There will be no more answers. asyncio would close the transport and tell of it a turn later; until then
        # writelines() fails with a TypeError on Python 3.12 and 3.13.
        self.closed = True
        self._transport.abort()

    def pause_writing(self) -> None:
        self.can_write = False

    def resume_writing(self) -> None:
        self.can_write = True
        if not self.closed:
            self._tell(self._owner.connection_writable)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        error, outstanding = self._state.close(exc)
        for exchange in outstanding:
            if exchange.complete is None:
                continue
            try:
                exchange.complete(None, error)
            except Exception as bug:  # the others have to hear of it all the same
                self._owner.failed(bug)
        self._gone.set_result(None)
        self._owner.connection_lost(self, None if self._shut else error)

    def _tell(self, event: Callable[[BrokerConnection], None]) -> None:
        try:
            event(self)
        except Exception as error:  # asyncio would only log it
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """The peer broke the rules, or one of us has a bug: in both cases nobody knows where the stream stands."""
        if isinstance(error, AioprodError):
            self.abort(error)
            return
        failure = BrokerConnectionError(
            f"The connection to {self.peer} was given up after an internal error: {error!r}."
        )
        failure.__cause__ = error
        self.abort(failure)
        self._owner.failed(error)
