"""One `BrokerLink` for tests, and a recorder of its events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

from aioprod.cluster import Node
from aioprod.errors import AioprodError
from aioprod.messages import MetadataRequest
from aioprod.net.context import ClientContext
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.net.tasks import Supervisor
from aioprod.testing import FakeCluster
from tests.support.clients import FAST, Clock
from tests.support.dead_addresses import dead_address

ALL = MetadataRequest(topics=None)


class Events(ClientListener):
    """Records the events of links, and lets a test wait for them."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.errors: list[AioprodError | None] = []
        self.failures: list[BaseException] = []
        self.dues: list[float] = []
        self._changed = asyncio.Event()

    def _note(self, event: str) -> None:
        self.events.append(event)
        self._changed.set()

    async def seen(self, event: str, times: int = 1) -> None:
        """Wait until the event has happened so often."""
        async with asyncio.timeout(10.0):
            while self.events.count(event) < times:
                self._changed.clear()
                await self._changed.wait()

    def link_ready(self, link: BrokerLink) -> None:
        self._note("ready")

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        self.errors.append(error)
        self._note("lost")

    def link_data(self, link: BrokerLink, now: float) -> None:
        self._note("data")

    def link_writable(self, link: BrokerLink) -> None:
        self._note("writable")

    def wake_at(self, when: float) -> None:
        self.dues.append(when)
        self._changed.set()

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self._note("failed")


class Bench:
    """A link, its events, and its clock."""

    def __init__(self, node: Node, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.events = Events()
        self.clock = Clock()
        self.tasks = Supervisor(loop, self.events.failed)
        settings: dict[str, Any] = {"bootstrap": (), "reconnect_backoff": FAST}
        made = ClientSettings(**settings | options)
        self.tls, self.logins = security_of(made, Random(5))
        self.context = ClientContext(
            settings=made,
            loop=loop,
            clock=self.clock,
            random=Random(5),
            tasks=self.tasks,
            wake_at=self.events.wake_at,
            events=self.events,
            owner=self.events,
            tls=self.tls,
            logins=self.logins,
        )
        self.link = BrokerLink(node, self.context)

    async def ready(self) -> None:
        """Connect."""
        assert not self.link.ensure(self.clock())
        await self.events.seen("ready", self.events.events.count("ready") + 1)

    def poll(self) -> float:
        return self.link.poll(self.clock())


@contextlib.asynccontextmanager
async def bench(node: Node, **options: Any) -> AsyncIterator[Bench]:
    made = Bench(node, **options)
    yield made
    await made.tasks.close()
    if made.link.connection is not None:
        await made.link.connection.close()
    assert not made.events.failures


def node_of(brokers: FakeCluster, broker: int = 1, node_id: int = 1) -> Node:
    return Node(node_id, *brokers[broker].address)


def dead_node() -> Node:
    return Node(1, *dead_address())
