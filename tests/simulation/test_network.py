"""Connections in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aioprod.testing.simulation import SimulatedLoop

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


async def open_to(serve: Serve) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    server = await asyncio.start_server(serve, "host", 0)
    return await asyncio.open_connection("host", server.sockets[0].getsockname()[1])


def simulate(work: Callable[[SimulatedLoop], Awaitable[None]], seed: int = 1) -> SimulatedLoop:
    async def run() -> None:
        await work(loop)

    with SimulatedLoop(seed) as loop:
        loop.run(run())
    return loop


async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(1000)
    writer.close()


@pytest.mark.parametrize("segment_max", [3, 65_536])
def test_bytes_arrive_whole_and_in_order(segment_max: int) -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.network.conditions.segment_max = segment_max
        reader, writer = await open_to(echo)
        sent = bytes(range(256)) * 20
        writer.write(sent[:1000])
        writer.writelines([sent[1000:1001], sent[1001:]])
        writer.write_eof()
        assert await reader.read() == sent
        writer.close()
        await writer.wait_closed()

    simulate(work)


def test_the_same_seed_gives_the_same_run() -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.network.conditions.segment_max = 10
        reader, writer = await open_to(echo)
        writer.write(b"x" * 100)
        await reader.readexactly(100)
        writer.close()

    first, again, other = simulate(work, 1), simulate(work, 1), simulate(work, 2)
    assert first.trace.digest == again.trace.digest != other.trace.digest
    assert first.time() == again.time() != other.time()


def test_a_connection_without_listener_is_refused() -> None:
    async def work(loop: SimulatedLoop) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("host", 1)

    simulate(work)


def test_a_silent_host_never_answers() -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.network.silent.add(("host", 1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.open_connection("host", 1), 100.0)

    simulate(work)


def test_a_full_connection_pauses_the_writer() -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.network.conditions.window = 1000
        _, writer = await open_to(hold)
        writer.write(b"x" * 500_000)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.drain(), 10.0)
        assert writer.transport.get_write_buffer_size() > 65_536
        writer.transport.abort()

    simulate(work)


def test_bytes_are_read_when_they_leave() -> None:
    async def work(loop: SimulatedLoop) -> None:
        loop.network.conditions.window = 4
        reader, writer = await open_to(echo)
        buffer = bytearray(b"aaaabbbb")
        writer.write(buffer)
        buffer[:] = b"________"
        assert await reader.readexactly(8) == b"aaaa____"
        writer.close()

    simulate(work)


def test_a_half_open_connection_says_nothing() -> None:
    async def work(loop: SimulatedLoop) -> None:
        reader, writer = await open_to(echo)
        (wire,) = loop.network.wires
        wire.stall()
        writer.write(b"hello")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(5), 1000.0)
        wire.resume()
        assert await reader.readexactly(5) == b"hello"
        writer.close()

    simulate(work)


@pytest.mark.parametrize("late", [False, True])
def test_after_a_late_reset_the_bytes_on_their_way_arrive(late: bool) -> None:
    arrived = bytearray()

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            arrived.extend(data)

    async def work(loop: SimulatedLoop) -> None:
        reader, writer = await open_to(keep)
        writer.write(b"hello")
        loop.network.wires[0].reset(late=late)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await asyncio.sleep(1.0)
        writer.close()

    loop = SimulatedLoop(1)
    # A server task that ends with a reset is reported there.
    loop.set_exception_handler(lambda _, context: None)
    with loop:
        loop.run(work(loop))
    assert bytes(arrived) == (b"hello" if late else b"")


def test_what_was_written_before_an_abort_arrives() -> None:
    async def work(loop: SimulatedLoop) -> None:
        arrived = loop.create_future()

        async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.set_result(await reader.read())

        _, writer = await open_to(keep)
        writer.write(b"hello")
        writer.transport.abort()
        assert await arrived == b"hello"

    simulate(work)


def test_bytes_for_a_closed_connection_are_answered_with_a_reset() -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def work(loop: SimulatedLoop) -> None:
        reader, writer = await open_to(leave)
        assert await reader.read() == b""
        writer.write(b"hello")
        await asyncio.sleep(1.0)
        with pytest.raises(ConnectionResetError):
            await writer.drain()

    simulate(work)
