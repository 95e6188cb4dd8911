"""Brokers that require TLS and a log-in: one of each kind per test run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from integration.security.secured import CERTIFIED, SECURED, Secured
from integration.support.brokers import VERSIONS


def running(security: Security, version: str) -> Iterator[Secured]:
    with running_cluster(security=security, version=version) as cluster:
        yield Secured(cluster, security)


@pytest.fixture(scope="session", params=VERSIONS)
def secured(request: pytest.FixtureRequest) -> Iterator[Secured]:
    """SASL_SSL, every mechanism, and sessions of three seconds."""
    yield from running(SECURED, request.param)


@pytest.fixture(scope="session", params=VERSIONS)
def certified(request: pytest.FixtureRequest) -> Iterator[Secured]:
    """SASL_SSL with SCRAM-SHA-512 only, and clients need a certificate as well."""
    yield from running(CERTIFIED, request.param)


@pytest.fixture
def plain(kafka_cluster: KafkaCluster) -> KafkaCluster:
    """A broker that speaks plaintext."""
    return kafka_cluster
