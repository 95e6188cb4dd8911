"""`aioprod doctor` names the causes of broken set-ups of real brokers; those without a broker are in tests/cli."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aioprod.testing import Acl, KafkaCluster, Security
from aioprod.testing.certificates import LOCAL_HOSTS
from aioprod.testing.fixtures import running_cluster
from integration.security.secured import Secured
from tests.support.dead_addresses import dead_address
from tests.support.doctor import Visit

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def visit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Visit:
    return Visit(capsys, tmp_path)


def test_tls_on_a_plain_listener(plain: KafkaCluster, visit: Visit) -> None:
    visit(plain.bootstrap_servers, status=1, security_protocol="SSL")
    assert visit.failed == ["protocol"]
    assert visit.of("protocol")[1] == "It has no TLS, and security.protocol=SSL wants it."


def test_plain_on_a_tls_listener(secured: Secured, visit: Visit) -> None:
    visit(secured.servers, status=1)
    assert visit.failed == ["protocol"]
    assert visit.of("protocol")[1] == "It speaks TLS, and security.protocol=PLAINTEXT does not."


def test_a_listener_that_wants_certificates(certified: Secured, visit: Visit) -> None:
    options = {name: value for name, value in certified.options().items() if "keystore" not in name}
    visit(certified.servers, status=1, **options)
    assert visit.failed == ["tls"]
    assert "it requires a client certificate, and this client has none" in visit.of("tls")[1]
    visit(certified.servers, **certified.options())


def test_a_certificate_that_has_expired(visit: Visit) -> None:
    own = Security(protocol="SSL")
    expired = own.authority.issue("broker", LOCAL_HOSTS, begins_days=-9, ends_days=-2)
    security = Security(protocol="SSL", authority=own.authority, identity=expired)
    with running_cluster(security=security) as cluster:
        visit(cluster.bootstrap_servers, status=1, **security.client_options())
    assert visit.failed == ["tls"]
    assert "expired" in visit.of("tls")[1]


def test_a_certificate_for_another_host(secured: Secured, visit: Visit) -> None:
    visit(secured.servers.replace("127.0.0.1", "127.1"), status=1, **secured.options())
    assert visit.failed == ["tls"]
    assert "is for another host" in visit.of("tls")[1]


def test_a_wrong_password(secured: Secured, visit: Visit) -> None:
    options = secured.options("alice", "SCRAM-SHA-512") | {"sasl_password": "another-secret"}
    visit(secured.servers, status=1, **options)
    assert visit.failed == ["log-in"]
    assert "rejected the log-in of user 'alice' by SCRAM-SHA-512" in visit.of("log-in")[1]


def test_a_mechanism_that_is_not_offered(certified: Secured, visit: Visit) -> None:
    visit(certified.servers, status=1, **certified.options("alice") | {"sasl_mechanism": "PLAIN"})
    assert visit.failed == ["log-in"]
    assert "does not take sasl.mechanism=PLAIN; it takes SCRAM-SHA-512" in visit.of("log-in")[1]


def test_an_advertised_listener_that_can_not_be_reached(visit: Visit) -> None:
    host, port = dead_address()
    # The broker does not connect to itself.
    properties: dict[str, Any] = {"advertised.listeners": f"CLIENT://{host}:{port},INTERNAL://{host}:{port - 1}"}
    with running_cluster(**properties) as cluster:
        visit(cluster.bootstrap_servers, status=1)
    assert visit.failed == ["advertised"]
    _, found, advice = visit.of("advertised")
    assert f"{host}:{port}" in found
    assert "advertised.listeners" in advice


def test_no_right_to_write(visit: Visit) -> None:
    security = Security(
        protocol="SASL_PLAINTEXT", acls=[Acl("User:alice", "DESCRIBE", "topic", "t")], super_users=["User:bob"]
    )
    with running_cluster(security=security) as cluster:
        asyncio.run(cluster.create_topic("t"))
        options = security.client_options("alice", "SCRAM-SHA-512")
        visit(cluster.bootstrap_servers, "--topic", "t", "--transactional-id", "x", status=1, **options)
    assert visit.failed == ["write", "transactions"]
    assert "WRITE on topic 't'" in visit.of("write")[2]
    assert (visit.of("describe")[0], visit.of("idempotent")[0]) == ("ok", "skipped")
