"""The identity provider or the KDC is down for a minute under load, or a password is changed: no send fails."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from aioprod import Producer
from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.security import KerberosService, TokenIssuer
from integration.security.kdc import REALM, missing_for_kerberos, running_kdc
from integration.security.secured import Secured
from integration.support.brokers import VERSIONS
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, Answer, identity_provider
from tests.support.length import PAUSE_S, by_length

AWAY_S: Final = 60
SESSION_MS: Final = 3000
PASSWORD_S: Final = by_length(4, 30)


class Load:
    """Sends to a topic, one record after the other; a send that fails ends it with its error."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self.sent = 0
        self.longest_s = 0.0

    async def run_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            began = time.perf_counter()
            stored = await self._producer.send(self._topic, b"%d" % self.sent)
            assert stored.offset == self.sent
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            self.sent += 1
            await asyncio.sleep(PAUSE_S)

    def failures(self, figures: Figures, what: str) -> float:
        """How many records have failed; the other figures are added to those of the run."""
        metrics = self._producer.metrics()
        figures.add(f"records while {what}", self.sent)
        figures.add(f"log-ins renewed while {what}", int(metrics["successful_reauthentication_total"]))
        figures.add(f"connections made while {what}", int(metrics["connection_creation_total"]))
        figures.add(f"ms for the slowest of them, {what}", f"{self.longest_s * 1000:.0f}")
        return metrics["record_error_total"]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_identity_provider_is_away_while_tokens_hold(version: str, tmp_path: Path, figures: Figures) -> None:
    """A token holds for 90 s and is to be replaced after 45; the provider is away from the 5th to the 65th."""
    with identity_provider(lifetime_s=90.0) as idp:
        keys = tmp_path / "jwks.json"
        keys.write_text(idp.jwks)
        issuer = TokenIssuer(keys, ISSUER, AUDIENCE)
        security = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"], issuer=issuer, session_ms=SESSION_MS)
        settings: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": idp.url,
            "sasl_oauthbearer_client_credentials_client_id": CLIENT,
            "sasl_oauthbearer_client_credentials_client_secret": SECRET,
            "sasl_login_refresh_window_factor": 0.5,
            "sasl_login_refresh_window_jitter": 0.0,
            "sasl_login_refresh_min_period_seconds": 0,
            "sasl_login_refresh_buffer_seconds": 0,
        }
        cluster = await KafkaCluster.start(1, version, "local", security=security)
        async with cluster, Producer(cluster.bootstrap_servers, linger_ms=0, **settings) as producer:
            await cluster.create_topic("orders")
            load = Load(producer, "orders")
            await load.run_for(5.0)
            asked = len(idp.requests)
            idp.answers += [Answer(503, b"away")] * 1000
            await load.run_for(AWAY_S)
            refused = len(idp.requests) - asked
            idp.answers.clear()
            await load.run_for(30.0)
            assert refused > 0, "it was asked in vain"
            assert len(idp.requests) > asked + refused, "and asked again"
            assert load.failures(figures, f"the identity provider was away for {AWAY_S} s, {version}") == 0


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.needs(missing=missing_for_kerberos)
@pytest.mark.parametrize("version", VERSIONS)
async def test_the_kdc_is_away_while_tickets_hold(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: Figures
) -> None:
    (tmp_path / "kdc").mkdir()
    with ExitStack() as stack:
        kdc = stack.enter_context(running_kdc(tmp_path / "kdc"))
        service = KerberosService(f"kafka/127.0.0.1@{REALM}", kdc.keytab("kafka/127.0.0.1"), kdc.configuration)
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration))
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
        monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(kdc.keytab("alice")))
        security = Security(protocol="SASL_PLAINTEXT", mechanisms=["GSSAPI"], session_ms=SESSION_MS, kerberos=service)
        with running_cluster(security=security, version=version, backend="local") as cluster:
            options = security.client_options("alice", "GSSAPI")
            async with Producer(cluster.bootstrap_servers, linger_ms=0, **options) as producer:
                await cluster.create_topic("orders")
                load = Load(producer, "orders")
                await load.run_for(5.0)
                stack.close()
                await load.run_for(AWAY_S)
                assert load.failures(figures, f"the KDC was away for {AWAY_S} s, {version}") == 0


@pytest.mark.timeout(120)
async def test_a_password_is_changed_while_sessions_hold(
    secured: Secured, make_topic: MakeTopic, tmp_path: Path, figures: Figures
) -> None:
    """At the brokers first, and then in the file that the client reads; what is refused meanwhile is tried again."""
    topic = await make_topic(secured.cluster)
    client = AdminClient(
        {
            "bootstrap.servers": secured.servers,
            **librdkafka_settings(secured.options("bob", "SCRAM-SHA-512")),
        }
    )

    def set_password(password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        change = UserScramCredentialUpsertion("carol", info, password.encode())
        for future in client.alter_user_scram_credentials([change]).values():
            future.result(30)

    await asyncio.to_thread(set_password, "first")
    path = tmp_path / "password"
    path.write_text("first")
    options = secured.options("alice", "SCRAM-SHA-512")
    options |= {"sasl_username": "carol", "sasl_password": f"file:{path}"}
    async with Producer(secured.servers, linger_ms=0, **options) as producer:
        load = Load(producer, topic)
        await load.run_for(PASSWORD_S)
        await asyncio.gather(load.run_for(1.0), asyncio.to_thread(set_password, "second"))
        path.write_text("second")
        await load.run_for(PASSWORD_S)
        assert load.failures(figures, "a password was changed") == 0
