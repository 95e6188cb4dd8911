"""The pytest plugin: Kafka for any test. The fixtures are synchronous, so they work in any asyncio mode.

Where this machine cannot run Kafka, tests with a real cluster are skipped with the reason; if AIOPROD_KAFKA names a
backend, that is an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from aioprod.testing.fixtures import FakeClusterThread
    from aioprod.testing.kafka.cluster import KafkaCluster
    from aioprod.testing.proxy import TcpProxy
    from aioprod.testing.schema_registry import FakeSchemaRegistry


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
    """A cluster of one real broker that requires TLS and a log-in, by any mechanism of `Security`.

    `kafka_cluster_sasl_ssl.security.client_options("alice", "SCRAM-SHA-512")` are the settings of a client.
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
def fake_schema_registry() -> Iterator[FakeSchemaRegistry]:
    """A schema registry inside this process, without schemas, for sync and async tests."""
    from aioprod.testing.schema_registry import FakeSchemaRegistry

    with FakeSchemaRegistry() as registry:
        yield registry


@pytest.fixture
def kafka_topic(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic with one partition in `kafka_cluster`."""
    from aioprod.testing.fixtures import fresh_topic

    with fresh_topic(kafka_cluster, request.node.name) as name:
        yield name


@pytest.fixture
def tcp_proxy() -> Iterator[Callable[[str], TcpProxy]]:
    """A function that starts a `TcpProxy` to `"host:port"`, for sync and async tests."""
    from aioprod.testing.fixtures import proxies

    with proxies() as start:
        yield start
