from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from aioprod.core.connection import Connection
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.net.connection import BrokerConnection, ConnectionOwner
from aioprod.net.settings import ClientSettings
from aioprod.net.transport import open_connection
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from tests.support.clients import Clock
from tests.support.fake_broker import FakeBrokers

ALL = MetadataRequest(topics=None)
SETTINGS = ClientSettings(bootstrap=())


class Owner(ConnectionOwner):
    """Writes down what a connection tells."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.error: AioprodError | None = None
        self.failures: list[BaseException] = []
        self.deadlines: list[float] = []
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.writable = asyncio.Event()
        self.bug: Exception | None = None

    def connection_made(self, connection: BrokerConnection) -> None:
        self.events.append("made")

    def connection_ready(self, connection: BrokerConnection) -> None:
        self.events.append("ready")
        self.ready.set()

    def connection_data(self, connection: BrokerConnection) -> None:
        self.events.append("data")
        if self.bug is not None:
            raise self.bug

    def connection_writable(self, connection: BrokerConnection) -> None:
        self.events.append("writable")
        self.writable.set()

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        self.events.append("lost")
        self.error = error
        self.lost.set()

    def due(self, when: float) -> None:
        self.deadlines.append(when)

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)


async def connect(address: tuple[str, int], clock: Clock, owner: Owner) -> BrokerConnection:
    loop = asyncio.get_running_loop()
    state = Connection(
        "Broker 1", client_id="test", software_name="aioprod", software_version="0", request_timeout_s=30.0
    )
    return await open_connection(
        loop, address, lambda: BrokerConnection(state, 1, address, owner, loop, clock), SETTINGS
    )


@contextlib.asynccontextmanager
async def connected(brokers: FakeBrokers) -> AsyncIterator[tuple[BrokerConnection, Owner, Clock]]:
    owner, clock = Owner(), Clock()
    connection = await connect(brokers[1].address, clock, owner)
    await owner.ready.wait()
    try:
        yield connection, owner, clock
    finally:
        if not owner.lost.is_set():
            await connection.close()


def parts_of(message: Any, version: int) -> tuple[int, int, bool, list[bytes], int]:
    """The first arguments of `send_parts`, with the body cut in two."""
    body = encode(message, version)
    return message.API_KEY, version, message.is_flexible(version), [body[:3], body[3:]], len(body)


# -- start-up --------------------------------------------------------------------------------------------------------


async def test_negotiates_before_it_is_ready() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        assert owner.events == ["made", "ready"]
        assert connection.versions.pick(MetadataRequest) == MetadataRequest.VERSIONS[1]
        assert connection.in_flight == 0
        assert connection.local.startswith("127.0.0.1:")
        assert "Broker 1, ready, 0 in flight" in repr(connection)
        (request,) = brokers.seen_of(ApiVersionsRequest)
        assert request.client_software_name == "aioprod"
        assert len(owner.deadlines) == 1


@pytest.mark.parametrize("lists_itself", [True, False])
async def test_negotiates_with_an_older_broker(lists_itself: bool) -> None:
    async with FakeBrokers() as brokers:
        brokers[1].versions[ApiVersionsRequest] = (0, 2)
        brokers[1].lists_itself = lists_itself
        async with connected(brokers) as (connection, _, _):
            assert [one.header.version for one in brokers.seen] == [4, 2 if lists_itself else 0]
            assert connection.versions.supports(ProduceRequest)


async def test_versions_are_those_of_the_broker() -> None:
    async with FakeBrokers() as brokers:
        brokers[1].versions[MetadataRequest] = (1, 7)
        async with connected(brokers) as (connection, _, _):
            await connection.request(ALL)
            assert brokers.seen[-1].header.version == 7
            with pytest.raises(UnsupportedVersionError, match="does not know InitProducerId"):
                connection.request(InitProducerIdRequest())


# -- requests --------------------------------------------------------------------------------------------------------


async def test_answers_are_decoded() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        future = connection.request(ALL)
        assert connection.in_flight == 1
        answer = await future
        assert isinstance(answer, MetadataResponse)
        assert answer.brokers[0].port == brokers[1].port
        assert connection.in_flight == 0
        assert owner.events == ["made", "ready", "data"]


async def test_requests_are_pipelined_and_answered_in_order() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, _, _):
        held = brokers.fault(MetadataRequest, hold=True)
        done: list[int] = []
        futures = [connection.request(ALL) for _ in range(5)]
        for index, future in enumerate(futures):
            future.add_done_callback(partial(lambda number, _: done.append(number), index))
        await held.reached.wait()
        assert connection.in_flight == 5
        held.release()
        await asyncio.gather(*futures)
        assert done == [0, 1, 2, 3, 4]


async def test_parts_are_one_request_and_its_body_comes_back_raw() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        got: asyncio.Future[tuple[bytes, list[str]]] = asyncio.get_running_loop().create_future()

        def complete(body: Buffer | None, error: AioprodError | None) -> None:
            assert error is None
            got.set_result((bytes(body or b""), list(owner.events)))

        connection.send_parts(*parts_of(ALL, 9), complete)
        body, events_before = await got
        assert decode(MetadataResponse, 9, body).cluster_id == "fake-cluster"
        assert events_before == ["made", "ready"]
        assert owner.events[-1] == "data"


async def test_a_request_without_an_answer_is_written_from_a_copy() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, _, _):
        api_key, version, flexible, (head, tail), size = parts_of(ProduceRequest(acks=0, timeout_ms=1234), 9)
        reused = bytearray(tail)
        called: list[object] = []
        connection.send_parts(
            api_key, version, flexible, [head, reused], size, lambda *given: called.append(given), expect_response=False
        )
        reused[:] = bytes(len(reused))
        assert connection.in_flight == 0
        await connection.request(ALL)
        assert [request.timeout_ms for request in brokers.seen_of(ProduceRequest)] == [1234]
        assert called == []


async def test_a_cancelled_future_drops_only_its_own_answer() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        first, second = connection.request(ALL), connection.request(ALL)
        await held.reached.wait()
        first.cancel()
        held.release()
        assert (await second).cluster_id == "fake-cluster"
        assert not owner.failures


async def test_pauses_while_the_peer_does_not_read() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        waiting = connection.request(ListOffsetsRequest())
        await held.reached.wait()
        body = encode(ProduceRequest(transactional_id="x" * 30_000), 9)
        written = 0
        while connection.can_write:
            connection.send_parts(0, 9, True, [body], len(body), lambda *given: None, expect_response=False)
            written += 1
        held.release()
        await owner.writable.wait()
        await waiting
        await connection.request(ALL)
        assert len(brokers.seen_of(ProduceRequest)) == written


@pytest.mark.parametrize(("version", "throttled"), [(5, False), (6, True)])
async def test_a_throttle_in_an_answer_is_noted(version: int, throttled: bool) -> None:
    async with FakeBrokers() as brokers:
        brokers[1].versions[MetadataRequest] = (0, version)
        brokers.fault(MetadataRequest, throttle_ms=60_000)
        async with connected(brokers) as (connection, owner, clock):
            await connection.request(ALL)
            assert (connection.throttled_until > clock() + 50.0) == throttled
            if throttled:
                assert owner.deadlines[-1] == connection.throttled_until
            connection.unthrottle()
            assert connection.throttled_until == 0.0


async def test_a_name_may_change() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, _, _):
        connection.rename(7, "Broker 7 at home")
        assert (connection.node_id, connection.peer) == (7, "Broker 7 at home")


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_outstanding_requests_fail_only_when_the_transport_is_gone() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        order: list[str] = []
        connection.send_parts(*parts_of(ALL, 9), lambda body, error: order.append(str(error)))
        future = connection.request(ALL)
        await held.reached.wait()
        connection.abort(BrokerConnectionError("enough"))
        connection.abort(BrokerConnectionError("too late"))
        assert connection.closed
        assert order == []
        assert not future.done()
        await owner.lost.wait()
        assert order == ["enough"]
        assert str(owner.error) == "enough"
        with pytest.raises(BrokerConnectionError, match="enough"):
            await future
        with pytest.raises(BrokerConnectionError, match="enough"):
            connection.request(ALL)
        held.release()


async def test_an_overdue_answer_ends_the_connection() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, clock):
        brokers.fault(MetadataRequest, silent=True)
        slow = connection.request(ALL)
        quick = connection.request(ListOffsetsRequest(), timeout_s=2.0)
        due = connection.expire(clock())
        assert clock() < due <= clock() + 2.0
        clock.advance(2.0)
        assert connection.expire(clock()) == float("inf")
        assert connection.expire(clock()) == float("inf")
        for future in (slow, quick):
            with pytest.raises(RequestTimedOutError, match="Broker 1 did not answer ListOffsets within 2 s"):
                await future
        assert isinstance(owner.error, RequestTimedOutError)


@pytest.mark.parametrize(
    ("fault", "kind", "message"),
    [
        ({"drop": "before"}, BrokerConnectionError, "Broker 1 closed the connection.|was lost: "),
        ({"reply": b"\0\0\0\x05\0\0\0\x63\0"}, ProtocolError, "Broker 1 broke the protocol: it answered request 99"),
        ({"reply": b"\x7f\xff\xff\xff"}, ProtocolError, "Broker 1 announces a frame of 2147483647 bytes"),
    ],
)
async def test_what_a_peer_does_wrong_fails_all_that_is_outstanding(
    fault: dict[str, Any], kind: type[AioprodError], message: str
) -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, **fault)
        futures = [connection.request(ALL), connection.request(ALL)]
        for future in futures:
            with pytest.raises(kind, match=message):
                await future
        await owner.lost.wait()
        assert isinstance(owner.error, kind)
        assert not owner.failures


async def test_each_who_waits_has_an_error_of_its_own() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, _, _):
        brokers.fault(MetadataRequest, silent=True)
        futures = [connection.request(ALL), connection.request(ALL)]
        connection.abort(BrokerConnectionError("enough"))
        first, second = await asyncio.gather(*futures, return_exceptions=True)
        assert first is not second
        assert str(first) == str(second) == "enough"


async def test_an_answer_that_can_not_be_decoded_ends_the_connection() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, edit=lambda answer: ProduceResponse())
        with pytest.raises(ProtocolError, match="Broker 1 broke the protocol: This is no MetadataResponse"):
            await connection.request(ALL)
        await owner.lost.wait()
        assert isinstance(owner.error, ProtocolError)


async def test_a_bug_in_a_callback_is_reported_and_ends_the_connection() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):

        def broken(body: Buffer | None, error: AioprodError | None) -> None:
            raise ValueError("bug")

        connection.send_parts(*parts_of(ALL, 9), broken)
        future = connection.request(ALL)
        with pytest.raises(BrokerConnectionError, match=r"given up after an internal error: ValueError\('bug'\)"):
            await future
        assert [str(error) for error in owner.failures] == ["bug"]


async def test_a_bug_in_a_listener_is_reported_and_ends_the_connection() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        owner.bug = ValueError("bug")
        await connection.request(ALL)
        await owner.lost.wait()
        assert owner.failures == [owner.bug]
        assert isinstance(owner.error, BrokerConnectionError)


async def test_a_bug_in_one_callback_does_not_keep_the_end_from_the_others() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, silent=True)
        told: list[AioprodError | None] = []

        def broken(body: Buffer | None, error: AioprodError | None) -> None:
            raise ValueError("bug")

        connection.send_parts(*parts_of(ALL, 9), broken)
        connection.send_parts(*parts_of(ALL, 9), lambda body, error: told.append(error))
        connection.abort(BrokerConnectionError("enough"))
        await owner.lost.wait()
        assert [str(error) for error in told] == ["enough"]
        assert [str(error) for error in owner.failures] == ["bug"]


async def test_a_callback_may_end_the_connection() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        told: list[str] = []
        held = brokers.fault(MetadataRequest, hold=True)
        connection.send_parts(*parts_of(ALL, 9), lambda body, error: connection.abort(BrokerConnectionError("no more")))
        for _ in range(3):
            connection.send_parts(*parts_of(ALL, 9), lambda body, error: told.append(str(error)))
        await held.reached.wait()
        held.release()
        await owner.lost.wait()
        assert told == ["no more"] * 3
        assert not owner.failures


async def test_closing_writes_out_what_was_taken() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        connection.send_parts(*parts_of(ProduceRequest(acks=0), 9), lambda *given: None, expect_response=False)
        future = connection.request(ALL)
        await connection.close()
        assert owner.events[-1] == "lost"
        assert owner.error is None
        with pytest.raises(BrokerConnectionError, match="The connection to Broker 1 was closed by this client"):
            await future
        connection.shut()
        while not brokers.seen_of(ProduceRequest):
            await asyncio.sleep(0.001)


async def test_closing_does_not_wait_for_a_peer_that_does_not_read() -> None:
    async with FakeBrokers() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        waiting = connection.request(ALL)
        await held.reached.wait()
        blob = bytes(1 << 24)
        connection.send_parts(0, 9, True, [blob], len(blob), lambda *given: None)
        async with asyncio.timeout(5.0):
            await connection.close(0.01)
        assert owner.lost.is_set()
        with pytest.raises(BrokerConnectionError):
            await waiting
        held.release()


async def test_a_transport_without_a_name_is_one_that_was_reset() -> None:
    class Transport(asyncio.Transport):
        def get_extra_info(self, name: str, default: Any = None) -> Any:
            return None

        def write(self, data: Any) -> None:
            pass

    loop, owner = asyncio.get_running_loop(), Owner()
    state = Connection("Broker 1", client_id="t", software_name="a", software_version="0", request_timeout_s=1.0)
    connection = BrokerConnection(state, 1, ("h", 1), owner, loop, Clock())
    connection.connection_made(Transport())
    assert connection.local == ""
    connection.resume_writing()
    connection.connection_lost(None)
    connection.resume_writing()
    assert owner.events == ["made", "writable", "lost"]
    assert isinstance(owner.error, BrokerConnectionError)
