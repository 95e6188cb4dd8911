from __future__ import annotations

import asyncio
import gc
import math
from typing import Any

import pytest

from aioprod.cluster import Node
from aioprod.errors import BrokerConnectionError, RequestTimedOutError
from aioprod.messages import ApiVersionsRequest, MetadataRequest
from aioprod.net import dialing
from aioprod.net.link import LinkState
from aioprod.net.protocol.backoff import Backoff
from aioprod.testing import FakeCluster
from tests.support.links import ALL, bench, dead_node, node_of

# -- connecting ------------------------------------------------------------------------------------------------------


async def test_connects_when_it_is_wanted() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
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
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        brokers.fault(ApiVersionsRequest, drop="before", times=2)
        while not b.events.events.count("ready"):
            b.link.ensure(b.clock())
            await asyncio.sleep(0.001)
        assert b.events.events.count("lost") == 2
        assert (b.link.attempts, b.link.last_error) == (0, None)


async def test_a_connection_that_is_not_made_in_time_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*args: Any) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(dialing, "open_connection", never)
    async with bench(Node(1, "kafka", 9092), connect_timeout=Backoff(0.001, 0.001)) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        assert str(b.link.last_error) == "kafka:9092 can't be reached: no connection within 0.0 s."


async def test_a_silent_peer_is_aborted() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        fault = brokers.fault(ApiVersionsRequest, silent=True)
        b.link.ensure(b.clock())
        await fault.reached.wait()
        assert b.poll() < math.inf
        b.clock.advance(30.0)
        b.poll()
        await b.events.seen("lost")
        assert isinstance(b.link.last_error, RequestTimedOutError)


async def test_the_broker_may_come_back() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        await brokers[1].kill()
        await b.events.seen("lost")
        assert b.link.connection is None
        await brokers[1].start()
        while b.events.events.count("ready") < 2:
            b.link.ensure(b.clock())
            await asyncio.sleep(0.001)


async def test_a_failure_after_the_connection_was_lost_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def made_and_lost(loop: Any, address: Any, factory: Any, settings: Any, tls: Any) -> None:
        connection = factory()
        b.link.connection_made(connection)
        b.link.connection_lost(connection, BrokerConnectionError("lost"))
        raise BrokerConnectionError("failed")

    monkeypatch.setattr(dialing, "open_connection", made_and_lost)
    async with bench(dead_node()) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        await b.tasks.close()
        assert [str(error) for error in b.events.errors] == ["lost"]


# -- in use ----------------------------------------------------------------------------------------------------------


async def test_a_throttle_holds_requests_back_until_it_ends() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
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
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        b.link.connection.pause_writing()
        assert not b.link.ensure(b.clock())
        b.link.connection.resume_writing()
        assert b.link.ensure(b.clock())
        assert b.events.events[-1] == "writable"


async def test_an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer() -> None:
    async with (
        FakeCluster() as brokers,
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
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
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


# -- words -----------------------------------------------------------------------------------------------------------


async def test_describes_how_it_stands() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        name = f"Broker 1 at {b.link.node.address}"
        assert b.link.describe(b.clock()) == f"{name} is idle"
        held = brokers.fault(ApiVersionsRequest, hold=True)
        b.link.ensure(b.clock())
        later = b.link.connecting_since + 1.5
        assert b.link.describe(later) == f"{name} has not taken the connection for 1.5 s"
        await held.reached.wait()
        assert b.link.describe(later) == f"{name} has not answered ApiVersions for 1.5 s"
        held.release()
        await b.events.seen("ready")
        assert b.link.describe(b.clock()) == f"{name} is ready"
        await brokers[1].kill()
        await b.events.seen("lost")
        assert b.link.describe(b.clock()) == str(b.link.last_error).rstrip(".")


# -- connecting that is cancelled ------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(16))
async def test_a_connection_ends_in_whichever_turn_of_the_loop_its_making_is_cancelled(turns: int) -> None:
    """uvloop closes a transport then whose protocol has heard of it, and says no more."""
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        b.link.ensure(b.clock())
        for _ in range(turns):
            await asyncio.sleep(0)
        await b.tasks.close()
        if b.link.connection is not None:
            async with asyncio.timeout(10):
                await b.link.connection.close()
        assert b.link.connection is None


@pytest.mark.parametrize("turns", range(12))
async def test_an_attempt_that_is_cancelled_twice_leaves_no_socket_open(turns: int) -> None:
    """A link that was slower than another bootstrap server is retired, and then the client is closed."""
    for between in range(4):
        async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
            b.link.ensure(b.clock())
            for _ in range(turns):
                await asyncio.sleep(0)
            b.link.retire()
            for _ in range(between):
                await asyncio.sleep(0)
            await b.tasks.close()
            if b.link.connection is not None:
                await b.link.connection.close()
            assert b.link.connection is None
        # A socket that is left open warns when it is collected, and warnings are errors.
        gc.collect()


async def test_a_connection_that_takes_too_long_in_the_moment_in_which_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def made_and_cancelled(loop: Any, address: Any, factory: Any, settings: Any, tls: Any) -> None:
        connection = factory()
        connection.connection_made(Deaf())
        raise TimeoutError

    monkeypatch.setattr(dialing, "open_connection", made_and_cancelled)
    async with bench(dead_node()) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        assert b.link.connection is None
        assert b.link.state is LinkState.BACKOFF


class Deaf(asyncio.Transport):
    """Takes everything and says nothing."""

    def write(self, data: object) -> None:
        """Nobody reads it."""

    def abort(self) -> None:
        """It is gone already."""
