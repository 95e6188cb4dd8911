"""How servers of the tests close under clients that connect in a loop."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress

import pytest

from aioprod.testing.listening import PORTS, close_server, listen


async def test_no_connection_is_accepted_after_the_close() -> None:
    handled: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handled.append(writer)

    async def connect(port: int) -> None:
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.transport.abort()
            await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as leaked:
        warnings.simplefilter("always")
        for _ in range(50):
            handled.clear()
            server = await asyncio.start_server(handle, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            clients = [asyncio.create_task(connect(port)) for _ in range(5)]
            await asyncio.sleep(0.002)
            await close_server(server)
            closed = len(handled)
            await asyncio.sleep(0.002)
            assert len(handled) == closed
            for writer in handled:
                writer.transport.abort()
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
        await asyncio.sleep(0)
        gc.collect()
    assert [str(warning.message) for warning in leaked] == []


async def test_a_free_port_is_below_those_of_outgoing_connections() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await listen(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert port in PORTS
    with pytest.raises(OSError, match="in use"):
        await listen(handle, "127.0.0.1", port)
    await close_server(server)
    await close_server(await listen(handle, "127.0.0.1", port))
