"""The pytest plugin: Kafka for any test, in any asyncio mode, as its fixtures are plain ones.

Where this machine has no Kafka to offer the tests that want a real one are skipped with the reason; but not where
AIOPROD_KAFKA names a backend: then that is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aioprod.testing.fixtures import FakeClusterThread
    from aioprod.testing.kafka.cluster import KafkaCluster
    from aioprod.testing.proxy import TcpProxy


@pytest.fixture(scope="session")
def kafka_cluster() -> Iterator[KafkaCluster]:
    """A cluster of one real broker."""
    from aioprod.testing.fixtures import running_cluster

    with running_cluster(1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster_3() -> Iterator[KafkaCluster]:
    """A cluster of three real brokers."""
    from aioprod.testing.fixtures import running_cluster

    with running_cluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kafka_cluster_sasl_ssl() -> Iterator[KafkaCluster]:
    """A cluster of one real broker that wants TLS and a log-in, by each mechanism of `Security`.

    `kafka_cluster_sasl_ssl.security.client_options("alice", "SCRAM-SHA-512")` are the settings to come in with.
    """
    from aioprod.testing.fixtures import running_cluster
    from aioprod.testing.security import Security

    with running_cluster(1, security=Security()) as cluster:
        yield cluster


@pytest.fixture
def fake_cluster() -> Iterator[FakeClusterThread]:
    """Three brokers inside this process, without topics; they speak Kafka's protocol and fail on demand."""
    from aioprod.testing.fixtures import running_fake_cluster

    with running_fake_cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka_topic(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a fresh topic of one partition in `kafka_cluster`."""
    from aioprod.testing.fixtures import fresh_topic

    with fresh_topic(kafka_cluster, request.node.name) as name:
        yield name


@pytest.fixture
def tcp_proxy() -> Iterator[Callable[[str], TcpProxy]]:
    """Call it with `"host:port"` for a running `TcpProxy` to there, from sync and async tests alike."""
    from aioprod.testing.fixtures import proxies

    with proxies() as start:
        yield start
