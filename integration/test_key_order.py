"""Another client reads the records of a key in the order sent, by many tasks at once while brokers are killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from aioprod import Producer
from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.support.brokers import VERSIONS
from integration.support.clusters import MakeTopic, dead
from integration.support.figures import Figures
from integration.support.reading import stored
from tests.support.key_order import KeyedSenders, disorder

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

KEYS = [b"retail", b"corporate", b"markets", *(b"account %d" % number for number in range(5))]
PARTITIONERS = ("murmur2", "consistent")


@pytest.fixture(scope="module", params=VERSIONS)
def three_brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster of each version whose brokers may be killed."""
    with running_cluster(3, version=request.param, backend="local", min_insync_replicas=2) as cluster:
        yield cluster


@pytest.mark.long
async def test_one_keys_records_are_read_in_send_order(
    three_brokers: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    cluster = three_brokers
    senders: dict[str, KeyedSenders] = {}
    producers: dict[str, Producer] = {}
    async with AsyncExitStack() as stack:
        for partitioner in PARTITIONERS:
            topic = await make_topic(cluster, 6, 3)
            producer = Producer(cluster.bootstrap_servers, partitioner=partitioner, batch_size=500)
            producers[topic] = await stack.enter_async_context(producer)
            senders[topic] = KeyedSenders(producer, topic, KEYS, random.Random(7))
            await stack.enter_async_context(senders[topic].running())
        for victim in cluster.broker_ids:
            async with dead(cluster, victim):
                await asyncio.sleep(1)
            await asyncio.gather(*(each.more(200) for each in senders.values()))
        retries = {topic: producer.metrics()["record_retry_total"] for topic, producer in producers.items()}
    for topic, each in senders.items():
        assert each.errors == []
        assert disorder(await stored(cluster, topic), each.sent) == []
        assert retries[topic] > 0
    figures.add(
        f"records of {len(KEYS)} keys in send order, each broker of {cluster.version} killed once",
        sum(each.sent.total() for each in senders.values()),
    )
    figures.add(f"of these sent again, {cluster.version}", int(sum(retries.values())))
