"""One connection to a broker without its socket: start-up, requests, answers in order, deadlines, throttling.

The owner of the socket calls `open` and writes what `take_output` gives, feeds what comes in to `received` and
completes what `next_answered` gives, and calls `close` when the socket is gone. Every error that concerns the
connection is composed here, so that it names the peer and says what the peer did.

    NEW --open--> NEGOTIATING --answer to ApiVersions--> READY
    NEGOTIATING --answer to ApiVersions, with a log-in--> AUTHENTICATING --accepted--> READY
    READY --renew--> RENEWING --accepted--> READY
    any of them --close--> CLOSED

Output leaves in two ways. The requests of the connection itself, for start-up and log-in, are buffered for
`take_output`. For a request of a caller `begin` returns only its header: the owner writes that and the body, which may
be a megabyte of records, to the socket without copying it through here.

While it is RENEWING its log-in a connection accepts no requests; those sent before are answered as usual.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from aioprod._error_codes import ErrorCode
from aioprod.errors import AioprodError, BrokerConnectionError, ProtocolError, RequestTimedOutError
from aioprod.messages import ApiVersionsRequest
from aioprod.messages.negotiation import ApiVersions, decode_api_versions, first_version, rejection, retry_version
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import FRAME_SIZE_MAX, FrameSplitter, decode_response_header, header_end, request_head
from aioprod.wire.schema import AnyRequest

if TYPE_CHECKING:
    from aioprod.net.protocol.login import Login

__all__ = ["Complete", "Connection", "Exchange", "Phase"]

Complete: TypeAlias = "Callable[[Buffer | None, AioprodError | None], object]"
"""Called once with (body of the answer, None) or (None, why there is none)."""

_CORRELATION_ID_MAX: Final = 0x7FFF_FFFF

START_FRAME_MAX: Final = 2_000_000
"""The largest answer in bytes to ApiVersions and to a log-in, and to anything before the log-in is done.

Until then any program may be the peer, and decoding takes a hundred bytes of memory for each byte. Kafka's have less
than 20 kB.
"""

THROTTLE_MAX_S: Final = 60.0
"""The longest time for which one answer may silence this client: a broker that means longer repeats it.

An answer with the largest number would silence it for 25 days.
"""

_THROTTLES_CLIENT_FROM: Final = {
    "Produce": 6,
    "Fetch": 8,
    "ListOffsets": 3,
    "Metadata": 6,
    "OffsetCommit": 4,
    "OffsetFetch": 4,
    "FindCoordinator": 2,
    "JoinGroup": 3,
    "Heartbeat": 2,
    "LeaveGroup": 2,
    "SyncGroup": 2,
    "ApiVersions": 2,
    "CreateTopics": 3,
    "DeleteTopics": 2,
    "InitProducerId": 1,
    "AddPartitionsToTxn": 1,
    "AddOffsetsToTxn": 1,
    "EndTxn": 1,
    "TxnOffsetCommit": 1,
}
"""From this version on the client waits the throttle time of a request, as the broker answers at once (KIP-219).

Before it the broker holds back its answer for that time, and the number is for information only.
"""

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Phase(Enum):
    """How far a connection has come."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    AUTHENTICATING = "logging in"
    READY = "ready"
    RENEWING = "renewing its log-in"
    CLOSED = "closed"


# Compared with each answer: an enumeration takes a microsecond to find its member before Python 3.12.
_RENEWING: Final = Phase.RENEWING


class Exchange:
    """A request that was sent and whose answer is outstanding."""

    __slots__ = ("body", "complete", "correlation_id", "deadline", "kind", "timeout_s", "version")

    def __init__(
        self,
        kind: type[AnyRequest],
        version: int,
        correlation_id: int,
        complete: Complete | None,
        timeout_s: float,
        now: float,
    ) -> None:
        self.kind = kind
        self.version = version
        self.correlation_id = correlation_id
        self.complete = complete
        self.timeout_s = timeout_s
        self.deadline = now + timeout_s
        """In monotonic seconds."""
        self.body: memoryview | None = None
        """The body of the answer once it is there: a view, to be used at once."""


