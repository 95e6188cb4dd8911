from __future__ import annotations

import asyncio
import gc

import pytest

from aioprod.cluster import Node
from aioprod.cluster.metadata import PARTITIONS_AT_ONCE
from aioprod.errors import ErrorCode, MetadataTimeoutError, RequestTimedOutError
from aioprod.messages import ApiVersionsRequest, MetadataRequest, MetadataResponse
from aioprod.net import metadata_refresh
from aioprod.net.protocol.backoff import Backoff
from aioprod.net.settings import Address
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.clients import Clock, Listener, StillClock, new_client, running_client
from tests.support.dead_addresses import dead_address


def moved_to(brokers: FakeCluster, node_id: int, address: Address) -> None:
    """The metadata names another address for a node."""
    brokers.state.nodes[node_id] = address


async def test_one_request_at_a_time() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        # One that the broker creates has no leader at first, and would be asked for again.
        brokers.create_topic("a")
        held = brokers.fault(MetadataRequest, hold=True)
        client.metadata.add_topic("a", client.metadata.last_success or 0.0)
        client.wake()
        await held.reached.wait()
        for topic in ("b", "c"):
            client.metadata.add_topic(topic, client.metadata.last_success or 0.0)
            client.wake()
            await asyncio.sleep(0.005)
        assert len(brokers.seen_of(MetadataRequest)) == 2
        held.release()
        await listener.until(lambda: {"a", "b", "c"} <= client.metadata.cluster.topics)
        asked = [[topic.name for topic in request.topics] for request in brokers.seen_of(MetadataRequest)]
        assert asked[:3] == [[], ["a"], ["b", "c"]]


async def test_many_partitions_follow_a_change_of_brokers_in_several_turns() -> None:
    # Or another broker would be asked where the first answer, of thousands of partitions, takes half a second.
    clock = StillClock()
    async with FakeCluster(2) as brokers, running_client(*brokers.addresses, clock=clock) as (client, listener):
        metadata = client.metadata
        names = [f"t{number}" for number in range(3)]
        for name in names:
            brokers.create_topic(name, partitions=PARTITIONS_AT_ONCE)
            metadata.add_topic(name, 0.0)
        client.wake()
        await listener.until(lambda: len(metadata.cluster.topics) == 3)
        before = len(listener.updates)
        moved_to(brokers, 2, ("moved", 9092))
        metadata.request_update(clock(), "t0")
        clock.advance(0.1)
        client.wake()
        await listener.until(lambda: len(listener.updates) > before and not metadata.is_behind)
        for name in names:
            hosts = {info.leader.host for info in metadata.cluster.partitions_for_topic(name) if info.leader}
            assert hosts == {"127.0.0.1", "moved"}
        # The answer tells of t0, and t2 is the first to follow; nothing is left to change of t0 when its turn comes.
        changed = [update.changed_topics for update in listener.updates[before:]]
        assert [topics for topics in changed if topics] == [{"t0", "t2"}, {"t1"}]
        assert not changed[-1]


async def test_metadata_is_requested_again_after_the_maximal_age() -> None:
    clock = Clock()
    async with FakeCluster() as brokers, running_client(brokers[1].address, clock=clock) as (client, listener):
        clock.advance(299.0)
        client.wake()
        await client.request(MetadataRequest(topics=()))
        assert listener.events.count(("metadata", None)) == 1
        clock.advance(1.5)
        client.wake()
        await listener.seen("metadata", times=2)


async def test_another_broker_gets_the_request_after_a_failure() -> None:
    async with FakeCluster(2) as brokers, running_client(*brokers.addresses) as (client, listener):
        for node_id in (1, 2):
            link = client.link(node_id)
            assert link is not None
            link.ensure(client._clock())
            await listener.seen("ready", node_id)
        before = len(brokers.seen_of(MetadataRequest))
        brokers.fault(MetadataRequest, edit=lambda answer: MetadataResponse(cluster_id="starting"))
        client.metadata.request_update(client._clock())
        client.wake()
        await listener.seen("metadata", times=2)
        nodes = [one.node for one in brokers.seen if isinstance(one.message, MetadataRequest)][before:]
        assert len(nodes) >= 2
        assert set(nodes[:2]) == {1, 2}


