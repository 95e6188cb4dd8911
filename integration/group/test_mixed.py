"""The short form of `make groups`: a group for each assignor, all at once, on both versions of Kafka."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterator

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.group.plan import STRATEGIES, Strategy
from integration.group.run import PROPERTIES, Options, Run, run
from integration.support.brokers import VERSIONS
from integration.support.figures import Figures
from tests.support.length import by_length

pytestmark = pytest.mark.timeout(600)

EVENTS = by_length(
    {"defaults": 6, "brokers assign": 5},
    {
        "range": 8,
        "roundrobin": 8,
        "cooperative-sticky": 12,
        "sticky": 8,
        "defaults": 12,
        "changing": 10,
        "brokers assign": 10,
        "transactions": 10,
    },
)
"""How much happens to a group of each kind."""


@pytest.fixture(scope="module", params=VERSIONS)
def group_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """One broker that takes short session timeouts."""
    with running_cluster(version=request.param, backend="local", **PROPERTIES) as cluster:
        yield cluster


async def test_members_of_all_kinds_come_and_go(group_cluster: KafkaCluster, figures: Figures) -> None:
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(run_of(group_cluster, STRATEGIES[name], events))
            for name, events in EVENTS.items()
            if STRATEGIES[name].works_with(group_cluster.version)
        ]
    runs = [task.result().figures for task in running]
    examples = {found["strategy"]: found["examples"] for found in runs if found["flaws"]}
    assert examples == {}
    for found in runs:
        if found["strategy"] not in ("brokers assign", "transactions"):
            assert found["led"].keys() == set(STRATEGIES[found["strategy"]].kinds)
    where = f"in mixed groups, Kafka {group_cluster.version}"
    figures.add(f"records handled, none by two owners in a generation, {where}", sum(found["sent"] for found in runs))
    joined_s = [took for found in runs for took in found["took_s"].get("join", ())]
    figures.add(f"s until all is assigned when one joins, median, {where}", f"{statistics.median(joined_s):.2f}")


async def run_of(cluster: KafkaCluster, strategy: Strategy, events: int) -> Run:
    return await run(cluster, Options(strategy, events), lambda line: print(f"{strategy.name}: {line}"))
