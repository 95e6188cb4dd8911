from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator

import pytest

from aioprod import Producer
from aioprod.cluster import MetadataUpdate
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    MetadataTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    ProduceResponse,
)
from aioprod.net import happy_eyeballs, metadata_refresh
from aioprod.net.settings import Address
from aioprod.testing import FakeCluster
from aioprod.testing.listening import close_server
from aioprod.testing.simulation import SimulatedLoop, start
from tests.support.clients import Clock, Listener, new_client, running_client
from tests.support.dead_addresses import dead_address
from tests.support.producers import left_over

NOTHING = MetadataRequest(topics=())


@contextlib.asynccontextmanager
async def peer_that(answers: bytes | None, *, closes: bool = False) -> AsyncIterator[Address]:
    """A server that is not a Kafka broker: answers the first bytes with these, or says nothing; may hang up then."""

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
        await close_server(server)
        for transport in made:
            transport.close()
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
    assert left_over(before) == []
    return caught.value


async def test_start_learns_the_brokers() -> None:
    async with FakeCluster(3) as brokers, running_client(brokers[2].address) as (client, listener):
        assert sorted(node.id for node in client.metadata.cluster.nodes) == [1, 2, 3]
        assert client.metadata.cluster.cluster_id == "fake-cluster"
        assert listener.events == [("ready", 2), ("metadata", None)]
        assert listener.updates == [MetadataUpdate()]
        assert sum(broker.connections for broker in brokers.brokers.values()) == 1


async def test_the_connection_to_a_bootstrap_server_serves_its_broker() -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[2].address) as (client, _):
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
        async with FakeCluster() as brokers:
            addresses = (full.getsockname(), dead_address(), brokers[1].address)
            async with asyncio.timeout(9.0), running_client(*addresses) as (client, listener):
                assert [node.id for node in client.metadata.cluster.nodes] == [1]
                assert ("ready", 1) in listener.events
        for one in crowd:
            one.close()


class StoppedClock(Clock):
    """Time stands still, so nothing is tried because something else has taken too long."""

    def __call__(self) -> float:
        return 1000.0


@pytest.mark.parametrize("place", range(3))
async def test_silent_addresses_do_not_hold_up_the_start(place: int) -> None:
    before = asyncio.all_tasks()
    async with FakeCluster() as brokers, peer_that(None) as one, peer_that(None) as other:
        addresses = [one, other]
        addresses.insert(place, brokers[1].address)
        listener = Listener()
        client = new_client(*addresses, clock=StoppedClock(), listener=listener)
        async with asyncio.timeout(10.0):
            await client.start(60.0)
        assert client.describe() == f"Broker 1 at {brokers[1].address[0]}:{brokers[1].address[1]} is ready"
        # Those that had not answered are given up, and that they were is no event.
        client.keep_running()
        await client.request(NOTHING)
        assert {node for _, node in listener.events} == {1, None}
        await client.close()
    assert not listener.failures
    assert left_over(before) == []


async def test_bootstrap_servers_that_are_brokers_stay_connected() -> None:
    async with FakeCluster(3) as brokers, running_client(*brokers.addresses) as (client, listener):
        for node_id in (1, 2, 3):
            link = client.link(node_id)
            assert link is not None
            if not link.ensure(client.now()):
                await listener.seen("ready", node_id)
        assert len(brokers.seen_of(ApiVersionsRequest)) == 3


def test_the_hint_is_that_of_what_happened() -> None:
    async def main() -> None:
        async with FakeCluster(1) as brokers:
            brokers.fault(ApiVersionsRequest, drop="before", times=None)
            with pytest.raises(MetadataTimeoutError) as caught:
                await start(Producer(brokers.bootstrap, max_block_ms=3000), loop)
        assert (caught.value.hint or "").endswith(" For one with TLS set security.protocol to SSL or SASL_SSL.")

    with SimulatedLoop() as loop:
        loop.run(main())


async def test_an_unreachable_cluster_names_each_address_and_why_it_failed() -> None:
    first, second = dead_address(), dead_address()
    async with peer_that(None) as silent, peer_that(b"", closes=True) as hangs_up:
        error = await fail_to_start(first, second, silent, hangs_up, timeout_s=1.5)
    assert isinstance(error, MetadataTimeoutError)
    text = error.message
    assert text.startswith("No broker described the cluster within 1.5 s: ")
    for host, port in (first, second):
        assert f"{host}:{port} can't be reached (127.0.0.1: Connection refused)" in text
    assert re.search(rf"127.0.0.1:{silent[1]} has not answered ApiVersions for \d\.\d s", text)
    assert f"127.0.0.1:{hangs_up[1]} closed the connection before it answered ApiVersions" in text
    assert error.__cause__ is not None