async def test_a_broker_that_does_not_answer_costs_one_time_out() -> None:
    clock = Clock()
    async with FakeCluster(2) as brokers, running_client(*brokers.addresses, clock=clock) as (client, listener):
        fault = brokers.fault(MetadataRequest, silent=True)
        client.metadata.request_update(clock())
        clock.advance(1.0)
        client.wake()
        await fault.reached.wait()
        clock.advance(30.0)
        client.wake()
        await listener.seen("metadata", times=2)
        assert any(isinstance(error, RequestTimedOutError) for error in listener.errors)


async def test_brokers_that_vanish_are_left_and_new_ones_found() -> None:
    async with FakeCluster(3) as brokers:
        await brokers[3].kill()
        async with running_client(brokers[1].address) as (client, listener):
            for node_id in (1, 2):
                while (link := client.link(node_id)) is None or not link.ensure(client._clock()):
                    await asyncio.sleep(0.001)
            assert client.link(3) is None
            await brokers[3].start()
            brokers.state.nodes.pop(2)
            client.metadata.request_update(client._clock())
            client.wake()
            await listener.seen("lost", 2)
            assert listener.errors == [None]
            third = client.link(3)
            assert third is not None
            while brokers[2].connections:
                await asyncio.sleep(0.001)


async def test_a_broker_that_moved_is_followed() -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, listener):
        link = client.link(2)
        assert link is not None
        link.ensure(client._clock())
        await listener.seen("ready", 2)
        async with FakeCluster(2) as elsewhere:
            moved_to(brokers, 2, elsewhere[2].address)
            client.metadata.request_update(client._clock())
            client.wake()
            await listener.seen("lost", 2)
            assert not link.ensure(client._clock())
            await listener.seen("ready", 2, times=2)
            assert link is client.link(2)
            assert elsewhere[2].connections == 1


async def test_the_bootstrap_servers_get_the_request_when_no_known_broker_is_left() -> None:
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        moved_to(gateway, 1, brokers[1].address)
        async with running_client(gateway[1].address) as (client, listener), FakeCluster() as successor:
            moved_to(gateway, 1, successor[1].address)
            assert (await client.request(MetadataRequest(topics=()))).cluster_id
            await brokers[1].kill()
            await listener.seen("metadata", times=2)
            link = client.link(1)
            assert link is not None
            assert link.address == successor[1].address
            await client.request(MetadataRequest(topics=()), node_id=1)


async def test_without_rebootstrap_the_known_brokers_are_all_there_is() -> None:
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        moved_to(gateway, 1, brokers[1].address)
        clock = Clock()
        async with running_client(gateway[1].address, rebootstrap=False, clock=clock) as (client, listener):
            await client.request(MetadataRequest(topics=()))
            before = len(gateway.seen)
            await brokers[1].kill()
            clock.advance(1000.0)
            client.wake()
            await listener.seen("lost", 1, times=3)
            assert len(gateway.seen) == before
            await brokers[1].start()
            await listener.seen("metadata", times=2)


async def test_brokers_that_do_not_describe_the_cluster_in_time_are_dropped() -> None:
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        moved_to(gateway, 1, brokers[1].address)
        clock = Clock()
        async with running_client(gateway[1].address, clock=clock, rebootstrap_trigger_s=60.0) as (client, listener):
            useless = brokers.fault(
                MetadataRequest,
                times=None,
                edit=lambda answer: MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            )
            link = client.link(1)
            assert link is not None
            link.ensure(clock())
            await listener.seen("ready", 1)
            client.metadata.request_update(clock())
            client.wake()
            await useless.reached.wait()
            clock.advance(60.0)
            client.wake()
            await listener.seen("metadata", times=2)
            assert "no broker has described the cluster for 60 s" in str(listener.errors[-1])
            assert client.link(1) is link


