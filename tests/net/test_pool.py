from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from aioprod.cluster import Node
from aioprod.core.backoff import Backoff
from aioprod.errors import AioprodError, BrokerConnectionError, RequestTimedOutError
from aioprod.messages import ApiVersionsRequest, ListOffsetsRequest, MetadataRequest
from aioprod.net import pool
from aioprod.net.pool import BrokerLink, LinkEvents, LinkState, Surroundings
from aioprod.net.settings import ClientSettings
from aioprod.net.tasks import Supervisor
from tests.support.clients import FAST, Clock
from tests.support.fake_broker import FakeBrokers

ALL = MetadataRequest(topics=None)


class Events(LinkEvents):
    """Writes down what links tell, and lets a test wait for it."""

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

    def link_data(self, link: BrokerLink) -> None:
        self._note("data")

    def link_writable(self, link: BrokerLink) -> None:
        self._note("writable")

    def due(self, when: float) -> None:
        self.dues.append(when)
        self._changed.set()

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)
        self._note("failed")


class Bench:
    """A link, what it tells, and the time."""

    def __init__(self, node: Node, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.events = Events()
        self.clock = Clock()
        self.tasks = Supervisor(loop, self.events.failed)
        settings: dict[str, Any] = {"bootstrap": (), "reconnect_backoff": FAST}
        self.link = BrokerLink(
            node,
            Surroundings(ClientSettings(**(settings | options)), loop, self.clock, Random(5), self.tasks, self.events),
        )

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


def node_of(brokers: FakeBrokers, broker: int = 1, node_id: int = 1) -> Node:
    return Node(node_id, *brokers[broker].address)


def dead_node() -> Node:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return Node(1, *unused.getsockname())


# -- connecting ------------------------------------------------------------------------------------------------------


async def test_connects_when_it_is_wanted() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        assert b.link.state is LinkState.IDLE
        assert b.poll() == math.inf
        assert not b.link.ensure(b.clock())
        assert (b.link.state, brokers[1].connections) == (LinkState.CONNECTING, 0)
        assert not b.link.ensure(b.clock())
        await b.events.seen("ready")
        assert b.link.ensure(b.clock())
        assert b.link.connection is not None
        await b.link.connection.request(ALL)
        assert b.events.events == ["ready", "data"]
        assert brokers[1].connections == 1
        assert repr(b.link) == f"<BrokerLink Broker 1 at {b.link.node.address}, ready>"


async def test_backs_off_longer_with_each_failure_and_tries_again_when_it_is_wanted() -> None:
    async with bench(dead_node(), reconnect_backoff=Backoff(10.0, 100.0)) as b:
        b.link.ensure(b.clock())
        for attempt, nominal_s in enumerate((10.0, 20.0, 40.0), start=1):
            await b.events.seen("lost", attempt)
            state: object = b.link.state
            assert state is LinkState.BACKOFF
            assert b.link.attempts == attempt
            assert 0.75 * nominal_s < b.link.backoff_until - b.clock() < 1.25 * nominal_s
            assert b.poll() == math.inf
            assert not b.link.can_connect(b.clock())
            assert not b.link.ensure(b.clock())
            assert b.poll() == b.link.backoff_until
            b.clock.advance(1.25 * nominal_s)
            assert b.link.can_connect(b.clock())
            assert b.poll() == math.inf
            state = b.link.state
            assert state is LinkState.CONNECTING
        assert "Connection refused" in str(b.link.last_error)
        assert b.events.errors[0] is not None


async def test_being_ready_forgets_failures() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        brokers.fault(ApiVersionsRequest, drop="before", times=2)
        while not b.events.events.count("ready"):
            b.link.ensure(b.clock())
            await asyncio.sleep(0.001)
        assert b.events.events.count("lost") == 2
        assert (b.link.attempts, b.link.last_error) == (0, None)


async def test_a_connection_that_does_not_come_about_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: Any) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(pool, "open_connection", never)
    async with bench(Node(1, "kafka", 9092), connect_timeout=Backoff(0.001, 0.001)) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        assert str(b.link.last_error) == "kafka:9092 can't be reached: no connection within 0.0 s."