async def test_the_error_says_that_a_name_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*args: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(happy_eyeballs, "resolve", unknown)
    error = await fail_to_start(("kafka.invalid", 9092), timeout_s=0.1)
    assert "The host name 'kafka.invalid' can't be looked up: Name or service not known" in error.message


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "is an HTTP server, no Kafka broker"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "speaks TLS and was spoken to in plaintext"),
        (b"220 mail.example ESMTP\r\n", "announces a frame of"),
        (b"\0\0\0\x04\xde\xad\xbe\xef", "is not a Kafka broker"),
    ],
)
@pytest.mark.parametrize("closes", [True, False])
async def test_the_error_says_at_once_that_peers_are_no_brokers(answer: bytes, told: str, closes: bool) -> None:
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
    async with FakeCluster() as brokers, web_server as web, running_client(web, brokers[1].address) as (client, _):
        assert len(client.metadata.cluster.nodes) == 1


async def test_a_silent_peer_is_aborted_after_the_request_time_out() -> None:
    async with peer_that(None) as silent:
        clock = Clock()
        listener = Listener()
        client = new_client(silent, clock=clock, listener=listener)
        starting = asyncio.create_task(client.start(2.0))
        while "has not answered ApiVersions" not in client.describe():
            await asyncio.sleep(0.001)
        clock.advance(31.0)
        client.wake()
        with pytest.raises(MetadataTimeoutError, match="accepted the connection and did not answer ApiVersions"):
            await starting
        await client.close()


async def test_the_error_says_at_once_that_brokers_are_too_old() -> None:
    async with FakeCluster() as brokers:
        del brokers[1].versions[MetadataRequest]
        error = await fail_to_start(brokers[1].address, timeout_s=60.0)
    assert isinstance(error, UnsupportedVersionError)
    assert "Metadata" in error.message


async def test_a_broker_that_answers_nonsense_is_named_once() -> None:
    async with FakeCluster() as brokers:
        brokers.fault(MetadataRequest, times=None, edit=lambda answer: ProduceResponse())
        error = await fail_to_start(brokers[1].address, timeout_s=60.0)
    assert isinstance(error, ProtocolError)
    host, port = brokers[1].address
    said = f"No Kafka broker was found: {host}:{port} broke the protocol: This is not a valid Metadata"
    assert error.message.startswith(said)
    assert error.message.count("broke the protocol") == 1


async def test_brokers_that_are_starting_are_named_with_what_they_say() -> None:
    async with FakeCluster() as brokers:
        brokers.state.nodes.clear()
        error = await fail_to_start(brokers[1].address, timeout_s=2.0)
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


async def test_closing_ends_the_start() -> None:
    async with peer_that(None) as silent:
        client = new_client(silent, clock=Clock(), listener=Listener())
        starting = asyncio.create_task(client.start(60.0))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(UsageError, match="The client was closed while it started"):
            await starting


@pytest.mark.parametrize("bug", [ValueError("bug"), TimeoutError("bug")])
async def test_a_bug_in_a_background_task_ends_the_start(bug: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*args: object) -> None:
        raise bug

    monkeypatch.setattr(metadata_refresh, "canonical_addresses", broken)
    listener = Listener()
    client = new_client(("kafka", 9092), clock=Clock(), listener=listener, canonical_names=True)
    with pytest.raises(type(bug), match="bug"):
        await client.start(5.0)
    await client.close()
    # Until it is closed, the task may be tried again.
    assert set(listener.failures) == {bug}


async def test_an_advertised_address_that_can_not_be_reached_is_named() -> None:
    async with FakeCluster() as brokers:
        host, port = brokers.state.nodes[1] = dead_address()
        async with running_client(brokers[1].address) as (client, _):
            with pytest.raises(BrokerConnectionError):
                await client.request(NOTHING, node_id=1, connects_once=True)
            told = client.describe()
            assert f"{host}:{port} can't be reached" in told
            assert told.endswith("the brokers name that address themselves (advertised.listeners)")


async def test_a_broker_that_was_reached_has_the_right_address() -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, _):
        await client.request(NOTHING, node_id=2)
        await brokers[2].kill(stay_in_metadata=True)
        with pytest.raises(BrokerConnectionError):
            await client.request(NOTHING, node_id=2, connects_once=True)
        assert "advertised" not in client.describe()
