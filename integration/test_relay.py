"""Relays on real brokers, killed again and again."""

from __future__ import annotations

import asyncio
import random
from typing import Final

import pytest

from aioprod import TopicPartition
from aioprod.admin import Admin
from aioprod.testing import KafkaCluster
from integration.support.brokers import VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.life import Life
from integration.support.reading import committed
from integration.support.relay_program import KEYS
from tests.support.length import by_length

KILLS: Final = by_length(5, 100)
RECORDS: Final = by_length(30_000, 600_000)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(by_length(600, 1800))]


@pytest.fixture(scope="module", params=VERSIONS)
def trio(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """Three brokers of a version."""
    return shared_clusters(3, version=request.param)


async def test_a_relay_that_is_killed_again_and_again(
    trio: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    """Each number is in Kafka once, and those of a key are in order; the kills are at random places of transactions."""
    topic = await make_topic(trio, 3, min_insync_replicas=2)
    chance = random.Random(5)
    is_done, kills = False, 0
    while not is_done:
        life = await Life.begin("relay_program", trio.bootstrap_servers, topic, str(RECORDS))
        try:
            is_done = await life.commits(chance.randrange(1, 5) if kills < KILLS else None)
            await asyncio.sleep(chance.random() * 0.02)
        finally:
            await life.end()
        kills += not is_done
    assert kills == KILLS, "killed too rarely"

    numbers = [int(record.value or b"") for record in await committed(trio, topic)]
    assert sorted(numbers) == list(range(1, RECORDS + 1))
    for key in range(KEYS):
        of_key = [number for number in numbers if number % KEYS == key]
        assert of_key == sorted(of_key)
    async with Admin(trio.bootstrap_servers) as admin:
        offsets = await admin.group_offsets(f"aioprod-eos.{topic}")
    assert offsets[TopicPartition(topic, 0)].offset == RECORDS
    figures.add(
        f"records relayed on Kafka {trio.version}, each once, by a relay that was killed {KILLS} times", RECORDS
    )