async def test_a_peer_that_is_silent_is_given_up() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        fault = brokers.fault(ApiVersionsRequest, silent=True)
        b.link.ensure(b.clock())
        await fault.reached.wait()
        assert b.poll() < math.inf
        b.clock.advance(30.0)
        b.poll()
        await b.events.seen("lost")
        assert isinstance(b.link.last_error, RequestTimedOutError)


async def test_the_broker_may_come_back() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        await brokers[1].kill()
        await b.events.seen("lost")
        assert b.link.connection is None
        await brokers[1].start()
        while b.events.events.count("ready") < 2:
            b.link.ensure(b.clock())
            await asyncio.sleep(0.001)


async def test_a_failure_after_the_connection_was_lost_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def made_and_lost(loop: Any, address: Any, factory: Any, settings: Any) -> None:
        connection = factory()
        b.link.connection_made(connection)
        b.link.connection_lost(connection, BrokerConnectionError("lost"))
        raise BrokerConnectionError("failed")

    monkeypatch.setattr(pool, "open_connection", made_and_lost)
    async with bench(dead_node()) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        await b.tasks.close()
        assert [str(error) for error in b.events.errors] == ["lost"]


# -- in use ----------------------------------------------------------------------------------------------------------


async def test_a_throttle_holds_requests_back_until_it_ends() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        brokers.fault(MetadataRequest, throttle_ms=5000)
        await b.link.connection.request(ALL)
        until = b.link.connection.throttled_until
        assert until in b.events.dues
        assert not b.link.ensure(b.clock())
        assert b.poll() == until
        b.clock.advance(5.0)
        b.poll()
        assert b.events.events[-1] == "writable"
        assert b.link.ensure(b.clock())


async def test_requests_wait_while_the_transport_is_full() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        b.link.connection.pause_writing()
        assert not b.link.ensure(b.clock())
        b.link.connection.resume_writing()
        assert b.link.ensure(b.clock())
        assert b.events.events[-1] == "writable"


async def test_an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer() -> None:
    async with (
        FakeBrokers() as brokers,
        bench(node_of(brokers), connections_max_idle_s=10.0, request_timeout_s=100.0) as b,
    ):
        await b.ready()
        connection = b.link.connection
        assert connection is not None
        assert b.poll() == connection.last_used + 10.0
        held = brokers.fault(MetadataRequest, hold=True)
        future = connection.request(ALL)
        b.clock.advance(50.0)
        b.poll()
        assert b.link.ensure(b.clock())
        held.release()
        await future
        b.clock.advance(9.0)
        b.poll()
        assert b.link.ensure(b.clock())
        b.clock.advance(1.0)
        b.poll()
        await b.events.seen("lost")
        assert b.events.errors == [None]
        assert b.link.state is LinkState.IDLE
        await b.ready()


async def test_a_request_that_is_overdue_costs_the_connection() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        brokers.fault(MetadataRequest, silent=True)
        future = b.link.connection.request(ALL, timeout_s=1.0)
        b.clock.advance(1.0)
        b.poll()
        with pytest.raises(RequestTimedOutError):
            await future
        await b.events.seen("lost")
        assert b.link.state is LinkState.BACKOFF


# -- brokers that move, go and come back -----------------------------------------------------------------------------


async def test_a_broker_that_moved_is_followed_when_nothing_is_outstanding() -> None:
    async with FakeBrokers(2) as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        held = brokers.fault(MetadataRequest, hold=True)
        future = b.link.connection.request(ALL)
        b.link.follow(node_of(brokers, broker=2))
        assert not b.link.ensure(b.clock())
        b.poll()
        held.release()
        await future
        b.poll()
        await b.events.seen("lost")
        b.poll()
        await b.events.seen("ready", 2)
        assert b.link.connection.address == brokers[2].address
        assert b.events.errors == [None]


