"""Real brokers go through the scenarios that describe `FakeCluster`: where they differ the fake one is wrong.

The fake cluster goes through them in `tests/testing/fake/`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from tests.support.broker_scenarios import SCENARIOS
from tests.support.lab import open_lab


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def one_broker(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker that soon aborts what takes too long."""
    often = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with running_cluster(1, version=request.param, backend="local", auto_create_topics_enable=False, **often) as cluster:
        yield cluster


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_scenario(one_broker: KafkaCluster, scenario: str, level: int) -> None:
    if level == 2 and one_broker.version == "3.9.1":
        return
    async with open_lab(one_broker.bootstrap_servers, level) as lab:
        await SCENARIOS[scenario](lab)
