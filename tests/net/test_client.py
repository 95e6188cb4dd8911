from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from aioprod.cluster import MetadataUpdate
from aioprod.core.backoff import Backoff
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    ErrorCode,
    MetadataTimeoutError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from aioprod.messages.create_topics import CreatableTopic
from aioprod.net import BrokerLink, ClientListener, refresh, transport
from aioprod.net.settings import Address
from aioprod.wire.codec import encode
from tests.support.clients import Clock, Listener, new_client, running_client
from tests.support.fake_broker import FakeBrokers

NOTHING = MetadataRequest(topics=())


def dead_address() -> Address:
    """Nobody listens there."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host, port = unused.getsockname()
    return host, port


@contextlib.asynccontextmanager
async def peer_that(answers: bytes | None, *, closes: bool = False) -> AsyncIterator[Address]:
    """A server that is no Kafka broker: answers the first bytes with these, or says nothing; may hang up then."""

    class Peer(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert hasattr(transport, "write")
            self.transport = transport
            made.append(transport)

        def data_received(self, data: bytes) -> None:
            if answers is not None:
                self.transport.write(answers)
            if closes:
                self.transport.close()

    made: list[asyncio.BaseTransport] = []
    server = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        for transport in made:
            transport.close()
        server.close()
        await asyncio.sleep(0)


async def fail_to_start(*addresses: Address, timeout_s: float, clock: Clock | None = None) -> AioprodError:
    """The error of a client that can't start; no task is left and nothing else went wrong."""
    before = asyncio.all_tasks()
    listener = Listener()
    client = new_client(*addresses, clock=clock or Clock(), listener=listener)
    with pytest.raises(AioprodError) as caught:
        await client.start(timeout_s)
    await client.close()
    assert not listener.failures
    assert asyncio.all_tasks() <= before
    return caught.value


# -- start -----------------------------------------------------------------------------------------------------------


async def test_start_learns_the_brokers() -> None:
    async with FakeBrokers(3) as brokers, running_client(brokers[2].address) as (client, listener):
        assert sorted(node.id for node in client.metadata.cluster.nodes) == [1, 2, 3]
        assert client.metadata.cluster.cluster_id == "fake-cluster"
        assert listener.events == [("ready", 2), ("metadata", None)]
        assert listener.updates == [MetadataUpdate()]
        assert sum(broker.connections for broker in brokers.brokers.values()) == 1


async def test_the_connection_to_a_bootstrap_server_serves_its_broker() -> None:
    async with FakeBrokers(2) as brokers, running_client(brokers[2].address) as (client, _):
        link = client.link(2)
        assert link is not None
        assert link.ensure(client._clock())
        await client.request(NOTHING, node_id=2)
        assert len(brokers.seen_of(ApiVersionsRequest)) == 1


