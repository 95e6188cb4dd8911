"""What an operator is told of real brokers that go down and come back: the log of a producer, and `aioprod doctor`."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from aioprod.admin import Admin
from aioprod.testing import KafkaCluster
from integration.operator_logs import broker_lost, healthy, logged, start_without_kafka, topic_deleted
from integration.support.clusters import MakeTopic
from integration.support.peers import closed_port
from tests.support.doctor import Visit


async def test_a_healthy_load_is_two_lines(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topics = await make_topic(mortal_cluster, 3), await make_topic(mortal_cluster)
    with logged() as lines:
        sent = await healthy(mortal_cluster, topics, 1.0)
    first, last = [text for _, _, text in lines.told]
    assert first.startswith("Producer 'shop' is connected to cluster ")
    assert f" {sent} records delivered, 0 not sent, 0 unknown, 0 rejected" in last


async def test_a_broker_that_is_lost_and_comes_back(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(mortal_cluster)
    with logged() as lines:
        await broker_lost(mortal_cluster, topic, 3.0)
    told = [f"{level} {text}" for _, level, text in lines.told]
    about_brokers = [text for text in told if re.search(r"^\w+ Broker 1 at", text)]
    assert re.search(r"^WARNING Broker 1 at \S+ is lost, and \d+ records? waits? for it: ", about_brokers[0])
    assert re.search(r"^INFO Broker 1 at \S+ is back after ", about_brokers[1])
    assert told[-1].endswith(" 0 not sent, 0 unknown, 0 rejected")


async def test_a_start_without_kafka() -> None:
    with logged() as lines:
        await start_without_kafka(closed_port(), 1.5)
    (text,) = [text for _, _, text in lines.told]
    assert text.startswith("Kafka is not reachable yet: ")


async def test_a_topic_that_is_deleted(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(mortal_cluster)
    with logged() as lines:
        await topic_deleted(mortal_cluster, topic, 6.0)
    assert len(lines.told) < 10


@pytest.mark.cluster
def test_a_doctor_beside_one_broker_of_three_that_is_down(
    kafka_cluster_3: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """At once, while the controller still takes it for alive, and then."""
    cluster, visit = kafka_cluster_3, Visit(capsys, tmp_path)
    *others, victim = sorted(cluster.broker_ids)
    asyncio.run(cluster.create_topic("of-three", replication_factor=3))
    asyncio.run(cluster.kill(victim))
    try:
        visit(cluster.bootstrap_servers)
        assert (visit.failed, visit.of("tcp")[0]) == ([], "warning")
        assert visit.of("brokers")[0] == "warning"
        asyncio.run(until_known(cluster, others))
        visit(cluster.bootstrap_servers)
        assert visit.failed == []
        assert visit.of("brokers")[:2] == ("warning", f"Broker {victim} is down: 2 of 3 brokers are up.")
    finally:
        asyncio.run(cluster.restart(victim))


async def until_known(cluster: KafkaCluster, brokers: list[int]) -> None:
    """Wait until the cluster says that these brokers are up, and no others."""
    async with Admin(cluster.bootstrap_servers) as admin:
        while [node.id for node in (await admin.describe_cluster()).nodes] != brokers:
            await asyncio.sleep(0.1)
