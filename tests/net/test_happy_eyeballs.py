from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
import pytest_asyncio

from aioprod.errors import BrokerConnectionError
from aioprod.net import happy_eyeballs
from aioprod.net.addresses import Endpoint
from aioprod.net.happy_eyeballs import open_connection
from aioprod.net.settings import Address, ClientSettings
from aioprod.testing.listening import close_server
from tests.support.dead_addresses import dead_address

SETTINGS = ClientSettings(bootstrap=())


class Peer(asyncio.Protocol):
    """Keeps its transport, for a test to look at and to close."""

    made: ClassVar[list[Peer]] = []
    transport: asyncio.Transport

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.made.append(self)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Address]:
    Peer.made = []
    listening = await asyncio.get_running_loop().create_server(Peer, "127.0.0.1", 0)
    yield listening.sockets[0].getsockname()[:2]
    await close_server(listening)
    for peer in Peer.made:
        peer.transport.abort()
    await listening.wait_closed()
    await asyncio.sleep(0)


@pytest.fixture
def nobody() -> Address:
    """An address that refuses connections."""
    return dead_address()


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: Address) -> None:
    async def resolve(loop: asyncio.AbstractEventLoop, address: Address) -> list[Endpoint]:
        return [Endpoint(socket.AF_INET, target) for target in addresses]

    monkeypatch.setattr(happy_eyeballs, "resolve", resolve)


async def connect(address: Address, settings: ClientSettings = SETTINGS) -> Peer:
    return await open_connection(asyncio.get_running_loop(), address, Peer, settings)


async def test_connects_with_the_socket_options_of_the_settings(server: Address) -> None:
    peer = await connect(server, ClientSettings(bootstrap=(), send_buffer_bytes=50_000, receive_buffer_bytes=20_000))
    connected = peer.transport.get_extra_info("socket")
    assert connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    # Linux doubles what is asked for.
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (50_000, 100_000)
    assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (20_000, 40_000)


async def test_leaves_the_buffers_to_the_system(server: Address) -> None:
    peer = await connect(server, ClientSettings(bootstrap=(), send_buffer_bytes=-1, receive_buffer_bytes=-1))
    with socket.socket() as untouched:
        usual = untouched.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert peer.transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= usual


async def test_tries_every_address_of_a_name(server: Address, nobody: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, nobody, server)
    peer = await connect(("kafka", 9092))
    assert peer.transport.get_extra_info("peername") == server


async def test_says_why_each_address_failed(nobody: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, nobody, ("127.0.0.1", nobody[1]))
    with pytest.raises(BrokerConnectionError) as caught:
        await connect(("kafka", 9092))
    reason = "127.0.0.1: Connection refused"
    assert str(caught.value) == f"kafka:9092 can't be reached ({reason}; {reason})."
    assert caught.value.address == "kafka:9092"


async def test_says_that_a_name_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(loop: asyncio.AbstractEventLoop, address: Address) -> list[Endpoint]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(happy_eyeballs, "resolve", resolve)
    with pytest.raises(BrokerConnectionError) as caught:
        await connect(("kafka", 9092))
    assert str(caught.value) == "The host name 'kafka' can't be looked up: Name or service not known."


async def test_a_name_that_can_not_be_encoded_is_not_known() -> None:
    with pytest.raises(BrokerConnectionError, match="can't be looked up"):
        await connect(("a" * 64 + ".example", 9092))


async def test_a_slow_address_does_not_hold_up_the_next_one(
    server: Address, nobody: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, nobody, server)
    monkeypatch.setattr(happy_eyeballs, "_ATTEMPT_DELAY_S", 0.001)
    real_connect = happy_eyeballs._connect
    cancelled = asyncio.Event()

    async def slow_first(
        loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: ClientSettings
    ) -> socket.socket:
        if endpoint.address == nobody:
            try:
                await loop.create_future()
            finally:
                cancelled.set()
        return await real_connect(loop, endpoint, settings)

    monkeypatch.setattr(happy_eyeballs, "_connect", slow_first)
    peer = await connect(("kafka", 9092))
    assert peer.transport.get_extra_info("peername") == server
    assert cancelled.is_set()


async def test_an_attempt_that_wins_too_late_is_closed(server: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, server, server)
    monkeypatch.setattr(happy_eyeballs, "_ATTEMPT_DELAY_S", 0.001)
    real_connect = happy_eyeballs._connect
    go = asyncio.Event()
    connected: list[socket.socket] = []

    async def together(loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: ClientSettings) -> socket.socket:
        one = await real_connect(loop, endpoint, settings)
        connected.append(one)
        if len(connected) == 2:
            go.set()
        await go.wait()
        return one

    monkeypatch.setattr(happy_eyeballs, "_connect", together)
    peer = await connect(("kafka", 9092))
    assert sorted(one.fileno() == -1 for one in connected) == [False, True]
    peer.transport.abort()


async def test_cancelling_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, ("127.0.0.1", 1))
    opened: list[socket.socket] = []
    started = asyncio.Event()

    class Loop:
        """The running loop, but nobody answers."""

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio.get_running_loop(), name)

        async def sock_connect(self, sock: socket.socket, address: Any) -> None:
            opened.append(sock)
            started.set()
            await asyncio.get_running_loop().create_future()

    loop: Any = Loop()
    attempt = asyncio.create_task(open_connection(loop, ("kafka", 9092), Peer, SETTINGS))
    await started.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert [one.fileno() for one in opened] == [-1]


async def test_a_bug_while_connecting_is_not_taken_for_a_dead_address(
    server: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: ClientSettings) -> socket.socket:
        raise ValueError("bug")

    monkeypatch.setattr(happy_eyeballs, "_connect", broken)
    with pytest.raises(ValueError, match="bug"):
        await connect(server)


async def test_a_connection_that_breaks_at_once_is_an_error_of_the_connection(server: Address) -> None:
    class Loop:
        """The running loop, but the transport can't be made."""

        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio.get_running_loop(), name)

        async def create_connection(self, factory: Any, *, sock: socket.socket) -> Any:
            raise ConnectionResetError(104, "Connection reset by peer")

    loop: Any = Loop()
    with pytest.raises(BrokerConnectionError, match=r"broke the connection: Connection reset by peer\.$"):
        await open_connection(loop, server, Peer, SETTINGS)