async def test_no_patience_at_all_still_gives_each_broker_a_chance() -> None:
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        moved_to(gateway, 1, brokers[1].address)
        async with running_client(gateway[1].address, rebootstrap_trigger_s=0.0) as (client, listener):
            for times in (2, 3):
                client.metadata.request_update(client._clock())
                client.wake()
                await listener.seen("metadata", times=times)
            answer = await client.request(MetadataRequest(topics=()), node_id=1)
            assert answer.brokers


@pytest.mark.parametrize("rebootstrap", [True, False])
async def test_a_broker_may_request_another_bootstrap(rebootstrap: bool) -> None:
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        moved_to(gateway, 1, brokers[1].address)
        async with running_client(gateway[1].address, rebootstrap=rebootstrap) as (client, listener):
            await client.request(MetadataRequest(topics=()))
            refused = brokers.fault(
                MetadataRequest, edit=lambda answer: MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
            )
            before = len(gateway.seen)
            client.metadata.request_update(client._clock())
            client.wake()
            await listener.seen("metadata", times=2)
            assert refused.hits == 1
            assert (len(gateway.seen) > before) == rebootstrap
            assert (("lost", 1) in listener.events) == rebootstrap
            if rebootstrap:
                assert f"Broker 1 at {brokers[1].address[0]}" in str(listener.errors[0])


async def test_canonical_names_are_looked_up_before_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster() as brokers:
        asked: list[tuple[Address, ...]] = []

        async def canonical(loop: asyncio.AbstractEventLoop, addresses: tuple[Address, ...]) -> tuple[Address, ...]:
            asked.append(addresses)
            await asyncio.sleep(0.005)
            return (brokers[1].address,)

        monkeypatch.setattr(metadata_refresh, "canonical_addresses", canonical)
        async with running_client(("kafka", 9092), canonical_names=True) as (client, _):
            assert asked == [(("kafka", 9092),)]
            assert client.link(1) is not None


async def test_a_leader_hint_that_names_a_new_broker_makes_a_link() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        brokers.create_topic("t")
        client.metadata.add_topic("t", client._clock())
        client.wake()
        await listener.until(lambda: "t" in client.metadata.cluster.topics)
        assert client.link(9) is None
        newcomer = Node(9, *brokers[1].address)
        assert client.metadata.apply_leader_hint(TopicPartition("t", 0), 9, 5, newcomer, client._clock())
        client.poll(client._clock())
        assert client.link(9) is not None


async def test_bootstrap_servers_are_tried_again_and_again() -> None:
    async with FakeCluster() as brokers:
        brokers.fault(ApiVersionsRequest, drop="before", times=3)
        async with running_client(brokers[1].address) as (client, _):
            assert client.link(1) is not None
            assert len(brokers.seen_of(ApiVersionsRequest)) == 4


async def test_an_outage_does_not_flood_the_network() -> None:
    """With every broker gone each address is tried at the pace of its backoff, however often somebody polls."""
    listener = Listener()
    client = new_client(
        dead_address(),
        clock=Clock(),
        listener=listener,
        reconnect_backoff=Backoff(0.2, 0.2),
        retry_backoff=Backoff(0.2, 0.2),
    )
    polls = 0
    real_poll = client.poll

    def counting(now: float) -> float:
        nonlocal polls
        polls += 1
        return real_poll(now)

    client.poll = counting  # type: ignore[method-assign]  # to count
    with pytest.raises(MetadataTimeoutError):
        await client.start(0.5)
    await client.close()
    assert polls < 30


async def test_a_request_whose_client_is_closed_at_once_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers:
        async with running_client(brokers[1].address) as (client, _):
            brokers.fault(MetadataRequest, hold=True)
            now = client.now()
            client.metadata.add_topic("a", now)
            client.poll(now)
            assert client.metadata.is_refreshing
            # Before the first step of the task that awaits the response.
            await client.close()
        brokers.end_faults()
    del client
    gc.collect()
    assert "never retrieved" not in caplog.text
