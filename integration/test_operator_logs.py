"""The log of a producer whose real broker goes down and comes back, and of a load on a healthy broker."""

from __future__ import annotations

import re

from aioprod.testing import KafkaCluster
from integration.operator_logs import broker_lost, healthy, logged, start_without_kafka, topic_deleted
from integration.support.clusters import MakeTopic
from integration.support.peers import closed_port


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
