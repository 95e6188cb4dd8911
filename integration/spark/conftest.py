"""Shared by the tests with Spark: one session in this process's only JVM, and a broker of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aioprod.testing import KafkaCluster
from integration.spark.sessions import local_session
from integration.support.brokers import NEWEST, STRICT, TRANSACTION_VERSION_1, SharedClusters


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the event log of the session."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(spark_events: Path) -> Iterator[SparkSession]:
    """Two slots, and two more attempts for a task that fails."""
    session = local_session(
        spark__eventLog__enabled="true", spark__eventLog__compress="false", spark__eventLog__dir=spark_events.as_uri()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka(shared_clusters: SharedClusters) -> KafkaCluster:
    """The newest Kafka: transactions of version 2."""
    return shared_clusters(version=NEWEST, backend="local", **STRICT)


@pytest.fixture(scope="session")
def old_kafka(shared_clusters: SharedClusters) -> KafkaCluster:
    """Transactions of version 1."""
    return shared_clusters(version=TRANSACTION_VERSION_1, backend="local", **STRICT)
