"""One connection to a broker without its socket: start-up, requests, answers in order, deadlines, throttling.

The owner of the socket calls `open` and writes what `take_output` gives, feeds what comes in to `receive` and
completes what it yields, and calls `close` when the socket is gone. Every error that concerns the connection is
composed here, so that it names the peer and says what the peer did.

    NEW --open--> NEGOTIATING --answer to ApiVersions--> READY
     any of them --close--> CLOSED
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, TypeAlias

from aioprod._error_codes import ErrorCode
from aioprod.errors import AioprodError, BrokerConnectionError, BrokerError, ProtocolError, RequestTimedOutError
from aioprod.messages import ApiVersionsRequest
from aioprod.messages.negotiation import ApiVersions, decode_api_versions, version_to_ask_again
from aioprod.messages.registry import AnyRequest
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import encode
from aioprod.wire.frame import FRAME_SIZE_MAX, FrameSplitter, decode_response_header, request_header

__all__ = ["Complete", "Connection", "Exchange", "Phase"]

Complete: TypeAlias = "Callable[[Buffer | None, AioprodError | None], object]"
"""Called once with (body of the answer, None) or (None, why there is none)."""

_CORRELATION_ID_MAX: Final = 0x7FFF_FFFF

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
"""First version of a request whose throttle time the client has to wait itself: the broker answers first (KIP-219).

