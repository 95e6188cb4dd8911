"""A proxy that forwards TLS connections by the host name in the hello."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aioprod.testing import Security, TcpProxy
from aioprod.testing.certificates import Authority
from aioprod.testing.sni import HELLO_SIZE_MAX, hello_size, server_name

NAMES = ("b1.test", "b2.test")


def hello_for(name: str | None) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


@asynccontextmanager
async def greeting(said: str, security: Security | None = None) -> AsyncIterator[str]:
    """The address of a server that sends its name, over TLS or in plaintext."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(said.encode())
        await writer.drain()
        writer.close()

    context = None if security is None else security.server_context()
    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.sleep(0)


async def answer(port: int, name: str | None, trusted: str | None = None) -> bytes:
    context = None
    if trusted is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=trusted)
        context.check_hostname = name is not None
    server_hostname = (name or "") if context is not None else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=server_hostname)
    try:
        writer.write(b"hello")
        return await reader.read()
    finally:
        writer.close()


async def test_each_name_gets_to_its_own_broker() -> None:
    authority = Authority()
    first, second = (Security(protocol="SSL", identity=authority.issue(name, [name])) for name in NAMES)
    async with (
        greeting("first", first) as a,
        greeting("second", second) as b,
        greeting("other") as other,
        TcpProxy(other, by_name=dict(zip(NAMES, (a, b), strict=True))) as proxy,
    ):
        assert await answer(proxy.port, "b1.test", authority.certificate) == b"first"
        assert await answer(proxy.port, "B2.test", authority.certificate) == b"second"
        assert await answer(proxy.port, None) == b"other"


async def test_connections_without_a_known_name_go_to_the_target() -> None:
    authority = Authority()
    identity = authority.issue("all", ["b3.test", "127.0.0.1"])
    async with (
        greeting("target", Security(protocol="SSL", identity=identity)) as target,
        greeting("first") as a,
        TcpProxy(target, by_name={"b1.test": a}) as proxy,
    ):
        assert await answer(proxy.port, "b3.test", authority.certificate) == b"target"
        assert await answer(proxy.port, "127.0.0.1", authority.certificate) == b"target"


async def test_a_client_that_disconnects_before_its_hello() -> None:
    async with greeting("target") as target, TcpProxy(target, by_name={"b1.test": target}) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(client, hello_for("b1.test")[:40])
            client.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(10):
                assert await asyncio.get_running_loop().sock_recv(client, 100) == b"target"


def test_the_name_in_a_hello() -> None:
    assert server_name(hello_for("Broker-1.test")) == "broker-1.test"
    assert server_name(hello_for(None)) is None


def test_a_hello_that_is_cut_off_or_changed_has_a_name_or_none() -> None:
    hello = hello_for("b1.test")
    assert hello_size(hello[:5]) == len(hello)
    for size in range(len(hello)):
        assert server_name(hello[:size]) in (None, "b1.test")
        changed = bytearray(hello)
        changed[size] ^= 0xFF
        found = server_name(bytes(changed))
        assert found is None or found.isascii()


@pytest.mark.parametrize(
    ("header", "size"),
    [(b"", 0), (b"\x16\3\1\0", 0), (b"GET /", 0), (b"\x16\3\1\0\7", 12), (b"\x16\3\1\xff\xff", HELLO_SIZE_MAX)],
)
def test_the_size_of_a_first_record(header: bytes, size: int) -> None:
    assert hello_size(header) == size
