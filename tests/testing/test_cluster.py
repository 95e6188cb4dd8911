"""KafkaCluster with the local backend and a stand-in for the broker."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aioprod.errors import BrokerError, ConfigError, UsageError
from aioprod.testing import KafkaCluster, KafkaStartError, KafkaUnavailableError
from aioprod.testing.kafka import cluster as cluster_module
from aioprod.testing.kafka import local as local_module


async def is_open(address: str) -> bool:
    """Whether something listens there."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.transport.abort()
    return True


async def test_start_serve_close(local_kafka: Path) -> None:
    async with await KafkaCluster.start(version="3.9.1") as cluster:
        assert (cluster.version, cluster.backend, cluster.broker_ids) == ("3.9.1", "local", (1,))
        assert re.fullmatch(r"127\.0\.0\.1:\d+", cluster.bootstrap_servers)
        assert await is_open(cluster.bootstrap_servers)
        assert "node 1 says hello" in await cluster.log(1)
        assert len(list(local_kafka.iterdir())) == 1
    assert not await is_open(cluster.bootstrap_servers)
    assert list(local_kafka.iterdir()) == []
    await cluster.close()


async def test_topics(local_kafka: Path) -> None:
    async with await KafkaCluster.start() as cluster:
        await cluster.create_topic("orders", partitions=3, replication_factor=1, config={"max_message_bytes": 100})
        with pytest.raises(BrokerError, match="Topic 'orders' could not be created: Topic exists already") as caught:
            await cluster.create_topic("orders")
        assert caught.value.code == 36
        await cluster.delete_topic("orders")
        with pytest.raises(BrokerError, match="Topic 'orders' could not be deleted: UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.delete_topic("orders")


async def test_a_topic_without_leaders(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await KafkaCluster.start(stand_in="no_leader") as cluster:
        monkeypatch.setattr(cluster_module, "_START_TIMEOUT_S", 0.2)
        with pytest.raises(KafkaStartError, match="sees no leader for all partitions of topic 'orders'"):
            await cluster.create_topic("orders")


async def test_brokers_are_killed_stopped_frozen_and_started_again(local_kafka: Path) -> None:
    async with await KafkaCluster.start(2) as cluster:
        first, second = cluster.bootstrap_servers.split(",")
        await cluster.create_topic("kept")
        await cluster.kill(1)
        assert not await is_open(first)
        await cluster.kill(1)
        await cluster.create_topic("made by the other")
        await cluster.restart(1)
        assert await is_open(first)
        with pytest.raises(BrokerError, match="exists already"):
            await cluster.create_topic("kept")

        await cluster.stop_broker(2)
        assert not await is_open(second)
        await cluster.restart(2)
        assert await is_open(second)

        await cluster.pause(2)
        await cluster.create_topic("made while one is frozen")
        await cluster.resume(2)
        await cluster.restart(2)

        await cluster.pause(2)
        await cluster.kill(2)
        await cluster.kill(1)
        with pytest.raises(UsageError, match="No broker of this cluster is running"):
            await cluster.create_topic("nowhere")
        with pytest.raises(UsageError, match=r"Broker 7 can't be killed: this cluster's are \[1, 2\]"):
            await cluster.kill(7)


async def test_a_broker_that_does_not_stop_is_killed(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with await KafkaCluster.start(stand_in="ignore_term") as cluster:
        monkeypatch.setattr(local_module, "_STOP_TIMEOUT_S", 0.1)
        await cluster.stop_broker(1)
        assert not await is_open(cluster.bootstrap_servers)


async def test_proxied_brokers_advertise_the_proxys_address(local_kafka: Path) -> None:
    async with await KafkaCluster.start(2, proxied=True) as cluster:
        assert cluster.bootstrap_servers == ",".join(proxy.address for proxy in cluster.proxies.values())
        settings = next(local_kafka.glob("*/broker-2/server.properties")).read_text()
        assert f"advertised.listeners=CLIENT://{cluster.proxies[2].address}," in settings
        assert await is_open(cluster.proxies[2].address)
    assert not await is_open(cluster.proxies[2].address)


async def test_a_broker_that_exits_is_an_error_with_the_end_of_its_log(local_kafka: Path) -> None:
    with pytest.raises(KafkaStartError, match=r"(?s)Broker 1 has ended; the end of its log:.*Fatal: a setting"):
        await KafkaCluster.start(stand_in="die")
    assert list(local_kafka.iterdir()) == []


async def test_a_broker_that_cannot_format_its_data(local_kafka: Path) -> None:
    with pytest.raises(KafkaStartError, match=r"(?s)Broker 1 could not format its data: .*not to our taste"):
        await KafkaCluster.start(stand_in="die_in_format")
    assert list(local_kafka.iterdir()) == []


async def test_a_broker_that_never_serves(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_START_TIMEOUT_S", 0.5)
    with pytest.raises(
        KafkaStartError, match=r"(?s)did not serve within 0 s \(ConnectionRefusedError.*says hello|log:"
    ):
        await KafkaCluster.start(stand_in="silent")
    assert list(local_kafka.iterdir()) == []


async def test_brokers_that_do_not_see_each_other(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_START_TIMEOUT_S", 0.5)
    with pytest.raises(KafkaStartError, match=r"did not serve within 0 s"):
        await KafkaCluster.start(2, stand_in="alone")


async def test_other_ports_are_tried_when_one_is_in_use(local_kafka: Path) -> None:
    async with await KafkaCluster.start(stand_in="bind_error_once") as cluster:
        assert await is_open(cluster.bootstrap_servers)
    assert [entry.name for entry in local_kafka.iterdir()] == ["bind_error_was_raised"]


async def test_ports_that_stay_in_use_are_an_error(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "_START_TRIES", 2)
    with pytest.raises(KafkaStartError, match="BindException"):
        await KafkaCluster.start(stand_in="bind_error")


async def test_a_cluster_without_brokers() -> None:
    with pytest.raises(ConfigError, match="needs at least one broker, not 0"):
        await KafkaCluster.start(0)


async def test_racks_of_another_number_of_brokers() -> None:
    with pytest.raises(ConfigError, match="give the rack of each of the 2 brokers"):
        await KafkaCluster.start(2, racks=["a"])


@asynccontextmanager
async def given_cluster(monkeypatch: pytest.MonkeyPatch, brokers: int = 1) -> AsyncIterator[KafkaCluster]:
    """A cluster that AIOPROD_KAFKA names."""
    async with await KafkaCluster.start(brokers, backend="local") as cluster:
        # Requests to an external broker go to its port for clients.
        monkeypatch.setenv("AIOPROD_KAFKA", cluster.bootstrap_servers)
        yield cluster


async def test_an_external_cluster_is_used_and_not_stopped(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with given_cluster(monkeypatch, brokers=2) as given:
        async with await KafkaCluster.start(2) as cluster:
            assert (cluster.backend, cluster.version, cluster.broker_ids) == ("external", "unknown", (1, 2))
            assert cluster.bootstrap_servers == given.bootstrap_servers
            await cluster.create_topic("orders")
            with pytest.raises(
                UsageError, match=f"Broker 1 can't be killed: {given.bootstrap_servers} was not started"
            ):
                await cluster.kill(1)
        assert await is_open(given.bootstrap_servers.split(",")[0])


async def test_an_external_cluster_that_does_not_fit(local_kafka: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with given_cluster(monkeypatch) as given:
        with pytest.raises(KafkaUnavailableError, match="has 1 brokers and no proxies; 3 brokers were requested"):
            await KafkaCluster.start(3)
        with pytest.raises(KafkaUnavailableError, match="1 proxied brokers were requested"):
            await KafkaCluster.start(1, proxied=True)
        with pytest.raises(KafkaUnavailableError, match="was not started with `racks`"):
            await KafkaCluster.start(1, racks=["a"])
    with pytest.raises(KafkaUnavailableError, match=f"No broker answers at {given.bootstrap_servers}"):
        await KafkaCluster.start()


def test_brokers_end_with_the_process_that_started_them(local_kafka: Path) -> None:
    program = (
        "import asyncio, os, signal, sys, tempfile\n"
        "from aioprod.testing import KafkaCluster\n"
        f"tempfile.tempdir = {str(local_kafka)!r}\n"
        "async def main():\n"
        "    cluster = await KafkaCluster.start()\n"
        "    print(cluster.bootstrap_servers, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while asyncio.run(is_open(killed.stdout.strip())) or list(local_kafka.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("sign", ["server.properties", "broker.log"])
async def test_a_cancelled_start_leaves_nothing(sign: str, local_kafka: Path) -> None:
    start = asyncio.create_task(KafkaCluster.start(stand_in="silent"))
    async with asyncio.timeout(20):
        while not list(local_kafka.glob(f"*/broker-1/{sign}")):
            await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert list(local_kafka.iterdir()) == []
