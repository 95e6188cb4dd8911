"""A `BrokerConnection` without its socket: requests, their futures, and its owner."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from aioprod.errors import AioprodError, BrokerConnectionError, BrokerError, ProtocolError
from aioprod.messages import FetchRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest
from aioprod.net.connection import BrokerConnection
from aioprod.net.dialing import hello
from aioprod.net.events import ConnectionOwner
from aioprod.net.protocol.connection import Connection
from aioprod.wire.frame import encode_response
from aioprod.wire.schema import Request, Response
from tests.fuzz.targets.streams import FRAME_SIZE_MAX, VERSIONS_ANSWER, chunks
from tests.support.messages import filled

__all__ = ["connection", "connection_seeds"]

REQUESTS_SENT: tuple[Request[Any], ...] = (
    MetadataRequest(topics=None),
    FetchRequest(max_wait_ms=1, min_bytes=1),
    ListOffsetsRequest(replica_id=-1),
    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
)
"""The requests that are sent in turn."""
AHEAD = 2
ALLOWED_ERRORS = (ProtocolError, BrokerError, BrokerConnectionError)
"""The errors that a request may fail with."""
GREETING = encode_response(VERSIONS_ANSWER, 4, 1)


@cache
def loop() -> asyncio.AbstractEventLoop:
    """A loop that never runs, for futures only."""
    return asyncio.new_event_loop()


class Transport:
    """Ignores what is written, and records whether it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def get_extra_info(self, name: str) -> None:
        """No information."""

    def write(self, data: bytes) -> None:
        """Ignore it."""

    def writelines(self, parts: list[bytes]) -> None:
        """Ignore them."""

    def abort(self) -> None:
        """Note that the connection was closed."""
        self.closed = True

    close = abort


class Owner(ConnectionOwner):
    """Sends requests as soon as it may, and one more for each response."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Response]] = []
        self.bugs: list[BaseException] = []
        self.lost = 0

    def connection_made(self, connection: BrokerConnection) -> None:
        assert not connection.closed

    def connection_ready(self, connection: BrokerConnection) -> None:
        self.connection_data(connection, 0.0)

    def connection_data(self, connection: BrokerConnection, now: float) -> None:
        while not connection.closed and connection.in_flight < AHEAD:
            request = REQUESTS_SENT[len(self.futures) % len(REQUESTS_SENT)]
            if not connection.versions.supports(type(request)):
                return
            future = connection.request(request)
            self.futures.append(cast("asyncio.Future[Response]", future))

    def connection_renewed(self, connection: BrokerConnection) -> None:
        raise AssertionError("nobody logs in here")

    def connection_writable(self, connection: BrokerConnection) -> None:
        assert connection.can_write

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        self.lost += 1

    def wake_at(self, when: float) -> None:
        assert when > 0.0


def connection(data: bytes) -> None:
    """Input as in `framing`: every request gets a response or one of our errors, once, and nothing else is raised."""
    if not data:
        return
    count = (data[0] >> 1) % 16
    sizes = [size or 256 for size in data[1 : 1 + count]]
    stream = data[1 + count :]
    state = Connection(
        "Broker 1",
        client_id="fuzz",
        hello=hello(),
        request_timeout_s=30.0,
        frame_size_max=FRAME_SIZE_MAX,
    )
    owner, transport = Owner(), Transport()
    made = BrokerConnection(state, 1, ("host", 9092), owner, loop(), lambda: 1.0, owner.wake_at, owner.bugs.append)
    made.connection_made(cast(asyncio.Transport, transport))
    if not data[0] & 1:
        made.data_received(GREETING)
        assert len(owner.futures) == AHEAD
    for chunk in chunks(stream, sizes):
        if transport.closed:
            break
        made.data_received(chunk)
        assert made.closed == transport.closed
    made.expire(100.0)
    made.connection_lost(None)
    if owner.bugs:
        raise owner.bugs[0]
    assert owner.lost == 1
    for future in owner.futures:
        error = future.exception()
        assert error is None or isinstance(error, ALLOWED_ERRORS), repr(error)


def connection_seeds() -> Iterator[bytes]:
    """Valid responses to some requests, after an ApiVersions response and with one."""
    answers = b""
    for number in range(6):
        kind = type(REQUESTS_SENT[number % len(REQUESTS_SENT)])
        version = kind.STABLE_MAX or kind.VERSIONS[1]
        answers += encode_response(filled(kind.RESPONSE, version), version, number + 2)
    for sizes in ((), (3, 50, 7), (4,)):
        yield bytes([2 * len(sizes), *sizes]) + answers
        yield bytes([2 * len(sizes) + 1, *sizes]) + GREETING + answers
