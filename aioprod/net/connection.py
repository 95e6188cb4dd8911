"""The socket of one broker connection, as an asyncio protocol around `protocol.connection.Connection`.

It writes what the state machine outputs, feeds it what arrives, completes the requests, and reports events to its
owner. The transport's buffer is the only write buffer: above its high-water mark `can_write` is False.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from aioprod.errors import AioprodError, BrokerConnectionError
from aioprod.messages.negotiation import ApiVersions, ByVersion
from aioprod.net.addresses import text_of
from aioprod.net.pending_response import PendingResponse
from aioprod.net.protocol.connection import Complete, Connection, Phase
from aioprod.net.settings import Address
from aioprod.net.traffic import Traffic
from aioprod.net.unforeseen import internal_failure
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import encode
from aioprod.wire.schema import AnyRequest, Request, Response

if TYPE_CHECKING:
    from aioprod.net.events import ConnectionOwner
    from aioprod.net.protocol.login import Login
    from aioprod.net.protocol.sasl.mechanism import Work
    from aioprod.net.tls.contexts import Tls

__all__ = ["BrokerConnection"]

ResponseT = TypeVar("ResponseT", bound=Response)

# Used for each response: looking up an enum member takes a microsecond before Python 3.12.
_READY: Final = Phase.READY
_NEW: Final = Phase.NEW


class BrokerConnection:
    """One connection to a broker, over TCP or TLS; usable once `connection_ready` was called.

    An asyncio protocol, although no `asyncio.Protocol`: a compiled class has no Python class for a base.

    `wake_at(when)` is called with each new deadline, in monotonic seconds, and `failed` with an error whose cause is
    what a callback raised.
    """

    versions: ApiVersions
    _transport: asyncio.Transport

    def __init__(
        self,
        state: Connection,
        node_id: int,
        address: Address,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        wake_at: Callable[[float], None],
        failed: Callable[[BaseException], object],
        tls: Tls | None = None,
        traffic: Traffic | None = None,
    ) -> None:
        self.node_id = node_id
        """Negative for a bootstrap server."""
        self.address = address
        self.can_write = True
        self.is_ready = False
        """It was ready once."""
        self.closed = False
        """It accepts no more requests; those in flight are completed when the transport is closed."""
        self.local = ""
        self._state = state
        self._owner = owner
        self._loop = loop
        self._clock = clock
        self._wake_at = wake_at
        self._failed = failed
        self._gone: asyncio.Future[None] = loop.create_future()
        self._shut = False
        self._is_paused = False
        self._is_renewing = False
        self.is_stopped = False
        """Another connection is about to take over."""
        self.tls = tls
        self._traffic = traffic or Traffic()
        self._working: asyncio.Future[bytes] | None = None
        self._polled_by = math.inf

    def __repr__(self) -> str:
        return f"<BrokerConnection {self.local} -> {self.peer}, {self._state.phase.value}, {self.in_flight} in flight>"

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""
        return self._state.peer

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._state.exchanges)

    @property
    def throttled_until(self) -> float:
        """Until when the broker throttles us, in monotonic seconds; 0.0 if it does not."""
        return self._state.throttled_until

    @property
    def last_used(self) -> float:
        """When bytes were last sent or received, in monotonic seconds."""
        return self._state.last_used

    @property
    def waits_since(self) -> float:
        """When the oldest request in flight was sent, in monotonic seconds; infinite without one."""
        return min((exchange.deadline - exchange.timeout_s for exchange in self._state.exchanges), default=math.inf)

    @property
    def waits_until(self) -> float:
        """The latest deadline of the requests in flight, in monotonic seconds; minus infinity without one."""
        return max((exchange.deadline for exchange in self._state.exchanges), default=-math.inf)

    @property
    def logged_in_at(self) -> float:
        """When the broker accepted the last log-in, in monotonic seconds; 0.0 without one."""
        return self._state.logged_in_at

    @property
    def login(self) -> Login | None:
        """The log-in in progress, or the last one."""
        return self._state.login

    @property
    def session_lifetime_s(self) -> float:
        """How long the broker accepts requests after the last log-in, in seconds; 0.0 for no limit."""
        return 0.0 if self._state.login is None else self._state.login.session_lifetime_s

    def rename(self, node_id: int, peer: str, traffic: Traffic) -> None:
        """Name the broker: metadata has shown which one listens at this address, so that its traffic counts there."""
        self.node_id = node_id
        self._traffic = traffic
        self._state.rename(peer)

    def change_owner(self, owner: ConnectionOwner) -> None:
        """Report events to another owner from now on."""
        self._owner = owner

    # --- requests

    def accepts_request(self, now: float) -> bool:
        """Whether a request may be written now: not closed, not paused, not throttled."""
        return self.can_write and not self.closed and self._state.throttled_until <= now

    def request(
        self, message: Request[ResponseT] | ByVersion[ResponseT], *, timeout_s: float | None = None
    ) -> asyncio.Future[ResponseT]:
        """Send `message` in the newest version that both sides support; the future gives the decoded response.

        The default timeout is `request.timeout.ms`; when it passes, the whole connection is aborted. Raises
        UnsupportedVersionError, or the reason if the connection is closed; the future fails with
        BrokerConnectionError or ProtocolError. Cancelling the future drops the response, not the request.
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
        pending = PendingResponse(kind, version, future, self._state.fault, self.throttle)
        flexible = kind.is_flexible(version)
        self.send_parts(kind, version, flexible, (body,), len(body), pending.complete, timeout_s=timeout_s)
        return future

    def send_parts(
        self,
        kind: type[AnyRequest],
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

        `complete(body, error)` is called once: with the body of the response, or with an error, and then only when the
        transport no longer holds the parts. They must not change before. With
        `expect_response=False` (acks=0) the parts are copied and `complete` is never called. Raises the reason if
        the connection is closed.
        """
        if self.closed:
            raise self._state.error or BrokerConnectionError(f"The connection to {self.peer} is closed.")
        header = self._state.begin(
            kind,
            version,
            flexible,
            size,
            self._clock(),
            complete,
            timeout_s=timeout_s,
            expect_response=expect_response,
        )
        self._traffic.requests += 1
        self._traffic.bytes_out += len(header) + size
        if expect_response:
            data = [header, *parts]
            try:
                self._transport.writelines(data if self.tls is None else self.tls.joined(data))
            except BaseException as error:  # the request fails with those before it, when the transport is closed
                self._abort_after(error)
                return
            deadline = self._state.newest_deadline
            if deadline < self._polled_by:
                # Later requests need no call: `expire` looks at all of them.
                self._polled_by = deadline
                self._wake_at(deadline)
        else:
            self._transport.write(b"".join([header, *parts]))

    def throttle(self, kind: type[AnyRequest], version: int, throttle_time_ms: int) -> None:
        """Apply the throttle time of a response; `request` does so itself, callers of `send_parts` have to."""
        if throttle_time_ms > 0:
            self._state.throttle(kind, version, throttle_time_ms, self._clock())
            self._wake_at(self._state.throttled_until)

    def unthrottle(self) -> None:
        """End the throttling: its time has passed."""
        self._state.unthrottle()

    def stop_writing(self) -> None:
        """Report `can_write` as False, so that the requests in flight complete; `request` still works."""
        self.is_stopped = True
        self.can_write = False

    def allow_writing(self) -> None:
        """Undo `stop_writing`."""
        self.is_stopped = False
        self._reopen()

    def _reopen(self) -> None:
        self.can_write = not (self._is_paused or self._is_renewing or self.is_stopped)
        if self.can_write and not self.closed:
            self._report(self._owner.connection_writable)

    # --- log-in

    def renew(self, login: Login) -> None:
        """Re-authenticate (KIP-368); no requests may be sent until the broker has accepted."""
        self.can_write = False
        self._is_renewing = True
        self._state.renew(login, self._clock())
        self._write_own()
        self._wake_at(self._state.next_deadline())

    def _do(self, work: Work) -> None:
        """Run a slow computation of the log-in in a thread."""

        def done(future: asyncio.Future[bytes]) -> None:
            self._working = None
            if self.closed or future.cancelled():
                return
            try:
                self._state.worked(future.result(), self._clock())
                self._advance()
            except BaseException as error:  # of any type: the requests in flight must fail
                self._abort_after(error)

        if self._working is None:
            self._working = self._loop.run_in_executor(None, work.run)
            self._working.add_done_callback(done)

    # --- closing

    def expire(self, now: float) -> float:
        """Abort the connection if a response is overdue; return the next deadline, in monotonic seconds."""
        if not self.closed and (error := self._state.overdue(now)) is not None:
            self.abort(error)
        self._polled_by = math.inf if self.closed else self._state.poll_at(now)
        return self._polled_by

    def abort(self, error: AioprodError) -> None:
        """Abort at once; the requests in flight fail with `error` when the transport is closed."""
        self._state.end_with(error)
        self.closed = True
        self._transport.abort()

    def shut(self) -> None:
        """Accept no more requests, flush the write buffer, then close."""
        if not self.closed:
            self.closed = self._shut = True
            self._state.end_with(BrokerConnectionError(f"The connection to {self.peer} was closed by this client."))
            self._transport.close()

    def abandon(self) -> None:
        """Clean up after connecting was cancelled or failed.

        uvloop closes the transport then without calling `connection_lost`; asyncio calls it later, without effect.
        """
        if self._state.phase is not _NEW and not self._gone.done():
            self._transport.abort()
            self.connection_lost(None)

    async def close(self, flush_s: float = 0.05) -> None:
        """Shut, and wait until the transport is closed; what is not flushed after `flush_s` seconds is dropped."""
        self.shut()
        try:
            await asyncio.wait([self._gone], timeout=flush_s)
        finally:
            self._transport.abort()
        await self._gone

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: the transports of uvloop are not asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        try:
            name = transport.get_extra_info("sockname")
            self.local = "" if name is None else text_of(name[:2])
            self._state.open(self._clock())
            self._owner.connection_made(self)
            self._write_own()
        except BaseException as error:  # asyncio would only log it
            self.closed = True
            failure = self._internal(error)
            self._state.end_with(failure)
            self._failed(failure)

    def _write_own(self) -> None:
        """Write the output of the start-up or the log-in."""
        output = self._state.take_output()
        if output:
            self._transport.write(output)
            self._wake_at(self._state.next_deadline())

    def data_received(self, data: bytes) -> None:
        self.received(len(data), bytes(data))

    # --- asyncio.BufferedProtocol, with these methods in place of data_received(): for a `BufferedConnection`

    def room(self, _size_hint: int) -> memoryview:
        """Where the transport is to put the next bytes."""
        return self._state.splitter.room()

    def received(self, count: int, data: bytes | None = None) -> None:
        """`count` bytes have come into `room()`, or as `data`: complete the requests they answer, notify the owner."""
        state = self._state
        now = self._clock()
        self._traffic.bytes_in += count
        try:
            state.received(data, count, now)
            while (exchange := state.next_answered()) is not None:
                self._traffic.responses += 1
                assert exchange.complete is not None
                exchange.complete(exchange.body, None)
                if self.closed:
                    break
            if state.phase is not _READY or self._is_renewing:
                self._advance()
        except BaseException as error:  # of any type: the requests in flight must fail
            self._abort_after(error)
        if self.is_ready:
            try:  # What `_report` does, without an object for the method: this is called for each response.
                self._owner.connection_data(self, now)
            except BaseException as error:
                self._abort_after(error)
        elif state.phase is _READY and not self.closed:
            assert state.versions is not None
            self.versions = state.versions
            self.is_ready = True
            self._report(self._owner.connection_ready)

    def _advance(self) -> None:
        """Do the next step of the start-up or the log-in."""
        login = self._state.login
        if login is not None and login.work is not None:
            self._do(login.work)
        self._write_own()
        if self._is_renewing and self._state.phase is _READY and not self.closed:
            self._is_renewing = False
            self.can_write = not (self._is_paused or self.is_stopped)
            self._report(self._owner.connection_renewed)

    def eof_received(self) -> None:
        # There will be no more responses. asyncio would close the transport, and report that one loop iteration later;
        # until then writelines() fails with a TypeError on Python 3.12 and 3.13.
        self.closed = True
        self._transport.abort()

    def pause_writing(self) -> None:
        self._is_paused = True
        self.can_write = False

    def resume_writing(self) -> None:
        self._is_paused = False
        self._reopen()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._gone.done():
            return
        self.closed = True
        if isinstance(exc, ssl.SSLError) and self.tls is not None:
            self._state.end_with(self.tls.failure(exc, text_of(self.address)))
        error, outstanding = self._state.close(exc)
        for exchange in outstanding:
            if exchange.complete is None:
                continue
            try:
                exchange.complete(None, error)
            except BaseException as bug:  # the other requests must fail all the same
                self._failed(self._internal(bug))
        self._gone.set_result(None)
        try:
            self._owner.connection_lost(self, None if self._shut else error)
        except BaseException as bug:  # asyncio would only log it
            self._failed(self._internal(bug))

    def _report(self, event: Callable[[BrokerConnection], None]) -> None:
        try:
            event(self)
        except BaseException as error:  # asyncio would only log it
            self._abort_after(error)

    def _abort_after(self, error: BaseException) -> None:
        """Abort after a protocol error or a bug: either way the position in the stream is lost."""
        if isinstance(error, AioprodError):
            self.abort(error)
            return
        failure = self._internal(error)
        self.abort(failure)
        self._failed(failure)

    def _internal(self, error: BaseException) -> BrokerConnectionError:
        return internal_failure(f"The connection to {self.peer} was aborted after", error)