Before it the broker held back the answer for that time, and the number is only for information.
"""

_UNSUPPORTED_VERSION: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")

_NOT_KAFKA_HINT: Final = "Check host and port: a Kafka listener with security.protocol PLAINTEXT is needed."


class Phase(Enum):
    """How far a connection has come."""

    NEW = "new"
    NEGOTIATING = "negotiating"
    READY = "ready"
    CLOSED = "closed"


class Exchange:
    """A request that was sent and whose answer is outstanding; `deadline` is in monotonic seconds."""

    __slots__ = ("complete", "correlation_id", "deadline", "kind", "timeout_s", "version")

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


class Connection:
    """The state of one connection to `peer`, which is how error messages name the other side.

    `versions` is None until READY. `throttled_until` and `last_used` are monotonic seconds. `error` is why the
    connection ends, once that is known.
    """

    __slots__ = (
        "_client_id",
        "_correlation_id",
        "_output",
        "_software",
        "_splitter",
        "_timeout_s",
        "error",
        "exchanges",
        "last_used",
        "peer",
        "phase",
        "throttled_until",
        "versions",
    )

    def __init__(
        self,
        peer: str,
        *,
        client_id: str | None,
        software_name: str,
        software_version: str,
        request_timeout_s: float,
        frame_size_max: int = FRAME_SIZE_MAX,
    ) -> None:
        self.peer = peer
        self.phase = Phase.NEW
        self.versions: ApiVersions | None = None
        self.exchanges: deque[Exchange] = deque()
        self.error: AioprodError | None = None
        self.throttled_until = 0.0
        self.last_used = 0.0
        self._client_id = client_id
        self._software = (software_name, software_version)
        self._timeout_s = request_timeout_s
        self._splitter = FrameSplitter(frame_size_max)
        self._correlation_id = 0
        self._output = b""

    # -- start-up ----------------------------------------------------------------------------------------------------

    def open(self, now: float) -> None:
        """The socket is connected: ask for the broker's versions, at the newest version of that question."""
        self.phase = Phase.NEGOTIATING
        self._ask_versions(ApiVersionsRequest.VERSIONS[1], now)

    def take_output(self) -> bytes:
        """What has to be written for the start-up, empty if nothing."""
        output, self._output = self._output, b""
        return output

    def _ask_versions(self, version: int, now: float) -> None:
        name, software_version = self._software
        message = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
        body = encode(message, version)
        flexible = message.is_flexible(version)
        self._output += self.begin(ApiVersionsRequest, version, flexible, len(body), now, None) + body

    def _negotiate(self, exchange: Exchange, body: memoryview, now: float) -> None:
        """Read the answer to ApiVersions; a broker that lacks the version is asked again in one it has (KIP-511)."""
        try:
            answer = decode_api_versions(exchange.version, body)
        except ProtocolError as fault:
            if exchange.version > 0 and body[:2] == _UNSUPPORTED_VERSION:
                # librdkafka's mock broker, for one, lists its versions in a form that no version has.
                self._ask_versions(0, now)
                return
            raise self.fault(fault.message) from fault
        code = ErrorCode.of(answer.error_code)
        if code == ErrorCode.UNSUPPORTED_VERSION and exchange.version > 0:
            # Some brokers list a version that they have just refused: going down each time ends the asking.
            self._ask_versions(min(version_to_ask_again(answer), exchange.version - 1), now)
            return
        if code != ErrorCode.NONE:
            name = code.name if isinstance(code, ErrorCode) else f"error code {code}"
            raise BrokerError(f"{self.peer} refused ApiVersions v{exchange.version}: {name}.", code=code)
        self.versions = ApiVersions.from_response(answer)
        self.phase = Phase.READY
        self.throttle(exchange.kind, exchange.version, answer.throttle_time_ms, now)

    # -- requests and answers ----------------------------------------------------------------------------------------

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
            self.exchanges.append(Exchange(kind, version, correlation_id, complete, timeout_s, now))
        header = request_header(kind.API_KEY, version, flexible, correlation_id, self._client_id)
        return (len(header) + size).to_bytes(4, "big") + header

    def receive(self, data: bytes, now: float) -> Iterator[tuple[Exchange, memoryview]]:
        """The exchanges that `data` completes, each with the body of its answer, a view that must be used at once.

        Raises ProtocolError when the peer says what a Kafka broker would not say at this point, BrokerError when it
        refuses the start-up. The connection must be given up then.
        """
        self.last_used = now
        try:
            frames = self._splitter.feed(data)
        except ProtocolError as fault:
            hint = _NOT_KAFKA_HINT if self.phase is Phase.NEGOTIATING else None
            raise ProtocolError(fault.message.replace("The peer", self.peer, 1), hint=fault.hint or hint) from fault
        for frame in frames:
            exchange, body = self._match(frame)
            if self.phase is Phase.NEGOTIATING:
                self._negotiate(exchange, body, now)
            else:
                yield exchange, body

    def _match(self, frame: memoryview) -> tuple[Exchange, memoryview]:
        if not self.exchanges:
            raise self.fault("it sent bytes that nobody asked for")
        exchange = self.exchanges[0]
        try:
            correlation_id, body = decode_response_header(exchange.kind.RESPONSE, exchange.version, frame)
        except ProtocolError as fault:
            raise self.fault(fault.message) from fault
        if correlation_id != exchange.correlation_id:
            raise self.fault(f"it answered request {correlation_id} where {exchange.correlation_id} is next")
        self.exchanges.popleft()
        return exchange, body

    def fault(self, what: str) -> ProtocolError:
        """The error for a peer that said what no broker says."""
        text = what.rstrip(".")
        if self.phase is Phase.NEGOTIATING:
            return ProtocolError(f"{self.peer} is no Kafka broker: {text}.", hint=_NOT_KAFKA_HINT)
        return ProtocolError(f"{self.peer} broke the protocol: {text}.")

    def throttle(self, kind: type[AnyRequest], version: int, throttle_time_ms: int, now: float) -> None:
        """An answer asks to send nothing for that time; versions in which the broker waited itself are left alone."""
        first = _THROTTLES_CLIENT_FROM.get(kind.NAME)
        if throttle_time_ms > 0 and first is not None and version >= first:
            self.throttled_until = max(self.throttled_until, now + throttle_time_ms / 1000.0)

    # -- deadlines and the end ---------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When the first of the outstanding answers is overdue, in monotonic seconds; infinity if there is none."""
        return min((exchange.deadline for exchange in self.exchanges), default=math.inf)

    def overdue(self, now: float) -> RequestTimedOutError | None:
        """Why the connection must be given up now, if an answer is overdue."""
        for exchange in self.exchanges:
            if exchange.deadline <= now:
                what = f"did not answer {exchange.kind.NAME} within {exchange.timeout_s:g} s"
                if self.phase is Phase.NEGOTIATING:
                    return RequestTimedOutError(
                        f"{self.peer} accepted the connection and {what}.", hint=_NOT_KAFKA_HINT
                    )
                return RequestTimedOutError(f"{self.peer} {what}, so the connection was given up.")
        return None

    def close(self, cause: BaseException | None) -> tuple[AioprodError, list[Exchange]]:
        """The socket is gone, `cause` is what the system says: why it ended, and the exchanges that get no answer."""
        if self.error is None:
            self.error = self._lost(None if cause is None else getattr(cause, "strerror", None) or repr(cause))
            self.error.__cause__ = cause
        self.phase = Phase.CLOSED
        outstanding = list(self.exchanges)
        self.exchanges.clear()
        return self.error, outstanding

    def _lost(self, reason: str | None) -> BrokerConnectionError:
        if self.phase is Phase.NEGOTIATING:
            what = "closed the connection" if reason is None else f"broke the connection ({reason})"
            return BrokerConnectionError(
                f"{self.peer} {what} before it answered ApiVersions, as a TLS listener or no Kafka broker does.",
                hint=_NOT_KAFKA_HINT,
            )
        if reason is None:
            return BrokerConnectionError(f"{self.peer} closed the connection.")
        return BrokerConnectionError(f"The connection to {self.peer} was lost: {reason}.")
