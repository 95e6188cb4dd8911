"""What the tests with Spark share: one session in this process's only JVM, and a broker of either kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.spark.sessions import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two slots, and two more attempts for a task that fails."""
    session = local_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """Kafka 4.3.0: transactions of version 2."""
    with running_cluster(version="4.3.0", backend="local") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def old_kafka() -> Iterator[KafkaCluster]:
    """Kafka 3.9.1: transactions of version 1."""
    with running_cluster(version="3.9.1", backend="local") as cluster:
        yield cluster
