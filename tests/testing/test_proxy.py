"""TcpProxy over an echo server on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod.errors import ConfigError
from aioprod.testing import Direction, TcpProxy

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """A server that sends everything back and ends when the client does; gives its address."""
    writers: list[asyncio.StreamWriter] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(proxy: TcpProxy) -> AsyncIterator[Connection]:
    """A connection through `proxy`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def echoed(connection: Connection, data: bytes) -> bytes:
    reader, writer = connection
    writer.write(data)
    return await reader.readexactly(len(data))


async def until(condition: object) -> None:
    """Wait for a condition that is a callable without arguments."""
    assert callable(condition)
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_forwards_both_ways_and_counts_connections() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy:
        assert proxy.address == f"127.0.0.1:{proxy.port}"
        async with connected(proxy) as one, connected(proxy) as two:
            assert await echoed(one, b"one") == b"one"
            assert await echoed(two, b"two" * 100_000) == b"two" * 100_000
            assert proxy.connections == 2
        await until(lambda: proxy.connections == 0)


async def test_the_end_of_a_stream_is_forwarded_and_the_other_direction_stays_open() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as (reader, writer):
        writer.write(b"last words")
        writer.write_eof()
        assert await reader.read() == b"last words"
        await until(lambda: proxy.connections == 0)


async def test_delay_is_latency_not_throughput() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as connection:
        assert await echoed(connection, b"warm") == b"warm"
        proxy.delay_s = 0.1
        assert (proxy.delay_s, proxy.to_target.delay_s) == (0.1, 0.1)
        started = time.monotonic()
        data = b"x" * 5_000_000
        reader, writer = connection
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        assert time.monotonic() - started >= 0.2


async def test_a_delay_of_one_direction() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as connection:
        proxy.to_client.delay_s = 0.05
        started = time.monotonic()
        assert await echoed(connection, b"late") == b"late"
        assert time.monotonic() - started >= 0.05
        assert proxy.to_target.delay_s == 0


async def test_dropped_bytes_arrive_when_drop_ends() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as (reader, writer):
        proxy.drop = True
        assert proxy.drop
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(4), 0.05)
        proxy.drop = False
        assert await reader.readexactly(4) == b"held"


async def test_dropped_bytes_are_lost_when_the_connection_is_cut() -> None:
    received = []

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received.append(await reader.read(100))
        except OSError:
            received.append(b"")
        writer.close()

    server = await asyncio.start_server(collect, "127.0.0.1", 0)
    async with TcpProxy(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as proxy, connected(proxy) as (_, writer):
        proxy.to_target.drop = True
        writer.write(b"lost")
        await until(lambda: proxy.connections == 1)
        await asyncio.sleep(0.03)
        proxy.cut()
        await until(lambda: received)
    server.close()
    assert received == [b""]


async def test_cut_resets_all_connections() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy:
        async with connected(proxy) as one, connected(proxy) as two:
            await echoed(one, b"1")
            await echoed(two, b"2")
            proxy.cut()
            for reader, _ in (one, two):
                with pytest.raises(ConnectionResetError):
                    await reader.read(1)
        await until(lambda: proxy.connections == 0)
        async with connected(proxy) as again:
            assert await echoed(again, b"3") == b"3"


async def test_throttle_limits_the_rate() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as connection:
        proxy.throttle_bytes_per_s = 100_000
        assert proxy.throttle_bytes_per_s == 100_000
        started = time.monotonic()
        assert await echoed(connection, b"x" * 10_000) == b"x" * 10_000
        assert time.monotonic() - started >= 0.1


async def test_refuse_resets_new_connections_and_leaves_old_ones() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as old:
        await echoed(old, b"1")
        proxy.refuse = True
        async with connected(proxy) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
        assert await echoed(old, b"2") == b"2"


async def test_cut_after_bytes_delivers_just_those() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy:
        faults = proxy.to_client = Direction(cut_after_bytes=5)
        async with connected(proxy) as (reader, writer):
            writer.write(b"0123456789")
            assert await reader.read() == b"01234"
        assert faults.cut_after_bytes is None
        async with connected(proxy) as again:
            assert await echoed(again, b"0123456789") == b"0123456789"


async def test_cut_after_bytes_counts_across_chunks_and_resets_the_sender() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as (reader, writer):
        proxy.to_target.cut_after_bytes = 4
        assert await echoed((reader, writer), b"abc") == b"abc"
        writer.write(b"def")
        with pytest.raises(ConnectionResetError):
            assert await reader.read() in (b"", b"d")


async def test_a_dead_target_resets_the_client() -> None:
    async with echo_server() as target:
        pass
    async with TcpProxy(target) as proxy, connected(proxy) as (reader, _):
        with pytest.raises(ConnectionResetError):
            await reader.read(1)


async def test_a_target_that_resets_is_passed_on() -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with TcpProxy(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as proxy, connected(proxy) as (_, writer):
        writer.write(b"x" * 1_000_000)
        await until(lambda: proxy.connections == 0)
        assert proxy.connections == 0
    server.close()


async def test_a_client_that_resets_is_passed_on() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy:
        async with connected(proxy) as connection:
            await echoed(connection, b"1")
            client_socket = connection[1].get_extra_info("socket")
            client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await until(lambda: proxy.connections == 0)
        assert proxy.connections == 0


async def test_after_close_connections_are_refused_and_start_uses_the_same_port() -> None:
    async with echo_server() as target:
        proxy = await TcpProxy(target).start()
        port = proxy.port
        async with connected(proxy) as (reader, writer):
            await echoed((reader, writer), b"1")
            await proxy.close()
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        async with proxy, connected(proxy) as connection:
            assert proxy.port == port
            assert await echoed(connection, b"2") == b"2"


async def test_closing_without_a_start_has_no_effect() -> None:
    proxy = TcpProxy("127.0.0.1:9")
    proxy.cut()
    await proxy.close()
    assert proxy.port == 0


async def test_a_connection_that_comes_while_the_proxy_closes_is_reset() -> None:
    async with echo_server() as target:
        proxy = await TcpProxy(target).start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            await asyncio.sleep(0)  # the loop has seen the connection and has not yet handed it over
            await proxy.close()
            client.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=client)
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
            writer.transport.abort()


async def test_closing_while_the_target_is_being_connected() -> None:
    async with echo_server() as target, TcpProxy(target) as proxy, connected(proxy) as (reader, _):
        await until(lambda: proxy.connections == 1)
        await proxy.close()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delay_s", -1),
        ("delay_s", "5"),
        ("drop", "after"),
        ("throttle_bytes_per_s", 0),
        ("to_client.cut_after_bytes", -1),
        ("to_target.delay_s", None),
    ],
)
def test_invalid_faults_raise(name: str, value: object) -> None:
    proxy = TcpProxy("127.0.0.1:1")
    where, _, fault = name.rpartition(".")
    with pytest.raises(ConfigError, match=rf"^{fault}={value!r} is not a valid fault of a proxy\. Hint: Give"):
        setattr(getattr(proxy, where) if where else proxy, fault, value)


def test_an_unknown_fault_can_not_be_set() -> None:
    wrong: Any = TcpProxy("127.0.0.1:1")
    with pytest.raises(AttributeError):
        wrong.dely_s = 1
    with pytest.raises(AttributeError):
        wrong.to_client.refuse = True


@pytest.mark.parametrize("target", ["localhost", "a:1,b:2", ":1", "a:b", 9092])
def test_a_target_that_is_not_an_address_raises(target: Any) -> None:
    with pytest.raises(ConfigError, match=r"^A proxy can't forward to .*, which is not an address\."):
        TcpProxy(target)
