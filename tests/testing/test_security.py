"""`Security` of test clusters: broker settings, and clients with its options at fake clusters."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import AuthenticationError, ConfigError, TlsError
from aioprod.messages import SaslHandshakeRequest
from aioprod.testing import FakeCluster, KafkaCluster, KafkaUnavailableError, Security
from aioprod.testing.security import MECHANISMS


def test_settings_of_a_broker() -> None:
    settings = Security(client_certificates=True, session_ms=5000).broker_properties()
    assert settings["listener.security.protocol.map"] == "CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert settings["listener.name.client.ssl.client.auth"] == "required"
    assert settings["listener.name.client.sasl.enabled.mechanisms"] == ",".join(MECHANISMS)
    assert settings["connections.max.reauth.ms"] == "5000"
    assert 'user_alice="alice-secret"' in settings["listener.name.client.plain.sasl.jaas.config"]
    assert not any(
        name.startswith("listener.name.client.sasl") for name in Security(protocol="SSL").broker_properties()
    )
    assert not any(".ssl." in name for name in Security(protocol="SASL_PLAINTEXT").broker_properties())


def test_users_are_created_when_a_broker_is_formatted() -> None:
    wanted = Security(mechanisms=["PLAIN", "SCRAM-SHA-512"], users={"a": "b"})
    assert wanted.format_options() == ["--add-scram", "SCRAM-SHA-512=[name=a,password=b]"]
    assert Security(protocol="SSL").format_options() == []


def test_unknown_users_and_mechanisms_raise() -> None:
    with pytest.raises(ConfigError, match="no user 'carol', but alice, bob"):
        Security().client_options("carol")
    with pytest.raises(ConfigError, match="does not support GSSAPI"):
        Security().client_options(mechanism="GSSAPI")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_clients_authenticate_with_its_options(protocol: Any, mechanism: str) -> None:
    wanted = Security(protocol=protocol, client_certificates=protocol == "SSL")
    async with FakeCluster(security=wanted) as brokers:
        brokers.create_topic("orders")
        async with Producer(brokers.bootstrap, **wanted.client_options("bob", mechanism)) as producer:
            await producer.send("orders", b"hello")
        assert [record.value for record in brokers.records("orders")] == [b"hello"]
        chosen = {request.mechanism for request in brokers.seen_of(SaslHandshakeRequest)}
        assert chosen == ({mechanism} if wanted.has_login else set())


async def test_sessions_of_a_fake_broker_end_and_are_renewed() -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", session_ms=100, mechanisms=["SCRAM-SHA-256"])
    async with FakeCluster(security=wanted) as brokers:
        brokers.create_topic("orders")
        async with Producer(brokers.bootstrap, **wanted.client_options()) as producer:
            sent = 0
            while len(brokers.seen_of(SaslHandshakeRequest)) < 4:
                await producer.send("orders", b"%d" % sent)
                sent += 1
        assert [record.value for record in brokers.records("orders")] == [b"%d" % number for number in range(sent)]


async def test_unknown_clients_are_rejected() -> None:
    wanted = Security()
    async with FakeCluster(security=wanted) as brokers:
        for changes, error in (
            ({"sasl_password": "wrong"}, AuthenticationError),
            ({"sasl_username": "carol"}, AuthenticationError),
            ({"ssl_truststore_certificates": Security().authority.certificate}, TlsError),
        ):
            producer = Producer(brokers.bootstrap, **wanted.client_options() | changes)
            with pytest.raises(error) as caught:
                await producer.start()
            assert "secret" not in str(caught.value)


async def test_an_external_cluster_has_no_security() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIOPROD_KAFKA", "127.0.0.1:1")
        with pytest.raises(KafkaUnavailableError, match="was not started with `security`"):
            await KafkaCluster.start(security=Security())
