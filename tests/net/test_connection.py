from __future__ import annotations

import asyncio
from functools import partial

import pytest

from aioprod.errors import (
    AioprodError,
    UnsupportedVersionError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from aioprod.net.traffic import Traffic
from aioprod.testing import FakeCluster
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from tests.support.connections import ALL, connected, parts_of

# -- start-up --------------------------------------------------------------------------------------------------------


async def test_negotiates_before_it_is_ready() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
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
    async with FakeCluster() as brokers:
        brokers[1].versions[ApiVersionsRequest] = (0, 2)
        brokers[1].lists_itself = lists_itself
        async with connected(brokers) as (connection, _, _):
            assert [one.header.version for one in brokers.seen] == [4, 2 if lists_itself else 0]
            assert connection.versions.supports(ProduceRequest)


async def test_versions_are_those_of_the_broker() -> None:
    async with FakeCluster() as brokers:
        brokers[1].versions[MetadataRequest] = (1, 7)
        del brokers[1].versions[InitProducerIdRequest]
        async with connected(brokers) as (connection, _, _):
            await connection.request(ALL)
            assert brokers.seen[-1].header.version == 7
            with pytest.raises(UnsupportedVersionError, match="does not know InitProducerId"):
                connection.request(InitProducerIdRequest())


# -- requests --------------------------------------------------------------------------------------------------------


async def test_answers_are_decoded() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        future = connection.request(ALL)
        assert connection.in_flight == 1
        answer = await future
        assert isinstance(answer, MetadataResponse)
        assert answer.brokers[0].port == brokers[1].port
        assert connection.in_flight == 0
        assert owner.events == ["made", "ready", "data"]


async def test_requests_are_pipelined_and_answered_in_order() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, _, _):
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, _, _):
        kind, version, flexible, (head, tail), size = parts_of(ProduceRequest(acks=0, timeout_ms=1234), 9)
        reused = bytearray(tail)
        called: list[object] = []
        connection.send_parts(
            kind, version, flexible, [head, reused], size, lambda *given: called.append(given), expect_response=False
        )
        reused[:] = bytes(len(reused))
        assert connection.in_flight == 0
        await connection.request(ALL)
        assert [request.timeout_ms for request in brokers.seen_of(ProduceRequest)] == [1234]
        assert called == []


async def test_a_cancelled_future_drops_only_its_own_answer() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(MetadataRequest, hold=True)
        first, second = connection.request(ALL), connection.request(ALL)
        await held.reached.wait()
        first.cancel()
        held.release()
        assert (await second).cluster_id == "fake-cluster"
        assert not owner.failures


async def test_pauses_while_the_peer_does_not_read() -> None:
    async with FakeCluster() as brokers, connected(brokers) as (connection, owner, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        waiting = connection.request(ListOffsetsRequest())
        await held.reached.wait()
        body = encode(ProduceRequest(transactional_id="x" * 30_000), 9)
        written = 0
        while connection.can_write:
            connection.send_parts(
                ProduceRequest, 9, True, [body], len(body), lambda *given: None, expect_response=False
            )
            written += 1
        held.release()
        await owner.writable.wait()
        await waiting
        await connection.request(ALL)
        assert len(brokers.seen_of(ProduceRequest)) == written


@pytest.mark.parametrize(("version", "throttled"), [(5, False), (6, True)])
async def test_a_throttle_in_an_answer_is_noted(version: int, throttled: bool) -> None:
    async with FakeCluster() as brokers:
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
    async with FakeCluster() as brokers, connected(brokers) as (connection, _, _):
        connection.rename(7, "Broker 7 at home", Traffic())
        assert (connection.node_id, connection.peer) == (7, "Broker 7 at home")
