"""A `Client` for tests: recorded events, a clock that the test advances, and exceptions that fail the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

from aioprod.cluster import MetadataUpdate
from aioprod.errors import AioprodError
from aioprod.net import BrokerLink, Client, ClientListener, ClientSettings
from aioprod.net.protocol.backoff import Backoff

FAST = Backoff(0.001, 0.01)


class Clock:
    """The loop's time plus an offset that the test advances."""

    def __init__(self) -> None:
        self.offset_s = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.offset_s

    def advance(self, seconds: float) -> None:
        """Advance the time; timers that are due have to be woken."""
        self.offset_s += seconds


class StillClock(Clock):
    """Time that only the test advances: on no machine a timer of the client fires by itself."""

    def __call__(self) -> float:
        return self.offset_s


class Listener(ClientListener):
    """Records events: (event, node id or None)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int | None]] = []
        self.errors: list[AioprodError | None] = []
        self.updates: list[MetadataUpdate] = []
        self.failures: list[BaseException] = []
        self._changed = asyncio.Event()

    def _note(self, event: str, node_id: int | None = None) -> None:
        self.events.append((event, node_id))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for events until the condition holds."""
        async with asyncio.timeout(10.0):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def seen(self, event: str, node_id: int | None = None, times: int = 1) -> None:
        """Wait for an event."""
        await self.until(lambda: self.events.count((event, node_id)) >= times)

    def link_ready(self, link: BrokerLink) -> None:
        self._note("ready", link.node.id)

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        self.errors.append(error)
        self._note("lost", link.node.id)

    def link_data(self, link: BrokerLink, now: float) -> None:
        self._note("data", link.node.id)

    def link_writable(self, link: BrokerLink) -> None:
        self._note("writable", link.node.id)

    def metadata_changed(self, update: MetadataUpdate) -> None:
        self.updates.append(update)
        self._note("metadata")

    def wake(self) -> None:
        self._changed.set()

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self._note("failed")


def new_client(
    *addresses: tuple[str, int], clock: Callable[[], float], listener: ClientListener, **options: Any
) -> Client:
    """A client with short backoffs that is not started."""
    settings: dict[str, Any] = {"reconnect_backoff": FAST, "retry_backoff": FAST, "bootstrap": addresses}
    return Client(
        ClientSettings(**(settings | options)),
        loop=asyncio.get_running_loop(),
        clock=clock,
        random=Random(11),
        listener=listener,
    )


@contextlib.asynccontextmanager
async def running_client(
    *addresses: tuple[str, int], clock: Clock | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Listener]]:
    """A started client that runs by itself; at the end nothing may have failed and no task may be left."""
    before = asyncio.all_tasks()
    listener = Listener()
    client = new_client(*addresses, clock=clock or Clock(), listener=listener, **options)
    try:
        await client.start(5.0)
        client.keep_running()
        yield client, listener
    finally:
        await client.close()
    assert not listener.failures
    assert not [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]