async def test_a_broker_that_moves_while_it_is_being_connected_to_is_followed() -> None:
    async with FakeBrokers(2) as brokers, bench(node_of(brokers)) as b:
        b.link.ensure(b.clock())
        b.link.follow(node_of(brokers, broker=2))
        while not b.events.events.count("ready"):
            b.poll()
            await asyncio.sleep(0.001)
        assert b.link.connection is not None
        assert b.link.connection.address == brokers[2].address


async def test_a_broker_that_moves_while_its_versions_are_negotiated_is_followed() -> None:
    async with FakeBrokers(2) as brokers, bench(node_of(brokers)) as b:
        held = brokers.fault(ApiVersionsRequest, hold=True)
        b.link.ensure(b.clock())
        await held.reached.wait()
        b.link.follow(node_of(brokers, broker=2))
        await b.events.seen("lost")
        b.poll()
        await b.events.seen("ready")
        assert b.link.connection is not None
        assert b.link.connection.address == brokers[2].address
        held.release()


async def test_a_broker_that_moved_needs_no_backoff() -> None:
    async with FakeBrokers() as brokers, bench(dead_node(), reconnect_backoff=Backoff(100.0, 100.0)) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        b.link.follow(node_of(brokers))
        await b.ready()


async def test_a_broker_of_the_same_address_keeps_its_connection() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers, node_id=-1)) as b:
        await b.ready()
        assert b.link.is_bootstrap
        assert b.link.peer == b.link.node.address
        b.link.follow(node_of(brokers, node_id=4))
        assert b.link.ensure(b.clock())
        assert b.link.connection is not None
        assert (b.link.connection.node_id, b.link.connection.peer) == (4, f"Broker 4 at {b.link.node.address}")


async def test_a_retired_link_closes_when_nothing_is_outstanding() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        held = brokers.fault(ListOffsetsRequest, hold=True)
        future = b.link.connection.request(ListOffsetsRequest())
        b.link.retire()
        b.poll()
        assert not b.link.ensure(b.clock())
        held.release()
        await future
        b.poll()
        await b.events.seen("lost")
        assert not b.link.ensure(b.clock())
        assert not b.link.can_connect(b.clock())
        assert b.poll() == math.inf
        b.link.follow(b.link.node)
        await b.ready()


async def test_a_link_that_is_retired_with_an_error_closes_at_once() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        brokers.fault(MetadataRequest, silent=True)
        future = b.link.connection.request(ALL)
        b.link.retire(BrokerConnectionError("another cluster"))
        with pytest.raises(BrokerConnectionError, match="another cluster"):
            await future


async def test_a_link_that_is_retired_while_connecting_ends_its_attempt() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        b.link.ensure(b.clock())
        b.link.retire()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert b.link.state is LinkState.IDLE
        assert b.events.events == []


# -- words -----------------------------------------------------------------------------------------------------------


async def test_describes_how_it_stands() -> None:
    async with FakeBrokers() as brokers, bench(node_of(brokers)) as b:
        name = f"Broker 1 at {b.link.node.address}"
        assert b.link.describe(b.clock()) == f"{name} is idle"
        held = brokers.fault(ApiVersionsRequest, hold=True)
        b.link.ensure(b.clock())
        b.clock.advance(1.5)
        assert b.link.describe(b.clock()) == f"{name} has not taken the connection for 1.5 s"
        await held.reached.wait()
        assert b.link.describe(b.clock()).startswith(f"{name} has not answered ApiVersions for 1.5")
        held.release()
        await b.events.seen("ready")
        assert b.link.describe(b.clock()) == f"{name} is ready"
        await brokers[1].kill()
        await b.events.seen("lost")
        assert b.link.describe(b.clock()) == str(b.link.last_error).rstrip(".")
