"""The socket of one broker connection: bytes in, bytes out, events to the owner; core.connection decides."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from aioprod.core.connection import Complete, Connection, Phase
from aioprod.errors import AioprodError, BrokerConnectionError, ProtocolError
from aioprod.messages.negotiation import ApiVersions, ByVersion
from aioprod.net.addresses import text_of
from aioprod.net.settings import Address
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from aioprod.wire.schema import AnyRequest, Request, Response

if TYPE_CHECKING:
    from aioprod.core.login import Login
    from aioprod.core.sasl.mechanism import Work
    from aioprod.net.events import ConnectionOwner
    from aioprod.net.tls.contexts import Tls

__all__ = ["BrokerConnection"]

ResponseT = TypeVar("ResponseT", bound=Response)

_JOINED_MAX: Final = 16384
"""Over TLS shorter parts are joined: each write is a record of its own, which costs more than to copy them."""

# Asked for with each answer: an enumeration takes a microsecond to find its member before Python 3.12.
_READY: Final = Phase.READY
_NEW: Final = Phase.NEW


class BrokerConnection(asyncio.Protocol):
    """One connection to a broker, by TCP or by TLS on it; usable once `connection_ready` was called.

    `address` is what it was made to, `tls` what it was made with; `node_id` is that of the broker it is used for,
    negative for a bootstrap server. `is_ready` tells that it was ready once, `is_held` that another one is to take
    over. `closed` tells that no more requests are taken; what is outstanding is completed when the transport is gone.
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
        wake_at: Callable[[float], None],
        failed: Callable[[BaseException], object],
        tls: Tls | None = None,
    ) -> None:
        self.node_id = node_id
        self.address = address
        self.can_write = True
        self.is_ready = False
        self.closed = False
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
        self.is_held = False
        self.tls = tls
        self._working: asyncio.Future[bytes] | None = None
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

    @property
    def waits_until(self) -> float:
        """When the last of the outstanding answers is overdue, in monotonic seconds; minus infinity without one."""
        return max((exchange.deadline for exchange in self._state.exchanges), default=-math.inf)

    @property
    def logged_in_at(self) -> float:
        """When the broker accepted the last log-in, in monotonic seconds; 0.0 without one."""
        return self._state.logged_in_at

    @property
    def login(self) -> Login | None:
        """The log-in that is under way or was the last one."""
        return self._state.login

    @property
    def session_lifetime_s(self) -> float:
        """How long the broker accepts requests after the last log-in, in seconds; 0.0 for ever."""
        return 0.0 if self._state.login is None else self._state.login.session_lifetime_s

    def rename(self, node_id: int, peer: str) -> None:
        """The address turned out to be that of broker `node_id`."""
        self.node_id = node_id
        self._state.peer = peer

    def change_owner(self, owner: ConnectionOwner) -> None:
        """Report events to another owner from now on."""
        self._owner = owner

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
            self.throttle(kind, version, getattr(response, "throttle_time_ms", 0))
            future.set_result(response)

        flexible = kind.is_flexible(version)
        self.send_parts(kind, version, flexible, (body,), len(body), complete, timeout_s=timeout_s)
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

        `complete(body, error)` is called once: with the body of the answer, or with the reason why there is none, and
        then only when the transport no longer holds the parts. They must not change before. With
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
        if expect_response:
            data = [header, *parts]
            self._transport.writelines(data if self.tls is None else _joined(data))
            self._wake_at(self._state.exchanges[-1].deadline)
        else:
            self._transport.write(b"".join([header, *parts]))

    def throttle(self, kind: type[AnyRequest], version: int, throttle_time_ms: int) -> None:
        """Take note of the throttle time in an answer; `request` does so itself, the user of `send_parts` has to."""
        if throttle_time_ms > 0:
            self._state.throttle(kind, version, throttle_time_ms, self._clock())
            self._wake_at(self._state.throttled_until)

    def unthrottle(self) -> None:
        """The throttle time has passed."""
        self._state.throttled_until = 0.0

    def hold(self) -> None:
        """Take no requests for a while but those of `request`, so that what is on the way comes to its end."""
        self.is_held = True
        self.can_write = False

    def release(self) -> None:
        """Take requests again."""
        self.is_held = False
        self._allow_writing()

    def _allow_writing(self) -> None:
        self.can_write = not (self._is_paused or self._is_renewing or self.is_held)
        if self.can_write and not self.closed:
            self._tell(self._owner.connection_writable)

    # -- log-in ------------------------------------------------------------------------------------------------------

    def renew(self, login: Login) -> None:
        """Log in again on this connection (KIP-368); it takes no requests until the broker has accepted."""
        self.can_write = False
        self._is_renewing = True
        self._state.renew(login, self._clock())
        self._write_own()
        self._wake_at(self._state.next_deadline())

    def _do(self, work: Work) -> None:
        """Have a thread do what would hold the loop up."""

        def done(future: asyncio.Future[bytes]) -> None:
            self._working = None
            if self.closed or future.cancelled():
                return
            try:
                self._state.worked(future.result(), self._clock())
                self._go_on()
            except Exception as error:  # whatever it is, the outstanding requests have to hear of it
                self._give_up(error)

        if self._working is None:
            self._working = self._loop.run_in_executor(None, work.run)
            self._working.add_done_callback(done)

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

    def abandon(self) -> None:
        """End a connection whose making was cancelled or failed, if need be.

        uvloop closes the transport then without calling `connection_lost`; asyncio calls it later, without effect.
        """
        if self._state.phase is not _NEW and not self._gone.done():
            self._transport.abort()
            self.connection_lost(None)

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
        self._write_own()

    def _write_own(self) -> None:
        """Write what the start-up or a log-in wants to be written."""
        output = self._state.take_output()
        if output:
            self._transport.write(output)
            self._wake_at(self._state.next_deadline())

    def data_received(self, data: bytes) -> None:
        state = self._state
        try:
            for exchange, body in state.receive(data, self._clock()):
                assert exchange.complete is not None
                exchange.complete(body, None)
                if self.closed:
                    break
            if state.phase is not _READY or self._is_renewing:
                self._go_on()
        except Exception as error:  # whatever it is, the outstanding requests have to hear of it
            self._give_up(error)
        if self.is_ready:
            self._tell(self._owner.connection_data)
        elif state.phase is _READY and not self.closed:
            assert state.versions is not None
            self.versions = state.versions
            self.is_ready = True
            self._tell(self._owner.connection_ready)

    def _go_on(self) -> None:
        """The start-up or a log-in is under way: do what it wants next."""
        login = self._state.login
        if login is not None and login.work is not None:
            self._do(login.work)
        self._write_own()
        if self._is_renewing and self._state.phase is _READY and not self.closed:
            self._is_renewing = False
            self.can_write = not (self._is_paused or self.is_held)
            self._tell(self._owner.connection_renewed)

    def eof_received(self) -> None:
        # There will be no more answers. asyncio would close the transport and tell of it a turn later; until then
        # writelines() fails with a TypeError on Python 3.12 and 3.13.
        self.closed = True
        self._transport.abort()

    def pause_writing(self) -> None:
        self._is_paused = True
        self.can_write = False

    def resume_writing(self) -> None:
        self._is_paused = False
        self._allow_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._gone.done():
            return
        self.closed = True
        if isinstance(exc, ssl.SSLError) and self.tls is not None and self._state.error is None:
            self._state.error = self.tls.failure(exc, text_of(self.address))
        error, outstanding = self._state.close(exc)
        for exchange in outstanding:
            if exchange.complete is None:
                continue
            try:
                exchange.complete(None, error)
            except Exception as bug:  # the others have to hear of it all the same
                self._failed(bug)
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
            f"The connection to {self.peer} was given up after an internal error: {type(error).__name__}."
        )
        failure.__cause__ = error
        self.abort(failure)
        self._failed(error)


def _joined(parts: Sequence[Buffer]) -> list[Buffer]:
    """The same bytes with runs of short parts made one."""
    joined: list[Buffer] = []
    short: list[Buffer] = []
    for part in parts:
        if len(part) < _JOINED_MAX:
            short.append(part)
            continue
        if short:
            joined.append(b"".join(short))
            short = []
        joined.append(part)
    if short:
        joined.append(b"".join(short))
    return joined
