from __future__ import annotations

import asyncio
from random import Random

import pytest

from aioprod.cluster import Node
from aioprod.errors import BrokerConnectionError
from aioprod.messages import MetadataRequest
from aioprod.net.context import ClientContext
from aioprod.net.events import ClientListener
from aioprod.net.link import LinkState
from aioprod.net.pool import LinkPool
from aioprod.net.settings import ClientSettings
from aioprod.net.tasks import Supervisor
from aioprod.testing import FakeCluster
from tests.support.clients import FAST, Clock

ALL = MetadataRequest(topics=None)


class Bench:
    """LinkPool, the time, and what has to be ended."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.clock = Clock()
        self.tasks = Supervisor(loop, print)
        settings = ClientSettings(bootstrap=(), reconnect_backoff=FAST)
        quiet = ClientListener()
        context = ClientContext(settings, loop, self.clock, Random(5), self.tasks, lambda _: None, quiet, quiet)
        self.links = LinkPool(context)

    async def ready(self, *node_ids: int) -> None:
        """Connect these."""
        for node_id in node_ids:
            link = self.links.get(node_id)
            assert link is not None
            while not link.ensure(self.clock()):
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        await self.tasks.close()
        await self.links.close(0.05)

    @property
    def ids(self) -> list[int]:
        return sorted(link.node.id for link in self.links)


def nodes_of(brokers: FakeCluster, *node_ids: int) -> list[Node]:
    return [Node(node_id, *brokers[node_id].address) for node_id in node_ids or brokers.brokers]


async def test_bootstrap_servers_give_way_to_brokers() -> None:
    b = Bench()
    b.links.set_bootstrap([("a", 1), ("b", 2)])
    before = (b.ids, b.links.has_bootstrap)
    assert b.links.set_nodes([Node(1, "c", 3), Node(2, "d", 4)]) == []
    assert [before, (b.ids, b.links.has_bootstrap)] == [([-2, -1], True), ([1, 2], False)]
    assert b.links.get(3) is None


async def test_the_broker_behind_a_bootstrap_address_keeps_the_connection() -> None:
    async with FakeCluster(2) as brokers:
        b = Bench()
        b.links.set_bootstrap([brokers[2].address, brokers[1].address])
        await b.ready(-1)
        first = b.links.get(-1)
        adopted = b.links.set_nodes(nodes_of(brokers))
        assert adopted == [first]
        assert b.links.get(2) is first
        assert b.ids == [1, 2]
        await b.close()


async def test_links_follow_the_metadata() -> None:
    b = Bench()
    b.links.set_nodes([Node(1, "a", 1), Node(2, "b", 2)])
    one, two = b.links.get(1), b.links.get(2)
    b.links.set_nodes([Node(1, "c", 3)])
    assert b.ids == [1]
    assert one is b.links.get(1)
    assert one is not None
    assert one.address == ("c", 3)
    assert two is b.links.get(2)
    assert two is not None
    assert two.retired
    b.links.set_nodes([Node(1, "c", 3), Node(2, "b", 2)])
    assert two is b.links.get(2)
    assert b.ids == [1, 2]
    for _ in range(2):
        b.links.set_nodes([Node(1, "c", 3)])
    assert b.links.get(2) is None


async def test_a_vanished_broker_is_kept_until_its_connection_is_gone() -> None:
    async with FakeCluster(2) as brokers:
        b = Bench()
        b.links.set_nodes(nodes_of(brokers))
        await b.ready(2)
        link = b.links.get(2)
        assert link is not None
        assert link.connection is not None
        held = brokers.fault(MetadataRequest, hold=True)
        answer = link.connection.request(ALL)
        for _ in range(3):
            b.links.set_nodes(nodes_of(brokers, 1))
            b.links.poll(b.clock())
        assert b.links.get(2) is link
        held.release()
        await answer
        while brokers[2].connections:
            b.links.poll(b.clock())
            await asyncio.sleep(0.001)
        b.links.set_nodes(nodes_of(brokers, 1))
        assert b.links.get(2) is None
        await b.close()


async def test_bootstrap_servers_that_are_known_brokers_are_not_added() -> None:
    b = Bench()
    b.links.set_nodes([Node(1, "a", 1)])
    b.links.set_bootstrap([("a", 1), ("b", 2)])
    assert b.ids == [-2, 1]
    b.links.set_bootstrap([("a", 1), ("b", 3)])
    link = b.links.get(-2)
    assert link is not None
    assert link.address == ("b", 3)


async def test_rebootstrapping_drops_all_connections() -> None:
    async with FakeCluster(2) as brokers:
        b = Bench()
        b.links.set_nodes(nodes_of(brokers))
        await b.ready(1)
        one = b.links.get(1)
        assert one is not None
        assert one.connection is not None
        held = brokers.fault(MetadataRequest, hold=True)
        answer = one.connection.request(ALL)
        await held.reached.wait()
        b.links.retire_all(BrokerConnectionError("another cluster"))
        with pytest.raises(BrokerConnectionError, match="another cluster"):
            await answer
        assert b.ids == []
        assert b.links.all_failing
        b.links.set_bootstrap(brokers.addresses)
        assert b.ids == [-2, -1]
        held.release()
        b.links.set_nodes(nodes_of(brokers))
        assert b.links.get(1) is one
        assert b.ids == [1, 2]
        await b.close()


async def test_the_least_loaded_is_ready_and_has_the_fewest_requests_in_flight() -> None:
    async with FakeCluster(3) as brokers:
        b = Bench()
        b.links.set_nodes(nodes_of(brokers))
        assert b.links.least_loaded(b.clock()) is None
        await b.ready(1, 2)
        one, two = b.links.get(1), b.links.get(2)
        assert one is not None
        assert one.connection is not None
        held = brokers.fault(MetadataRequest, hold=True)
        answer = one.connection.request(ALL)
        for _ in range(5):
            assert b.links.least_loaded(b.clock()) is two
        assert b.links.least_loaded(b.clock(), avoid=2) is one
        held.release()
        await answer
        assert {b.links.least_loaded(b.clock()) for _ in range(50)} == {one, two}
        await b.close()
        assert b.links.least_loaded(b.clock()) is None


async def test_the_one_to_avoid_is_taken_when_there_is_no_other() -> None:
    async with FakeCluster() as brokers:
        b = Bench()
        b.links.set_nodes(nodes_of(brokers))
        await b.ready(1)
        assert b.links.least_loaded(b.clock(), avoid=1) is b.links.get(1)
        await b.close()


async def test_seeking_tries_all_bootstrap_servers_at_once() -> None:
    b = Bench()
    b.links.set_bootstrap([("127.0.0.1", 1), ("127.0.0.1", 2), ("127.0.0.1", 3)])
    soon = b.links.seek(1000.0)
    assert [link.state for link in b.links] == [LinkState.CONNECTING] * 3
    assert 1000.0 < soon < 1001.0
    await b.close()


async def test_seeking_tries_one_broker_after_the_other() -> None:
    b = Bench()
    now = 1000.0
    b.links.set_nodes([Node(1, "127.0.0.1", 1), Node(2, "127.0.0.1", 1)])

    def connecting() -> int:
        return sum(link.state is LinkState.CONNECTING for link in b.links)

    soon = b.links.seek(now)
    assert now < soon < now + 1.0
    assert connecting() == 1
    assert b.links.seek(now + 0.01) == soon
    assert connecting() == 1
    b.links.seek(soon)
    assert connecting() == 2
    assert b.links.seek(soon + 10.0) == float("inf")
    await b.close()


async def test_seeking_waits_for_the_backoff_to_end() -> None:
    b = Bench()
    b.links.set_nodes([Node(1, "127.0.0.1", 1)])
    link = b.links.get(1)
    assert link is not None
    b.links.seek(b.clock())
    while not b.links.all_failing:
        await asyncio.sleep(0.001)
    assert b.links.seek(link.backoff_until - 0.0001) == link.backoff_until
    await b.close()
