"""The short form of `make groups`: members of all kinds in one group, on both versions of Kafka."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.group.plan import STRATEGIES
from integration.group.run import PROPERTIES, Options, run
from integration.support.figures import Figures

pytestmark = pytest.mark.timeout(600)

EVENTS = {"range": 6, "roundrobin": 6, "cooperative-sticky": 12, "sticky": 6, "defaults": 12}


@pytest.fixture(scope="module", params=["4.3.0", "3.9.1"])
def group_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker that takes short session timeouts."""
    with running_cluster(version=request.param, backend="local", **PROPERTIES) as cluster:
        yield cluster


@pytest.mark.parametrize("strategy", EVENTS)
async def test_members_of_all_kinds_come_and_go(group_cluster: KafkaCluster, strategy: str, figures: Figures) -> None:
    options = Options(STRATEGIES[strategy], EVENTS[strategy])
    found = (await run(group_cluster, options, print)).figures
    assert found["flaws"] == {}, found["examples"]
    assert found["led"].keys() == set(options.strategy.kinds)
    name = f"in a mixed group, {strategy}, Kafka {group_cluster.version}"
    figures.add(f"records handled, none by two owners in a generation, {name}", found["sent"])
    took_s = [took for of in found["took_s"].values() for took in of]
    figures.add(f"s from an event until all is assigned, median, {name}", f"{statistics.median(took_s):.2f}")