async def test_a_dead_address_among_three_does_not_hold_up_the_others() -> None:
    """A listening socket whose queue is full takes no connection and refuses none."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        async with FakeBrokers() as brokers:
            addresses = (full.getsockname(), dead_address(), brokers[1].address)
            async with asyncio.timeout(3.0), running_client(*addresses) as (client, listener):
                assert [node.id for node in client.metadata.cluster.nodes] == [1]
                assert ("ready", 1) in listener.events
        for one in crowd:
            one.close()


async def test_an_unreachable_cluster_names_each_address_and_why_it_failed() -> None:
    first, second = dead_address(), dead_address()
    async with peer_that(None) as silent, peer_that(b"", closes=True) as hangs_up:
        error = await fail_to_start(first, second, silent, hangs_up, timeout_s=0.5)
    assert isinstance(error, MetadataTimeoutError)
    text = error.message
    assert text.startswith("No broker described the cluster within 0.5 s: ")
    for host, port in (first, second):
        assert f"{host}:{port} can't be reached (127.0.0.1: Connection refused)" in text
    assert f"127.0.0.1:{silent[1]} has not answered ApiVersions for 0." in text
    assert f"127.0.0.1:{hangs_up[1]} closed the connection before it answered ApiVersions" in text
    assert error.__cause__ is not None


async def test_a_name_that_is_unknown_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(transport, "resolve", unknown)
    error = await fail_to_start(("kafka.invalid", 9092), timeout_s=0.1)
    assert "The host name 'kafka.invalid' can't be looked up: Name or service not known" in error.message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "is an HTTP server, no Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS and was spoken to in plaintext"),
        (b"220 mail.example ESMTP\r\n", "announces a frame of"),
        (b"\0\0\0\x04\xde\xad\xbe\xef", "is no Kafka broker"),
    ],
)
@pytest.mark.parametrize("closes", [True, False])
async def test_peers_that_are_no_brokers_are_told_as_such_at_once(answer: bytes, told: str, closes: bool) -> None:
    async with (
        peer_that(answer, closes=closes) as one,
        peer_that(answer, closes=closes) as other,
    ):
        error = await fail_to_start(one, other, timeout_s=60.0)
    assert isinstance(error, ProtocolError)
    assert error.message.startswith("No Kafka broker was found: ")
    for host, port in (one, other):
        assert f"{host}:{port} {told}" in error.message
    assert error.hint is not None


async def test_a_peer_that_is_no_broker_does_not_hide_one_that_is() -> None:
    web_server = peer_that(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    async with FakeBrokers() as brokers, web_server as web, running_client(web, brokers[1].address) as (client, _):
        assert len(client.metadata.cluster.nodes) == 1


async def test_a_silent_peer_is_given_up_after_the_request_time_out() -> None:
    async with peer_that(None) as silent:
        clock = Clock()
        listener = Listener()
        client = new_client(silent, clock=clock, listener=listener)
        starting = asyncio.create_task(client.start(0.5))
        while "has not answered ApiVersions" not in client.describe():
            await asyncio.sleep(0.001)
        clock.advance(31.0)
        client.wake()
        with pytest.raises(MetadataTimeoutError, match="accepted the connection and did not answer ApiVersions"):
            await starting
        await client.close()


async def test_brokers_that_are_too_old_are_told_as_such_at_once() -> None:
    async with FakeBrokers() as brokers:
        del brokers[1].versions[MetadataRequest]
        error = await fail_to_start(brokers[1].address, timeout_s=60.0)
    assert isinstance(error, UnsupportedVersionError)
    assert "Metadata" in error.message


async def test_brokers_that_are_starting_are_named_with_what_they_say() -> None:
    async with FakeBrokers() as brokers:
        brokers.state.nodes.clear()
        error = await fail_to_start(brokers[1].address, timeout_s=0.2)
    assert isinstance(error, MetadataTimeoutError)
    assert "without naming a single broker" in error.message
    assert isinstance(error.__cause__, ProtocolError)


async def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async with peer_that(None) as silent:
        before = asyncio.all_tasks()
        client = new_client(silent, clock=Clock(), listener=Listener())
        starting = asyncio.create_task(client.start(60.0))
        await asyncio.sleep(0.02)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        await client.close()
        assert asyncio.all_tasks() <= before


# -- requests --------------------------------------------------------------------------------------------------------


async def test_a_request_goes_to_the_broker_that_is_named() -> None:
    async with FakeBrokers(3) as brokers, running_client(brokers[1].address) as (client, listener):
        topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
        answer = await client.request(CreateTopicsRequest(topics=(topic,)), node_id=3)
        assert answer.topics[0].num_partitions == 2
        assert len(brokers.seen_of(CreateTopicsRequest, node=3)) == 1
        assert ("ready", 3) in listener.events


async def test_a_request_to_any_broker_goes_to_one_that_is_ready() -> None:
    async with FakeBrokers(3) as brokers, running_client(*brokers.addresses) as (client, _):
        await asyncio.gather(*(client.request(NOTHING) for _ in range(5)))
        assert len(brokers.seen_of(MetadataRequest)) == 6


async def test_a_request_waits_for_a_broker_to_come_back() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):
        for node_id in (None, 1):
            await brokers[1].kill()
            await listener.until(lambda: listener.events[-1] == ("lost", 1))
            waiting = asyncio.create_task(client.request(NOTHING, node_id=node_id))
            await asyncio.sleep(0.02)
            assert not waiting.done()
            await brokers[1].start()
            assert (await waiting).cluster_id == "fake-cluster"


async def test_a_broker_that_the_metadata_does_not_name_is_refused() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, _):
        with pytest.raises(BrokerConnectionError, match=r"The cluster's metadata names no broker 7\."):
            await client.request(NOTHING, node_id=7)


async def test_a_request_ends_with_its_time_out() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        with pytest.raises(
            RequestTimedOutError, match=r"ListOffsets was not answered within 0\.05 s: Broker 1 at .* is ready"
        ):
            await client.request(ListOffsetsRequest(), timeout_s=0.05)
        held.release()
        # The connection was not given up for the sake of an impatient caller.
        await client.request(NOTHING)
        assert len(brokers.seen_of(ApiVersionsRequest)) == 1


async def test_a_request_that_costs_the_connection_says_so() -> None:
    clock = Clock()
    async with FakeBrokers() as brokers, running_client(brokers[1].address, clock=clock) as (client, _):
        silent = brokers.fault(ListOffsetsRequest, silent=True)
        asking = asyncio.create_task(client.request(ListOffsetsRequest()))
        await silent.reached.wait()
        clock.advance(30.0)
        client.wake()
        with pytest.raises(RequestTimedOutError, match=r"Broker 1 at .* did not answer ListOffsets within 30 s"):
            await asking


async def test_a_request_that_finds_no_broker_says_why() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):
        await brokers[1].kill()
        await listener.seen("lost", 1, times=2)
        with pytest.raises(RequestTimedOutError, match=r"Metadata was not answered within .*Connection refused"):
            await client.request(NOTHING, timeout_s=0.05)


async def test_a_request_fails_with_its_connection() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, _):
        brokers.fault(ListOffsetsRequest, drop="after")
        with pytest.raises(BrokerConnectionError) as caught:
            await client.request(ListOffsetsRequest())
        assert not isinstance(caught.value, RequestTimedOutError)


async def test_a_request_that_a_broker_lacks_is_refused() -> None:
    async with FakeBrokers() as brokers:
        del brokers[1].versions[CreateTopicsRequest]
        async with running_client(brokers[1].address) as (client, _):
            with pytest.raises(UnsupportedVersionError):
                await client.request(CreateTopicsRequest())


async def test_each_broker_is_spoken_to_in_its_own_versions() -> None:
    async with FakeBrokers(2) as brokers:
        brokers[1].versions[ListOffsetsRequest] = (1, 5)
        async with running_client(*brokers.addresses) as (client, _):
            for node_id in (1, 2):
                await client.request(ListOffsetsRequest(), node_id=node_id)
            versions = {
                one.node: one.header.version for one in brokers.seen if isinstance(one.message, ListOffsetsRequest)
            }
            assert versions == {1: 5, 2: 11}


async def test_brokers_are_connected_side_by_side() -> None:
    async with FakeBrokers(3) as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ApiVersionsRequest, node=2, hold=True)
        slow = asyncio.create_task(client.request(NOTHING, node_id=2))
        await held.reached.wait()
        await client.request(NOTHING, node_id=3)
        assert not slow.done()
        held.release()
        await slow


# -- events ----------------------------------------------------------------------------------------------------------


async def test_a_throttled_broker_is_left_alone_until_the_time_has_passed() -> None:
    clock = Clock()
    async with FakeBrokers() as brokers, running_client(brokers[1].address, clock=clock) as (client, listener):
        brokers.fault(MetadataRequest, throttle_ms=10_000)
        await client.request(NOTHING)
        waiting = asyncio.create_task(client.request(NOTHING))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        clock.advance(10.0)
        client.wake()
        await waiting
        assert ("writable", 1) in listener.events


async def test_data_is_told_after_the_answers() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):
        link = client.link(1)
        assert link is not None
        assert link.connection is not None
        told: list[int] = []
        body = encode(NOTHING, 9)
        for _ in range(2):
            link.connection.send_parts(3, 9, True, [body], len(body), lambda *_: told.append(len(listener.events)))
        await listener.seen("data", 1)
        assert told
        assert listener.events[told[0]] == ("data", 1)


async def test_idle_connections_are_closed() -> None:
    clock = Clock()
    async with (
        FakeBrokers(2) as brokers,
        running_client(brokers[1].address, clock=clock, connections_max_idle_s=100.0) as (client, listener),
    ):
        clock.advance(101.0)
        client.wake()
        await listener.seen("lost", 1)
        assert listener.errors == [None]
        await client.request(NOTHING)


async def test_a_listener_may_leave_out_what_does_not_concern_it() -> None:
    class Indifferent(ClientListener):
        pass

    async with FakeBrokers() as brokers:
        loop = asyncio.get_running_loop()
        quiet = Indifferent()
        client = new_client(brokers[1].address, clock=loop.time, listener=quiet)
        await client.start(5.0)
        client.keep_running()
        brokers.fault(MetadataRequest, throttle_ms=1)
        await client.request(NOTHING)
        await client.request(NOTHING)
        quiet.failed(ValueError("bug"))
        await client.close()


# -- the end ---------------------------------------------------------------------------------------------------------


async def test_closing_fails_what_waits_and_what_is_outstanding() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):
        brokers.fault(ListOffsetsRequest, silent=True)
        outstanding = asyncio.create_task(client.request(ListOffsetsRequest()))
        while not brokers.seen_of(ListOffsetsRequest):
            await asyncio.sleep(0.001)
        brokers.fault(ApiVersionsRequest, hold=True)
        await client.close()
        with pytest.raises(BrokerConnectionError, match="was closed by this client"):
            await outstanding
        with pytest.raises(UsageError, match=r"The client is closed\."):
            await client.request(NOTHING)
        assert client.poll(client._clock()) == float("inf")
        assert listener.events[-1] == ("lost", 1)


async def test_closing_wakes_who_waits_for_a_broker() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):
        await brokers[1].kill()
        await listener.seen("lost", 1)
        waiting = asyncio.create_task(client.request(NOTHING))
        await asyncio.sleep(0.005)
        await client.close()
        with pytest.raises(UsageError):
            await waiting


async def test_closing_is_bounded_and_may_be_cancelled() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ListOffsetsRequest, hold=True)
        waiting = asyncio.create_task(client.request(ListOffsetsRequest()))
        await held.reached.wait()
        link = client.link(1)
        assert link is not None
        assert link.connection is not None
        blob = bytes(1 << 24)
        link.connection.send_parts(ProduceRequest.API_KEY, 9, True, [blob], len(blob), lambda *_: None)
        closing = asyncio.create_task(client.close(flush_s=60.0))
        await asyncio.sleep(0.02)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(BrokerConnectionError):
            await waiting
        held.release()


@pytest.mark.parametrize("stage", ["connecting", "negotiating"])
async def test_closing_in_the_middle_of_a_connection_attempt(stage: str) -> None:
    async with FakeBrokers(2) as brokers, running_client(brokers[1].address) as (client, _):
        held = brokers.fault(ApiVersionsRequest, hold=True)
        link = client.link(2)
        assert link is not None
        link.ensure(client._clock())
        if stage == "negotiating":
            await held.reached.wait()
        await client.close()
        held.release()


# -- bugs ------------------------------------------------------------------------------------------------------------


async def test_a_bug_in_a_background_task_reaches_the_listener_and_all_who_ask() -> None:
    class Broken(Listener):
        def metadata_changed(self, update: MetadataUpdate) -> None:
            raise ValueError("bug")

    async with FakeBrokers() as brokers:
        listener = Broken()
        client = new_client(brokers[1].address, clock=Clock(), listener=listener)
        client.keep_running()
        with contextlib.suppress(ValueError):
            await client.start(5.0)
        await listener.seen("failed")
        with pytest.raises(AioprodError, match="The client has failed: ValueError"):
            await client.request(NOTHING)
        await client.close()
        assert [str(failure) for failure in listener.failures] == ["bug"]


@pytest.mark.parametrize("bug", [ValueError("bug"), TimeoutError("bug")])
async def test_a_bug_in_a_background_task_ends_the_start(bug: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*args: object) -> None:
        raise bug

    monkeypatch.setattr(refresh, "canonical_addresses", broken)
    listener = Listener()
    client = new_client(("kafka", 9092), clock=Clock(), listener=listener, canonical_names=True)
    with pytest.raises(type(bug), match="bug"):
        await client.start(5.0)
    await client.close()
    assert listener.failures == [bug]


async def test_a_bug_in_a_listener_costs_the_connection_and_is_heard() -> None:
    class Broken(Listener):
        def link_data(self, link: BrokerLink) -> None:
            raise ValueError("bug")

    async with FakeBrokers() as brokers:
        listener = Broken()
        client = new_client(brokers[1].address, clock=Clock(), listener=listener)
        await client.start(5.0)
        client.keep_running()
        assert (await client.request(NOTHING)).cluster_id
        await listener.seen("failed")
        await listener.seen("lost", 1)
        await client.close()
        assert [str(failure) for failure in listener.failures] == ["bug"]


async def test_a_bug_in_polling_reaches_the_listener() -> None:
    async with FakeBrokers() as brokers, running_client(brokers[1].address) as (client, listener):

        def broken(now: float) -> float:
            raise ValueError("bug")

        client._links.poll = broken  # type: ignore[method-assign]  # on purpose
        client.wake()
        await listener.seen("failed")
        with pytest.raises(AioprodError, match="The client has failed"):
            await client.request(NOTHING)
        listener.failures.clear()


async def test_an_error_code_is_not_a_bug() -> None:
    async with FakeBrokers() as brokers:
        brokers.fault(ApiVersionsRequest, error=ErrorCode.INVALID_REQUEST, times=2)
        async with running_client(brokers[1].address, reconnect_backoff=Backoff(0.001, 0.001)) as (client, _):
            assert client.link(1) is not None