class Connection:
    """The state of one connection. Times are in monotonic seconds."""

    __slots__ = (
        "_correlation_id",
        "_first_id",
        "_flexible_end",
        "_frame_size_max",
        "_frames",
        "_header_end",
        "_hello",
        "_now",
        "_output",
        "_timeout_s",
        "error",
        "exchanges",
        "last_used",
        "logged_in_at",
        "login",
        "newest_deadline",
        "peer",
        "phase",
        "protocol",
        "splitter",
        "throttled_until",
        "versions",
    )

    def __init__(
        self,
        peer: str,
        *,
        client_id: str | None,
        hello: ApiVersionsRequest,
        request_timeout_s: float,
        frame_size_max: int = FRAME_SIZE_MAX,
        protocol: str = "PLAINTEXT",
        login: Login | None = None,
    ) -> None:
        self.peer = peer
        """How error messages name the other side."""
        self.protocol = protocol
        """The `security.protocol`, for the errors."""
        self.login = login
        """The log-in that is under way or was the last one; None where there is none."""
        self.logged_in_at = 0.0
        """When the broker accepted it, in monotonic seconds."""
        self.phase = Phase.NEW
        self.versions: ApiVersions | None = None
        """None until the broker has sent them."""
        self.exchanges: deque[Exchange] = deque()
        self.error: AioprodError | None = None
        """Why the connection ends, once that is known."""
        self.throttled_until = 0.0
        self.last_used = 0.0
        """When bytes were last sent or received, in monotonic seconds."""
        self.newest_deadline = 0.0
        """The deadline of the last request, in monotonic seconds."""
        self._header_end = header_end(client_id, False)
        self._flexible_end = header_end(client_id, True)
        self._hello = hello
        """The first request; with the ids of cluster and broker where the broker is to compare them (KIP-1242)."""
        self._timeout_s = request_timeout_s
        self._frame_size_max = frame_size_max
        self.splitter = FrameSplitter(min(frame_size_max, START_FRAME_MAX))
        """Has the room for the next bytes of the stream."""
        self._frames: list[memoryview] = []
        """Those that have come and were not taken, the last one first."""
        self._now = 0.0
        self._correlation_id = 0
        self._first_id = 0
        self._output = b""

    # --- start-up

    def open(self, now: float) -> None:
        """The socket is connected: request the broker's versions."""
        self.phase = Phase.NEGOTIATING
        self._send(self._hello, first_version(self._hello), now)

    def take_output(self) -> bytes:
        """What has to be written for the start-up and for log-ins, empty if nothing."""
        output, self._output = self._output, b""
        return output

    def _send(self, message: AnyRequest, version: int, now: float) -> None:
        """A request of our own: its answer is read here."""
        used, body = self.last_used, encode(message, version)
        self._output += self.begin(type(message), version, message.is_flexible(version), len(body), now, None) + body
        if self.phase is Phase.RENEWING:
            # No use of the connection: otherwise an idle one would be kept alive by its log-ins.
            self.last_used = used

    def _negotiate(self, exchange: Exchange, body: memoryview, now: float) -> None:
        """Read the answer to ApiVersions; a broker that lacks the version gets it again in one it has (KIP-511)."""
        try:
            answer = decode_api_versions(exchange.version, body)
        except ProtocolError as fault:
            if exchange.version > 0 and body[:2] == _UNSUPPORTED_VERSION:
                # librdkafka's mock broker, for one, lists its versions in a form that no version has.
                self._send(self._hello, 0, now)
                return
            raise self.fault(fault.message) from fault
        code = ErrorCode.of(answer.error_code)
        if code == ErrorCode.UNSUPPORTED_VERSION and exchange.version > 0:
            # Some brokers list a version that they have just rejected: a lower one each time ends the retries.
            self._send(self._hello, min(retry_version(answer), exchange.version - 1), now)
            return
        if code != ErrorCode.NONE:
            raise rejection(self.peer, self._hello, exchange.version, code)
        self.versions = ApiVersions.from_response(answer)
        self.throttle(exchange.kind, exchange.version, answer.throttle_time_ms, now)
        if self.login is None or self.login.is_done:
            self._accepted()
            self._first_id = self._correlation_id + 1
        else:
            self.phase = Phase.AUTHENTICATING
            self._log_in(self.login.begin(is_renewal=False), now)

    # --- log-in

    def renew(self, login: Login, now: float) -> None:
        """Log in again, while the session of the log-in before lasts (KIP-368); the connection is READY.

        Nothing else may be sent until it is READY again.
        """
        self.login = login
        self.phase = Phase.RENEWING
        self._log_in(login.begin(is_renewal=True), now)

    def worked(self, result: bytes, now: float) -> None:
        """The `work` of the log-in is done."""
        assert self.login is not None
        self._log_in(self.login.worked(result, self.peer), now)

    def _log_in(self, messages: Sequence[AnyRequest], now: float) -> None:
        assert self.versions is not None
        assert self.login is not None
        for message in messages:
            self._send(message, self.versions.pick(type(message)), now)
        if self.login.is_done:
            self.logged_in_at = now
            if self.phase is Phase.AUTHENTICATING and self.versions.compares(self._hello):
                # Before the log-in brokers compare nothing.
                self._send(self._hello, self.versions.pick(ApiVersionsRequest), now)
            else:
                self._accepted()

    def _accepted(self) -> None:
        """Requests may be sent, whose answers may be large."""
        self.phase = Phase.READY
        self.splitter.limit(self._frame_size_max)

    def _answered(self, exchange: Exchange, body: memoryview, now: float) -> None:
        """Read the answer to one of our own requests; raises BrokerError when the broker rejects the start-up."""
        if len(body) > START_FRAME_MAX:
            raise self.fault(f"it answered {exchange.kind.NAME} with {len(body)} bytes")
        if exchange.kind is ApiVersionsRequest:
            self._negotiate(exchange, body, now)
            return
        assert self.login is not None
        try:
            answer = decode(exchange.kind.RESPONSE, exchange.version, body)
        except ProtocolError as fault:
            raise self.fault(fault.message) from fault
        self._log_in(self.login.answered(answer, self.peer), now)

    # --- requests and answers

    def begin(
        self,
        kind: type[AnyRequest],
        version: int,
        flexible: bool,
        size: int,
        now: float,
        complete: Complete | None,
        timeout_s: float | None = None,
        expect_response: bool = True,
    ) -> bytes:
        """Frame size and header of a request whose body of `size` bytes is written next; its answer is awaited."""
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        self.last_used = now
        if expect_response:
            timeout_s = self._timeout_s if timeout_s is None else timeout_s
            self.newest_deadline = now + timeout_s
            self.exchanges.append(Exchange(kind, version, correlation_id, complete, timeout_s, now))
        end = self._flexible_end if flexible else self._header_end
        return request_head(size, kind.API_KEY, version, correlation_id, end)

    def received(self, data: bytes | None, count: int, now: float) -> None:
        """`count` bytes have come, which `next_answered` takes; without `data` they are in the room of `splitter`.

        Raises ProtocolError for bytes that no Kafka broker sends. The connection must be aborted then.
        """
        self._now = now
        if self.phase is not _RENEWING:
            self.last_used = now
        try:
            self._frames = self.splitter.received(count) if data is None else self.splitter.feed(data)
        except ProtocolError as fault:
            hint = self._hint() if self.phase is Phase.NEGOTIATING else None
            raise ProtocolError(fault.message.replace("The peer", self.peer, 1), hint=fault.hint or hint) from fault
        self._frames.reverse()

    def next_answered(self) -> Exchange | None:
        """The next exchange that the bytes just received answer, with the body; None after the last one.

        Those of the connection itself are handled on the way. Raises ProtocolError for bytes that no Kafka broker sends
        at this point, BrokerError when the broker rejects the start-up. The connection must be aborted then.
        """
        while self._frames:
            frame = self._frames.pop()
            if not self.exchanges:
                raise self.fault("it sent bytes without a request")
            exchange = self.exchanges[0]
            try:
                correlation_id, body = decode_response_header(exchange.kind.RESPONSE, exchange.version, frame)
            except ProtocolError as fault:
                raise self.fault(fault.message) from fault
            if correlation_id != exchange.correlation_id:
                raise self.fault(f"it answered request {correlation_id} where {exchange.correlation_id} is next")
            self.exchanges.popleft()
            exchange.body = body
            if exchange.complete is not None:
                self.last_used = self._now
                return exchange
            self._answered(exchange, body, self._now)
        return None

    def fault(self, what: str) -> ProtocolError:
        """The error for a peer that sent what no broker sends."""
        text = what.rstrip(".")
        if self.phase is Phase.NEGOTIATING:
            return ProtocolError(f"{self.peer} is not a Kafka broker: {text}.", hint=self._hint())
        return ProtocolError(f"{self.peer} broke the protocol: {text}.")

    def throttle(self, kind: type[AnyRequest], version: int, throttle_time_ms: int, now: float) -> None:
        """Send nothing for the time that an answer says, a minute at most; in old versions the broker has waited."""
        first = _THROTTLES_CLIENT_FROM.get(kind.NAME)
        if throttle_time_ms > 0 and first is not None and version >= first:
            self.throttled_until = max(self.throttled_until, now + min(throttle_time_ms / 1000.0, THROTTLE_MAX_S))

    def unthrottle(self) -> None:
        """End the throttling: its time has passed."""
        self.throttled_until = 0.0

    # --- deadlines and the end

    def rename(self, peer: str) -> None:
        """Name the broker in the errors to come."""
        self.peer = peer

    def end_with(self, error: AioprodError) -> None:
        """Give the reason for which the connection ends; the first reason counts."""
        if self.error is None:
            self.error = error

    def next_deadline(self) -> float:
        """When the first of the outstanding answers is overdue, in monotonic seconds; infinity if there is none."""
        return min((exchange.deadline for exchange in self.exchanges), default=math.inf)

    def poll_at(self, now: float) -> float:
        """When to call `overdue` next, in monotonic seconds; infinity if the connection is idle.

        After the last answer that is when the next request could be overdue, so that a request after a short pause
        needs no timer of its own.
        """
        if self.exchanges:
            return self.next_deadline()
        due = self.last_used + self._timeout_s
        return due if due > now else math.inf

    def overdue(self, now: float) -> RequestTimedOutError | None:
        """Why the connection must be aborted now, if an answer is overdue."""
        for exchange in self.exchanges:
            if exchange.deadline <= now:
                what = f"did not answer {exchange.kind.NAME} within {exchange.timeout_s:g} s"
                if self.phase is Phase.NEGOTIATING:
                    return RequestTimedOutError(f"{self.peer} accepted the connection and {what}.", hint=self._hint())
                return RequestTimedOutError(f"{self.peer} {what}, so the connection was aborted.")
        return None

    def close(self, cause: BaseException | None) -> tuple[AioprodError, list[Exchange]]:
        """The socket is gone, for the `cause` that the system gives.

        Returns why it ended, and the exchanges that get no answer.
        """
        if self.error is None:
            self.error = self._lost(None if cause is None else getattr(cause, "strerror", None) or repr(cause))
            self.error.__cause__ = cause
        self.phase = Phase.CLOSED
        outstanding = list(self.exchanges)
        self.exchanges.clear()
        return self.error, outstanding

    def _lost(self, reason: str | None) -> BrokerConnectionError:
        what = "closed the connection" if reason is None else f"broke the connection ({reason})"
        if self.phase is Phase.NEGOTIATING:
            peers, hint = "no Kafka broker does", self._hint()
            if "SSL" not in self.protocol:
                peers = f"a TLS listener or {peers}"
                hint += " For one with TLS set security.protocol to SSL or SASL_SSL."
            return BrokerConnectionError(f"{self.peer} {what} before it answered ApiVersions, as {peers}.", hint=hint)
        if self.phase in (Phase.AUTHENTICATING, Phase.RENEWING) and self.login is not None:
            return BrokerConnectionError(f"{self.peer} {what} during the log-in by {self.login.mechanism}.")
        if reason is None:
            is_first = bool(self.exchanges) and self.exchanges[0].correlation_id == self._first_id
            if self.login is not None or not is_first:
                return BrokerConnectionError(f"{self.peer} closed the connection.")
            return BrokerConnectionError(
                f"{self.peer} closed the connection in place of an answer to the first request, "
                "as a listener with SASL does.",
                hint=f"If it wants a log-in, set security.protocol to SASL_{self.protocol}, and sasl.mechanism.",
                is_mismatch=True,
            )
        return BrokerConnectionError(f"The connection to {self.peer} was lost: {reason}.")

    def _hint(self) -> str:
        return f"Check host and port: a Kafka listener with security.protocol {self.protocol} is needed."
