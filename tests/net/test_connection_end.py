from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    ProtocolError,
    RequestTimedOutError,
)
from aioprod.messages import (
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.net.connection import BrokerConnection
from aioprod.net.dialing import hello
from aioprod.net.protocol.connection import Connection
from aioprod.testing import FakeCluster
from aioprod.wire.buffer import Buffer
from tests.support.clients import Clock
from tests.support.connections import ALL, Owner, connected, parts_of


async def test_outstanding_requests_fail_only_when_the_transport_is_gone() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
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


async def test_nothing_is_written_once_the_broker_has_closed_its_side() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        future = connection.request(ALL)
        await held.reached.wait()
        connection.eof_received()
        with pytest.raises(BrokerConnectionError, match="is closed"):
            connection.request(ALL)
        await owner.lost.wait()
        with pytest.raises(BrokerConnectionError, match="closed the connection"):
            await future
        held.release()


async def test_an_overdue_answer_ends_the_connection() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, clock):
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, **fault)
        futures = [connection.request(ALL), connection.request(ALL)]
        for future in futures:
            with pytest.raises(kind, match=message):
                await future
        await owner.lost.wait()
        assert isinstance(owner.error, kind)
        assert not owner.failures


async def test_each_waiter_has_an_error_of_its_own() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, _, _):
        brokers.fault(MetadataRequest, silent=True)
        futures = [connection.request(ALL), connection.request(ALL)]
        connection.abort(BrokerConnectionError("enough"))
        first, second = await asyncio.gather(*futures, return_exceptions=True)
        assert first is not second
        assert str(first) == str(second) == "enough"


async def test_an_answer_that_can_not_be_decoded_ends_the_connection() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, edit=lambda answer: ProduceResponse())
        with pytest.raises(ProtocolError, match="Broker 1 broke the protocol: This is not a valid MetadataResponse"):
            await connection.request(ALL)
        await owner.lost.wait()
        assert isinstance(owner.error, ProtocolError)


async def test_a_bug_in_a_callback_is_reported_and_ends_the_connection() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):

        def broken(body: Buffer | None, error: AioprodError | None) -> None:
            raise ValueError("bug")

        connection.send_parts(*parts_of(ALL, 9), broken)
        future = connection.request(ALL)
        with pytest.raises(BrokerConnectionError, match=r"aborted after an internal error: ValueError\."):
            await future
        assert [str(error.__cause__) for error in owner.failures] == ["bug"]


async def test_a_bug_in_a_listener_is_reported_and_ends_the_connection() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        owner.bug = ValueError("bug")
        await connection.request(ALL)
        await owner.lost.wait()
        assert [error.__cause__ for error in owner.failures] == [owner.bug]
        assert isinstance(owner.error, BrokerConnectionError)


class OwnError(BaseException):
    """What gevent's Timeout and pytest's exits are: no Exception."""


@pytest.mark.parametrize("kind", [ValueError, OwnError])
async def test_a_bug_in_one_callback_does_not_keep_the_end_from_the_others(kind: type[BaseException]) -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        brokers.fault(MetadataRequest, silent=True)
        told: list[AioprodError | None] = []

        def broken(body: Buffer | None, error: AioprodError | None) -> None:
            raise kind("bug")

        connection.send_parts(*parts_of(ALL, 9), broken)
        connection.send_parts(*parts_of(ALL, 9), lambda body, error: told.append(error))
        connection.abort(BrokerConnectionError("enough"))
        await owner.lost.wait()
        assert [str(error) for error in told] == ["enough"]
        assert [str(error.__cause__) for error in owner.failures] == ["bug"]


async def test_a_callback_may_end_the_connection() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        waiting = connection.request(ALL)
        await held.reached.wait()
        blob = bytes(1 << 24)
        connection.send_parts(ProduceRequest, 9, True, [blob], len(blob), lambda *given: None)
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
    state = Connection("Broker 1", client_id="t", hello=hello(), request_timeout_s=1.0)
    connection = BrokerConnection(
        state, 1, ("h", 1), owner, loop, Clock(), owner.deadlines.append, owner.failures.append
    )
    connection.connection_made(Transport())
    assert connection.local == ""
    connection.resume_writing()
    connection.connection_lost(None)
    connection.resume_writing()
    assert owner.events == ["made", "writable", "lost"]
    assert isinstance(owner.error, BrokerConnectionError)
