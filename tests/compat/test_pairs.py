"""aiokafka and aioprod in its place do the same, with fake brokers; `integration/compat` has real ones."""

from __future__ import annotations

import uuid

import pytest

from aioprod.testing import FakeCluster
from tests.support.aiokafka_pairs import BEHAVIOURS, CLIENTS, Behaviour, Pair


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("behaviour", [one for one in BEHAVIOURS if one.on_fakes], ids=str)
async def test_behaviour(behaviour: Behaviour, client: str) -> None:
    async with FakeCluster(auto_create_topics_enable=False) as cluster:

        async def make_topic(partitions: int = 1, **config: object) -> str:
            name = f"topic-{uuid.uuid4().hex[:8]}"
            cluster.create_topic(name, partitions, **config)
            return name

        await behaviour.check(Pair(CLIENTS[client], cluster.bootstrap, make_topic))
