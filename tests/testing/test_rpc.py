"""The requests that a cluster makes for itself, against peers that answer wrongly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aioprod.errors import ProtocolError
from aioprod.testing.kafka import rpc


@asynccontextmanager
async def peer(answer: bytes) -> AsyncIterator[rpc.Address]:
    """A server that reads a little, says `answer` and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield rpc.Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await asyncio.sleep(0)


async def test_a_peer_that_closes_the_connection() -> None:
    async with peer(b"\0\0") as address:
        with pytest.raises(ConnectionResetError, match="closed the connection"):
            await rpc.brokers_seen(address)


@pytest.mark.parametrize("size", [b"HTTP", b"\xff\xff\xff\xff"])
async def test_an_invalid_frame_size(size: bytes) -> None:
    async with peer(size) as address:
        with pytest.raises(ProtocolError, match="announces a frame of"):
            await rpc.brokers_seen(address)


async def test_a_peer_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc, "_CALL_TIMEOUT_S", 0.05)
    resume = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await resume.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(TimeoutError):
        await rpc.brokers_seen(rpc.Address("127.0.0.1", server.sockets[0].getsockname()[1]))
    resume.set()
    server.close()
    await asyncio.sleep(0)
