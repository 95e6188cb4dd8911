"""A broker that takes a metadata request and does not answer: others are asked too, and the first answer counts."""

from __future__ import annotations

import asyncio

import pytest

from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.net import Client
from aioprod.net.metadata_refresh import HEDGE_S
from aioprod.testing import FakeCluster
from tests.support.clients import Clock, Listener, StillClock, running_client
from tests.support.metadata_answers import names
from tests.support.producers import until

LONG_S = 3600.0
"""A request timeout that no test waits for."""


async def connect(client: Client, listener: Listener, *node_ids: int) -> None:
    for node_id in node_ids:
        link = client.link(node_id)
        assert link is not None
        if not link.ensure(client._clock()):
            await listener.seen("ready", node_id)


def asked(brokers: FakeCluster) -> list[tuple[int, list[str | None]]]:
    """Who was asked for which topics, in order."""
    return [(one.node, names(one.message)) for one in brokers.seen if isinstance(one.message, MetadataRequest)]


def ask_for(client: Client, topic: str) -> None:
    client.metadata.add_topic(topic, client._clock())
    client.wake()


def pass_time(client: Client, clock: Clock, seconds: float) -> None:
    clock.advance(seconds)
    client.wake()


async def settle() -> None:
    """Let everything happen that happens at once; only for what is expected not to happen."""
    await asyncio.sleep(0.02)


@pytest.mark.parametrize("connected", [True, False])
async def test_a_second_broker_gets_the_request_long_before_it_times_out(connected: bool) -> None:
    clock = StillClock()
    async with (
        FakeCluster(2) as brokers,
        running_client(brokers[1].address, clock=clock, request_timeout_s=LONG_S) as (client, listener),
    ):
        brokers.create_topic("a")
        brokers.create_topic("b")
        frozen = brokers.fault(MetadataRequest, silent=True, node=1)
        ask_for(client, "a")
        await frozen.reached.wait()
        if connected:
            await connect(client, listener, 2)
        ask_for(client, "b")
        await settle()
        before = len(asked(brokers))
        pass_time(client, clock, HEDGE_S + 0.1)
        await until(lambda: {"a", "b"} <= client.metadata.cluster.topics)
        # What has become due meanwhile is asked for in the same request.
        assert asked(brokers)[before:] == [(2, ["a", "b"])]
        link = client.link(1)
        assert link is not None
        assert link.connection is not None, "the first broker keeps its connection until its own time is over"


async def test_a_broker_gets_no_second_request_before_it_has_answered() -> None:
    clock = Clock()
    async with (
        FakeCluster() as brokers,
        running_client(brokers[1].address, clock=clock, request_timeout_s=LONG_S) as (client, _),
    ):
        brokers.create_topic("a")
        held = brokers.fault(MetadataRequest, hold=True)
        ask_for(client, "a")
        await held.reached.wait()
        for _ in range(5):
            pass_time(client, clock, 10.0)
            await settle()
        assert len(asked(brokers)) == 2
        held.release()
        await until(lambda: "a" in client.metadata.cluster.topics)
        ask_for(client, "b")
        await until(lambda: "b" in client.metadata.cluster.topics)


async def test_each_further_broker_gets_the_request_after_twice_the_time() -> None:
    clock = StillClock()
    async with (
        FakeCluster(3) as brokers,
        running_client(brokers[1].address, clock=clock, request_timeout_s=LONG_S) as (client, listener),
    ):
        await connect(client, listener, 1, 2, 3)
        brokers.create_topic("a")
        held = brokers.fault(MetadataRequest, hold=True, times=None)
        ask_for(client, "a")
        await held.reached.wait()
        pass_time(client, clock, HEDGE_S + 0.1)
        await until(lambda: held.hits == 2)
        pass_time(client, clock, HEDGE_S + 0.1)
        await settle()
        assert held.hits == 2
        pass_time(client, clock, HEDGE_S)
        await until(lambda: held.hits == 3)
        pass_time(client, clock, 100.0)
        await settle()
        assert sorted(node for node, _ in asked(brokers)[1:]) == [1, 2, 3]
        held.release()
        await until(lambda: "a" in client.metadata.cluster.topics)


async def test_the_late_answer_is_taken_too() -> None:
    clock = StillClock()
    async with (
        FakeCluster(2) as brokers,
        running_client(brokers[1].address, clock=clock, request_timeout_s=LONG_S) as (client, listener),
    ):
        brokers.create_topic("a")
        slow = brokers.fault(MetadataRequest, hold=True)
        slower = brokers.fault(MetadataRequest, hold=True)
        ask_for(client, "a")
        await slow.reached.wait()
        await connect(client, listener, 2)
        pass_time(client, clock, HEDGE_S + 0.1)
        await slower.reached.wait()
        slow.release()
        await until(lambda: "a" in client.metadata.cluster.topics)
        assert client.metadata.is_refreshing
        slower.release()
        await until(lambda: not client.metadata.is_refreshing)


@pytest.mark.parametrize("refuses", [True, False])
async def test_a_broker_that_fails_after_the_hedge_changes_nothing(refuses: bool) -> None:
    clock = StillClock()
    async with (
        FakeCluster(2) as brokers,
        running_client(brokers[1].address, clock=clock, request_timeout_s=LONG_S) as (client, listener),
    ):
        brokers.create_topic("a")
        first = brokers.fault(
            MetadataRequest,
            hold=True,
            edit=lambda answer: MetadataResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
            drop=None if refuses else "after",
        )
        second = brokers.fault(MetadataRequest, hold=True)
        ask_for(client, "a")
        await first.reached.wait()
        await connect(client, listener, 2)
        pass_time(client, clock, HEDGE_S + 0.1)
        await second.reached.wait()
        first.release()
        await until(lambda: client._refresh.error is not None)
        assert client.metadata.is_refreshing
        assert client.metadata.last_failure is None
        second.release()
        await until(lambda: "a" in client.metadata.cluster.topics)
        assert client._refresh.error is None


async def test_requests_to_silent_brokers_time_out() -> None:
    clock = Clock()
    async with FakeCluster() as gateway, FakeCluster() as brokers:
        gateway.state.nodes[1] = brokers[1].address
        async with running_client(
            gateway[1].address, clock=clock, rebootstrap_trigger_s=5.0, request_timeout_s=LONG_S
        ) as (client, listener):
            await connect(client, listener, 1)
            frozen = brokers.fault(MetadataRequest, silent=True)
            client.metadata.request_update(clock())
            pass_time(client, clock, 1.0)
            await frozen.reached.wait()
            pass_time(client, clock, 5.1)
            await listener.seen("metadata", times=2)
            assert "no broker has described the cluster for 5 s" in str(listener.errors[-1])
