"""GSSAPI with a real KDC, a real broker and the system's Kerberos library."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from aioprod import Producer
from aioprod.errors import AuthenticationError
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.security import KerberosService
from integration.security.kdc import REALM, Kdc, missing_for_kerberos, running_kdc
from integration.support.brokers import VERSIONS
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from tests.support.aiokafka_pairs import CLIENTS
from tests.support.length import PAUSE_S

pytestmark = [pytest.mark.timeout(120), pytest.mark.needs(missing=missing_for_kerberos)]

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


class Kerberized(NamedTuple):
    """A cluster that takes tickets, and the KDC that gives them."""

    cluster: KafkaCluster
    security: Security
    kdc: Kdc

    def options(self, **options: Any) -> dict[str, Any]:
        return self.security.client_options("alice", "GSSAPI") | options


@pytest.fixture(scope="module", params=VERSIONS)
def kerberized(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberized]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        service = KerberosService(f"kafka/127.0.0.1@{REALM}", kdc.keytab("kafka/127.0.0.1"), kdc.configuration)
        security = Security(protocol="SASL_PLAINTEXT", mechanisms=["GSSAPI"], session_ms=2000, kerberos=service)
        # The files are on this machine, so the brokers have to be, too.
        with running_cluster(security=security, version=request.param, backend="local") as cluster:
            yield Kerberized(cluster, security, kdc)


@pytest.fixture
def environment(kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This process: the KDC is known, tickets are kept in a file of the test."""
    monkeypatch.setenv("KRB5_CONFIG", str(kerberized.kdc.configuration))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    monkeypatch.delenv("KRB5_CLIENT_KTNAME", raising=False)


async def offsets(kerberized: Kerberized, make_topic: MakeTopic, options: dict[str, Any]) -> list[int]:
    """Those of ten records that are sent one after the other."""
    topic = await make_topic(kerberized.cluster)
    async with Producer(kerberized.cluster.bootstrap_servers, **options) as producer:
        return [(await producer.send(topic, b"%d" % number)).offset for number in range(10)]


@pytest.mark.usefixtures("environment")
async def test_by_the_keytab_of_the_environment(
    kerberized: Kerberized, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberized.kdc.keytab("alice")))
    assert await offsets(kerberized, make_topic, kerberized.options()) == list(range(10))


@pytest.mark.usefixtures("environment")
async def test_by_the_keytab_of_java_s_file(kerberized: Kerberized, make_topic: MakeTopic) -> None:
    keytab = kerberized.kdc.keytab("bob")
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="bob@{REALM}";'
    assert await offsets(kerberized, make_topic, kerberized.options(sasl_jaas_config=jaas)) == list(range(10))


@pytest.mark.usefixtures("environment")
async def test_sessions_are_renewed(
    kerberized: Kerberized, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, figures: Figures
) -> None:
    """Sessions end after two seconds; nobody who sends notices."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberized.kdc.keytab("carol")))
    topic = await make_topic(kerberized.cluster)
    async with Producer(kerberized.cluster.bootstrap_servers, **kerberized.options()) as producer:
        ends = time.monotonic() + 5.0
        sent = 0
        while time.monotonic() < ends:
            assert (await producer.send(topic, b"%d" % sent)).offset == sent
            sent += 1
            await asyncio.sleep(PAUSE_S)
        # On a busy machine a session may end before its renewal has its turn: that costs a connection, and no record.
        figures.add("connections by GSSAPI, sessions of 2 s", int(producer.metrics()["connection_creation_total"]))


@pytest.mark.usefixtures("environment")
async def test_without_a_ticket(kerberized: Kerberized) -> None:
    with pytest.raises(AuthenticationError, match=r"^Kerberos failed: .*(No Kerberos credentials|No credentials)"):
        await Producer(kerberized.cluster.bootstrap_servers, **kerberized.options()).start()


@pytest.mark.usefixtures("environment")
async def test_another_service(kerberized: Kerberized, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberized.kdc.keytab("dave")))
    options = kerberized.options(sasl_kerberos_service_name="wrong")
    with pytest.raises(AuthenticationError, match=r"^Kerberos failed: .*wrong/127\.0\.0\.1@.* not found"):
        await Producer(kerberized.cluster.bootstrap_servers, **options).start()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("client", CLIENTS)
async def test_aiokafka_and_aioprod_in_its_place(
    kerberized: Kerberized, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kerberized.kdc.keytab("erin")))
    topic = await make_topic(kerberized.cluster)
    producer = CLIENTS[client](
        bootstrap_servers=kerberized.cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="GSSAPI",
    )
    async with producer:
        assert (await producer.send_and_wait(topic, b"two espressi")).offset == 0
