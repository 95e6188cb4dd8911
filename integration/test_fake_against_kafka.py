"""Real brokers go through the scenarios that describe `FakeCluster`: where they differ the fake one is wrong.

The fake cluster goes through them in `tests/testing/fake/`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from tests.support.broker_scenarios import SCENARIOS, Scenario
from tests.support.lab import open_lab

OFTEN = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
"""How often a broker looks for transactions that take too long, in place of every 10 seconds."""


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def one_broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker, in place of which nobody puts a fake one."""
    with running_cluster(version=request.param, backend="local", **OFTEN) as cluster:
        yield cluster


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.level != 2], ids=str)
async def test_version_1(one_broker: KafkaCluster, scenario: Scenario) -> None:
    async with open_lab(one_broker.bootstrap_servers, 1) as lab:
        await scenario.play(lab)


@pytest.mark.parametrize("one_broker", ["4.3.0"], indirect=True)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_version_2(one_broker: KafkaCluster, scenario: Scenario) -> None:
    async with open_lab(one_broker.bootstrap_servers, 2) as lab:
        await scenario.play(lab)
