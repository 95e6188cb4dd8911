"""aiokafka and aioprod in its place do the same with a real broker."""

from __future__ import annotations

import pytest

from aioprod.testing import KafkaCluster
from integration.support.brokers import NEWEST, STRICT, SharedClusters
from integration.support.clusters import MakeTopic
from tests.support.aiokafka_pairs import BEHAVIOURS, CLIENTS, Behaviour, Pair


@pytest.fixture
def cluster(shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker, which creates no topics by itself."""
    return shared_clusters(version=NEWEST, **STRICT)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("behaviour", [one for one in BEHAVIOURS if one.on_real], ids=str)
async def test_behaviour(cluster: KafkaCluster, make_topic: MakeTopic, behaviour: Behaviour, client: str) -> None:
    async def made(partitions: int = 1, **config: object) -> str:
        return await make_topic(cluster, partitions, None, **config)

    await behaviour.check(Pair(CLIENTS[client], cluster.bootstrap_servers, made))
