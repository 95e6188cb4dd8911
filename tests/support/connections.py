"""One `BrokerConnection` for tests, and a recorder of its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from aioprod.errors import AioprodError
from aioprod.messages import MetadataRequest
from aioprod.net.connection import BrokerConnection
from aioprod.net.dialing import hello
from aioprod.net.events import ConnectionOwner
from aioprod.net.happy_eyeballs import open_connection
from aioprod.net.protocol.connection import Connection
from aioprod.net.settings import ClientSettings
from aioprod.testing import FakeCluster
from aioprod.wire.codec import encode
from aioprod.wire.schema import AnyRequest
from tests.support.clients import Clock

ALL = MetadataRequest(topics=None)
SETTINGS = ClientSettings(bootstrap=())


class Owner(ConnectionOwner):
    """Records the events of a connection."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.error: AioprodError | None = None
        self.failures: list[BaseException] = []
        self.deadlines: list[float] = []
        self.ready = asyncio.Event()
        self.lost = asyncio.Event()
        self.writable = asyncio.Event()
        self.bug: Exception | None = None

    def connection_made(self, connection: BrokerConnection) -> None:
        self.events.append("made")

    def connection_ready(self, connection: BrokerConnection) -> None:
        self.events.append("ready")
        self.ready.set()

    def connection_data(self, connection: BrokerConnection, now: float) -> None:
        self.events.append("data")
        if self.bug is not None:
            raise self.bug

    def connection_renewed(self, connection: BrokerConnection) -> None:
        self.events.append("renewed")

    def connection_writable(self, connection: BrokerConnection) -> None:
        self.events.append("writable")
        self.writable.set()

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        self.events.append("lost")
        self.error = error
        self.lost.set()


async def connect(address: tuple[str, int], clock: Clock, owner: Owner) -> BrokerConnection:
    loop = asyncio.get_running_loop()
    state = Connection("Broker 1", client_id="test", hello=hello(), request_timeout_s=30.0)

    def make() -> BrokerConnection:
        return BrokerConnection(state, 1, address, owner, loop, clock, owner.deadlines.append, owner.failures.append)

    return await open_connection(loop, address, make, SETTINGS)


@contextlib.asynccontextmanager
async def connected(brokers: FakeCluster) -> AsyncIterator[tuple[BrokerConnection, Owner, Clock]]:
    owner, clock = Owner(), Clock()
    connection = await connect(brokers[1].address, clock, owner)
    await owner.ready.wait()
    try:
        yield connection, owner, clock
    finally:
        if not owner.lost.is_set():
            await connection.close()


def parts_of(message: Any, version: int) -> tuple[type[AnyRequest], int, bool, list[bytes], int]:
    """The first arguments of `send_parts`, with the body cut in two."""
    body = encode(message, version)
    return type(message), version, message.is_flexible(version), [body[:3], body[3:]], len(body)
