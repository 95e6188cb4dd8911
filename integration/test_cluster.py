"""KafkaCluster with real brokers: it starts, survives the faults of tests, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from aioprod.errors import BrokerError
from aioprod.testing import KafkaCluster, KafkaStartError
from aioprod.testing.kafka import rpc


async def is_open(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.transport.abort()
    return True


def addresses(cluster: KafkaCluster) -> list[rpc.Address]:
    """Where each broker's clients connect to."""
    split = (address.rpartition(":") for address in cluster.bootstrap_servers.split(","))
    return [rpc.Address(host, int(port)) for host, _, port in split]


@pytest.mark.timeout(180)
async def test_one_broker_is_killed_stopped_and_frozen() -> None:
    async with await KafkaCluster.start() as cluster:
        await cluster.create_topic("kept", partitions=3, config={"min.insync.replicas": 1})
        await cluster.kill(1)
        assert not await is_open(cluster.bootstrap_servers)
        await cluster.restart(1)
        with pytest.raises(BrokerError, match="already exists"):
            await cluster.create_topic("kept")
        await cluster.stop_broker(1)
        assert not await is_open(cluster.bootstrap_servers)
        await cluster.restart(1)
        await cluster.pause(1)
        assert await is_open(cluster.bootstrap_servers)
        await cluster.resume(1)
        await cluster.delete_topic("kept")
    assert not await is_open(cluster.bootstrap_servers)


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_the_older_release() -> None:
    async with await KafkaCluster.start(version="3.9.1", backend="local", auto_create_topics_enable=False) as cluster:
        assert cluster.version == "3.9.1"
        await cluster.create_topic("orders")


@pytest.mark.cluster
@pytest.mark.timeout(240)
async def test_three_brokers_go_on_without_one() -> None:
    async with await KafkaCluster.start(3) as cluster:
        await cluster.create_topic("orders", partitions=6)
        for address in addresses(cluster):
            assert await rpc.brokers_seen(address) == {1, 2, 3}
        await cluster.kill(1)
        async with asyncio.timeout(60):
            while await rpc.brokers_seen(addresses(cluster)[1]) != {2, 3}:
                await asyncio.sleep(0.1)
        await cluster.create_topic("made-without-the-first", replication_factor=2)
        await cluster.restart(1)
        for address in addresses(cluster):
            assert await rpc.brokers_seen(address) == {1, 2, 3}


@pytest.mark.timeout(120)
async def test_a_proxied_broker_is_reached_through_its_proxy() -> None:
    async with await KafkaCluster.start(proxied=True) as cluster:
        (address,) = addresses(cluster)
        assert await rpc.brokers_seen(address) == {1}
        cluster.proxies[1].refuse = True
        with pytest.raises(OSError, match=r"reset|closed"):
            await rpc.brokers_seen(address)


@pytest.mark.timeout(120)
async def test_a_setting_that_no_broker_takes_is_quoted_from_its_log() -> None:
    with pytest.raises(KafkaStartError, match="NOWHERE"):
        await KafkaCluster.start(inter_broker_listener_name="NOWHERE")
