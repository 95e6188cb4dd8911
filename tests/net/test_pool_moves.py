from __future__ import annotations

import asyncio
import math

import pytest

from aioprod.errors import BrokerConnectionError
from aioprod.messages import ApiVersionsRequest, ListOffsetsRequest, MetadataRequest
from aioprod.net.link import LinkState
from aioprod.net.protocol.backoff import Backoff
from aioprod.testing import FakeCluster
from tests.support.links import ALL, bench, dead_node, node_of


async def test_a_broker_that_moved_is_followed_when_nothing_is_outstanding() -> None:
    async with FakeCluster(2) as brokers, bench(node_of(brokers)) as b:
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
    async with FakeCluster(2) as brokers, bench(node_of(brokers)) as b:
        b.link.ensure(b.clock())
        b.link.follow(node_of(brokers, broker=2))
        while not b.events.events.count("ready"):
            b.poll()
            await asyncio.sleep(0.001)
        assert b.link.connection is not None
        assert b.link.connection.address == brokers[2].address


async def test_a_broker_that_moves_while_its_versions_are_negotiated_is_followed() -> None:
    async with FakeCluster(2) as brokers, bench(node_of(brokers)) as b:
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
    async with FakeCluster() as brokers, bench(dead_node(), reconnect_backoff=Backoff(100.0, 100.0)) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        b.link.follow(node_of(brokers))
        await b.ready()
        assert b.link.is_ready(b.clock())


async def test_a_broker_of_the_same_address_keeps_its_connection() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers, node_id=-1)) as b:
        await b.ready()
        assert b.link.is_bootstrap
        assert b.link.peer == b.link.node.address
        b.link.follow(node_of(brokers, node_id=4))
        assert b.link.ensure(b.clock())
        assert b.link.connection is not None
        assert (b.link.connection.node_id, b.link.connection.peer) == (4, f"Broker 4 at {b.link.node.address}")


async def test_a_retired_link_closes_when_nothing_is_outstanding() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
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
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        await b.ready()
        assert b.link.connection is not None
        brokers.fault(MetadataRequest, silent=True)
        future = b.link.connection.request(ALL)
        b.link.retire(BrokerConnectionError("another cluster"))
        with pytest.raises(BrokerConnectionError, match="another cluster"):
            await future


async def test_a_link_that_is_retired_while_connecting_ends_its_attempt() -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        b.link.ensure(b.clock())
        b.link.retire()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert b.link.state is LinkState.IDLE
        assert b.events.events == []
