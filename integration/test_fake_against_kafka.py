"""Real brokers run the scenarios of `FakeCluster`: if they differ, the fake cluster is wrong.

The fake cluster runs them in `tests/testing/fake/`.
"""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.testing import FakeCluster, KafkaCluster
from integration.support.brokers import NEWEST, VERSIONS, SharedClusters, transaction_version
from integration.support.clusters import MakeTopic
from tests.support.broker_scenarios import SCENARIOS, Scenario
from tests.support.lab import open_lab
from tests.support.length import by_length
from tests.support.random_requests import play
from tests.support.zone_scenarios import RACKS, ZoneBench, values
from tests.support.zone_scenarios import SCENARIOS as OF_ZONES
from tests.support.zone_scenarios import Scenario as OfZones

QUICK: dict[str, Any] = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "group.min.session.timeout.ms": 10,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.assignor.offload.enable": "false",
    "group.consumer.migration.policy": "disabled",
}
"""How often a broker looks for transactions that take too long, in place of every 10 seconds; how short the session of
a group's member may be; that partitions are divided with the heartbeat that calls for it, not some time later; and that
a group is of one protocol at a time."""


@pytest.fixture(scope="module", params=VERSIONS)
def one_broker(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker, in place of which nobody puts a fake one."""
    return shared_clusters(version=request.param, backend="local", **QUICK)


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.level != 2], ids=str)
async def test_version_1(one_broker: KafkaCluster, scenario: Scenario) -> None:
    async with open_lab(one_broker.bootstrap_servers, 1) as lab:
        await scenario.check(lab)


@pytest.mark.parametrize("one_broker", [NEWEST], indirect=True)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_version_2(one_broker: KafkaCluster, scenario: Scenario) -> None:
    async with open_lab(one_broker.bootstrap_servers, 2) as lab:
        await scenario.check(lab)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("scenario", OF_ZONES, ids=lambda scenario: scenario.__name__)
async def test_zones(shared_clusters: SharedClusters, make_topic: MakeTopic, scenario: OfZones, version: str) -> None:
    cluster = shared_clusters(3, version=version, backend="local", racks=RACKS)
    bench = await ZoneBench.open(cluster.bootstrap_servers, await make_topic(cluster))
    await scenario(bench)
    assert values(await bench.fetch(bench.leader)) == [b"0", b"1", b"2"]


async def answers(broker: KafkaCluster, level: int, seed: int) -> tuple[object, object]:
    """What a fake broker and a real one answer to the same requests."""
    async with (
        FakeCluster(transaction_version=transaction_version(broker)) as fake,
        open_lab(fake.bootstrap, level) as at_the_fake,
        open_lab(broker.bootstrap_servers, level) as at_the_real,
    ):
        return await play(at_the_fake, seed, steps=100), await play(at_the_real, seed, steps=100)


@pytest.mark.parametrize("seed", range(by_length(3, 10)))
async def test_random_requests_of_version_1(one_broker: KafkaCluster, seed: int) -> None:
    at_the_fake, at_the_real = await answers(one_broker, 1, seed)
    assert at_the_fake == at_the_real


@pytest.mark.parametrize("one_broker", [NEWEST], indirect=True)
@pytest.mark.parametrize("seed", range(by_length(6, 20)))
async def test_random_requests_of_version_2(one_broker: KafkaCluster, seed: int) -> None:
    at_the_fake, at_the_real = await answers(one_broker, 2, seed)
    assert at_the_fake == at_the_real
