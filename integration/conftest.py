"""Shared by the tests with real brokers and with Java: clusters, topics, one JVM, the figures printed at the end.

The clusters `kafka_cluster` and `kafka_cluster_3` are those of aioprod's own pytest plugin, shared with tests that want
a version.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.support.brokers import NEWEST, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.java import JavaOracle
from integration.support.missing import missing_for_apicurio, missing_for_brokers, missing_for_java

# No JVM lives long enough here for the second compiler, which would take half of all their CPU time. Without it Java
# reserves 48 MB for compiled code: Spark fills them, and then throws code away and compiles it again.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=128m")

_HERE: Final = Path(__file__).parent
_OF_FIXTURES: Final = {"oracle": missing_for_java, "apicurio": missing_for_apicurio}
_WITHOUT_BROKERS: Final = ("test_checker.py", "test_registry.py", "test_report.py")
_CASES = pytest.StashKey[Counter[str]]()
_FIGURES = pytest.StashKey[Figures]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests here with what they need of this machine: brokers, and what their fixtures start."""
    for item in items:
        if not item.path.is_relative_to(_HERE) or item.path.name in _WITHOUT_BROKERS:
            continue
        item.add_marker(pytest.mark.needs(missing=missing_for_brokers))
        for name in _OF_FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.needs(missing=_OF_FIXTURES[name]))


@pytest.fixture
def make_topic(request: pytest.FixtureRequest) -> MakeTopic:
    """Makes topics that are named after the test."""

    async def make(
        cluster: KafkaCluster, partitions: int = 1, replication_factor: int | None = None, **config: object
    ) -> str:
        name = fresh_name(request)
        await cluster.create_topic(name, partitions, replication_factor, config)
        return name

    return make


@pytest.fixture
def unused_topic(request: pytest.FixtureRequest) -> str:
    """The name of a topic that nobody has created."""
    return fresh_name(request)


def fresh_name(request: pytest.FixtureRequest) -> str:
    """A legal topic name after the test's name that was never used before."""
    test = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return f"{test[:60]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def shared_clusters() -> Iterator[SharedClusters]:
    """Call it for a cluster that all tests share that want the same settings."""
    with SharedClusters.open() as clusters:
        yield clusters


@pytest.fixture(scope="session")
def kafka_cluster(shared_clusters: SharedClusters) -> KafkaCluster:
    return shared_clusters(version=NEWEST)


@pytest.fixture(scope="session")
def kafka_cluster_3(shared_clusters: SharedClusters) -> KafkaCluster:
    """Three brokers; a test that kills or freezes one brings it back."""
    return shared_clusters(3, version=NEWEST)


@pytest.fixture(scope="session")
def proxied_cluster(shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker behind a TcpProxy, which creates no topics by itself."""
    return shared_clusters(version=NEWEST, proxied=True, auto_create_topics_enable=False)


@pytest.fixture(scope="session")
def mortal_cluster() -> Iterator[KafkaCluster]:
    """One broker that tests kill and freeze, and bring back."""
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def oracle() -> Iterator[JavaOracle]:
    """Kafka's own classes, in one JVM for the whole run."""
    with JavaOracle() as running:
        yield running


@pytest.fixture(scope="session")
def cases(pytestconfig: pytest.Config) -> Counter[str]:
    """How many cases were compared, by what they were; the run prints it at its end."""
    return pytestconfig.stash.setdefault(_CASES, Counter())


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    """What was measured; the run prints it at its end."""
    return pytestconfig.stash.setdefault(_FIGURES, Figures())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, count in sorted(config.stash.get(_CASES, Counter()).items()):
        terminalreporter.write_line(f"{count:>9,} {name}")
    for line in config.stash.get(_FIGURES, Figures()).lines():
        terminalreporter.write_line(line)
