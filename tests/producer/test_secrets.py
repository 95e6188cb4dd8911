"""Marked secrets are in nothing that a producer shows: errors, what caused them, logs, `repr`, `explain`, metrics."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import logging
import os
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from aioprod import OAuthToken, Producer, ProducerConfig
from aioprod.config._check import check_file
from aioprod.errors import AioprodError, AuthenticationError, ConfigError
from aioprod.net.tls.certificates import certificates_in
from aioprod.testing import FakeCluster, Security
from aioprod.testing.security import MECHANISMS, unsecured_token
from tests.support.identity_provider import CLIENT, Answer, IdentityProvider, identity_provider
from tests.support.java_stores import jks, pkcs12, pkcs12_trust

MARK = "marked-d5c1"
SECURITY = Security(protocol="SASL_SSL", users={"alice": MARK})
OTHER = Security(protocol="SASL_SSL", users={"alice": "another"}, authority=SECURITY.authority)
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{MARK}"'

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass
class Shown:
    """All that was shown so far."""

    caplog: pytest.LogCaptureFixture
    texts: list[str]

    def error(self, error: BaseException) -> None:
        self.texts += [str(error), repr(error), *traceback.format_exception(error)]

    def leaks(self, *secrets: str) -> list[str]:
        """What was shown with one of these secrets in it."""
        formatter = logging.Formatter("%(message)s")
        logged = [formatter.format(record) for record in self.caplog.records]
        assert logged, "debug mode logs each step of the loop"
        return [text for text in [*self.texts, *logged] if any(secret in text for secret in secrets)]


@pytest.fixture
async def shown(caplog: pytest.LogCaptureFixture) -> Shown:
    """In asyncio's debug mode, where each step is called slow and logged with all that it was called with."""
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    return Shown(caplog, [])


async def produce(shown: Shown, security: Security, options: dict[str, Any]) -> None:
    """Log in, again and anew, with records before and after, and show all that there is."""
    async with FakeCluster(security=security) as brokers:
        brokers.create_topic("orders")
        async with Producer(brokers.bootstrap, **options) as producer:
            await producer.send("orders", b"1")
            shown.texts += [repr(producer), repr(producer.config), producer.explain("orders", 0)]
            shown.texts.append(repr(producer.metrics()))
            await brokers[1].cut()
            await producer.send("orders", b"2")
            await producer.reload_credentials()
            await producer.send("orders", b"3")


async def refused(shown: Shown, security: Security, options: dict[str, Any]) -> None:
    """Start a producer that is refused, and keep its error."""
    async with FakeCluster(security=security) as brokers:
        with pytest.raises(AuthenticationError) as caught:
            async with Producer(brokers.bootstrap, **options):
                pass
        shown.error(caught.value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_of_a_log_in_that_is_accepted(shown: Shown, mechanism: str) -> None:
    options = SECURITY.client_options("alice", mechanism)
    token = ""
    if mechanism == "OAUTHBEARER":
        given: OAuthToken = options["sasl_token_provider"]()
        token = given.value
        options["sasl_token_provider"] = lambda: given
        shown.texts.append(repr(given))
    await produce(shown, SECURITY, options)
    assert shown.leaks(MARK, *([token] if token else [])) == []


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "OAUTHBEARER"])
async def test_of_a_rejected_password(shown: Shown, mechanism: str) -> None:
    await refused(shown, OTHER, SECURITY.client_options("alice", mechanism))
    assert shown.leaks(MARK) == []


@pytest.mark.parametrize("brokers", [SECURITY, OTHER], ids=["accepted", "refused"])
@pytest.mark.parametrize(
    "given", ["file:{0}", "env:AIOPROD_TEST_MARK", "${{file:{1}:mark}}", "${{env:AIOPROD_TEST_MARK}}"]
)
async def test_of_a_password_that_is_elsewhere(
    shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, brokers: Security
) -> None:
    monkeypatch.setenv("AIOPROD_TEST_MARK", MARK)
    (tmp_path / "secret").write_text(f"{MARK}\n")
    (tmp_path / "all.properties").write_text(f"mark={MARK}\n")
    password = given.format(tmp_path / "secret", tmp_path / "all.properties")
    options = SECURITY.client_options("alice", "PLAIN")
    for written in (
        options | {"sasl_password": password},
        {name: value for name, value in options.items() if name not in ("sasl_username", "sasl_password")}
        | {"sasl_jaas_config": JAAS.replace(MARK, password) + ";"},
    ):
        await (produce if brokers is SECURITY else refused)(shown, brokers, written)
    assert shown.leaks(MARK) == []


@pytest.fixture
def idp(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdentityProvider]:
    """ReceivedRequest directly, whatever proxy this machine has."""
    monkeypatch.setenv("NO_PROXY", "*")
    with identity_provider() as provider:
        yield provider


def ways_to_ask(provider: IdentityProvider, folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Each way to ask an identity provider: the settings, and a further secret in them beside MARK."""
    key = serialization.load_pem_private_key(provider.client_key.encode(), None)
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(MARK.encode()),
    ).decode()
    (folder / "key.pem").write_text(provider.client_key)
    (folder / "sealed.pem").write_text(sealed)
    assertion = provider.token(CLIENT, nbf=0)
    (folder / "assertion.jwt").write_text(assertion)
    prefix = "sasl_oauthbearer"
    client = {f"{prefix}_client_credentials_client_id": CLIENT}
    signing = {f"{prefix}_assertion_claim_{name}": CLIENT for name in ("iss", "sub", "aud")}
    return {
        "secret": (client | {f"{prefix}_client_credentials_client_secret": MARK}, MARK),
        "jaas": ({"sasl_jaas_config": f"{BEARER} required clientId={CLIENT} clientSecret={MARK};"}, MARK),
        "key": (
            signing | {f"{prefix}_assertion_private_key_file": str(folder / "key.pem")},
            provider.client_key.splitlines()[5],
        ),
        "sealed key": (
            signing
            | {f"{prefix}_assertion_private_key_file": str(folder / "sealed.pem")}
            | {f"{prefix}_assertion_private_key_passphrase": MARK},
            sealed.splitlines()[5],
        ),
        "assertion": ({f"{prefix}_assertion_file": str(folder / "assertion.jwt")}, assertion),
    }


@pytest.mark.parametrize("way", ["secret", "jaas", "key", "sealed key", "assertion"])
async def test_of_an_identity_provider(shown: Shown, idp: IdentityProvider, tmp_path: Path, way: str) -> None:
    given, secret = ways_to_ask(idp, tmp_path)[way]
    token = unsecured_token("alice").value
    options = SECURITY.client_options("alice", "OAUTHBEARER") | given
    options["sasl_oauthbearer_token_endpoint_url"] = f"{idp.url}?key={MARK}"
    del options["sasl_token_provider"]
    idp.answers += [Answer.of({"access_token": token})] * 2
    await produce(shown, SECURITY, options)
    assert len(idp.requests) == 2
    # It knows no such client, repeats what it was told, or gives a token that brokers refuse.
    basic = idp.requests[0].headers.get("authorization", "").removeprefix("Basic ")
    echo = " ".join([basic, base64.b64decode(basic).decode(), *idp.requests[0].form.values()])
    for answer in (
        Answer.of({"error": "invalid_client", "error_description": echo}, 401),
        Answer.of({"error": "invalid_client", "error_description": "unknown"}, 401),
        Answer.of({"access_token": f"e30.{MARK}.x", "expires_in": 60}),
        Answer(200, MARK.encode()),
    ):
        idp.answers.append(answer)
        await refused(shown, SECURITY, options)
        assert not idp.answers
    sent = {asked.form.get("client_assertion", MARK) for asked in idp.requests}
    assert shown.leaks(MARK, secret, token, *sent, *([basic] if basic else [])) == []


async def test_of_aws(shown: Shown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = f"session-{MARK}"
    for name in tuple(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in {
        "REGION": "eu-west-1",
        "EC2_METADATA_DISABLED": "true",
        "CONFIG_FILE": str(tmp_path / "none"),
        "SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "ACCESS_KEY_ID": "alice",
        "SECRET_ACCESS_KEY": f"secret-{MARK}",
        "SESSION_TOKEN": session,
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for secret, attempt in ((f"secret-{MARK}", produce), ("another", refused)):
        security = dataclasses.replace(SECURITY, mechanisms=["AWS_MSK_IAM"], users={"alice": secret})
        await attempt(shown, security, security.client_options("alice"))
    assert shown.leaks(MARK) == []


async def test_of_passwords_of_stores(shown: Shown, tmp_path: Path) -> None:
    security = Security(protocol="SSL", client_certificates=True, authority=SECURITY.authority)
    own, key = security.authority.issue("alice"), tmp_path / "own.p12"
    trust, jks_trust = tmp_path / "trust.p12", tmp_path / "trust.jks"
    cas = certificates_in(security.authority.certificate)
    key.write_bytes(pkcs12(own, MARK))
    trust.write_bytes(pkcs12_trust(cas, MARK))
    jks_trust.write_bytes(jks(cas, MARK))
    for store in (trust, jks_trust):
        options: dict[str, Any] = {
            "security_protocol": "SSL",
            "ssl_truststore_location": str(store),
            "ssl_truststore_password": MARK,
            "ssl_keystore_location": str(key),
            "ssl_keystore_password": MARK,
        }
        await produce(shown, security, options)
        for name in ("ssl_truststore_password", "ssl_keystore_password"):
            with pytest.raises(ConfigError, match="the password is wrong") as caught:
                await Producer("localhost:1", **options | {name: f"{MARK}-wrong"}).start()
            shown.error(caught.value)
    assert shown.leaks(MARK) == []


@pytest.mark.parametrize("value", [f"e30.{MARK}.x", MARK])
async def test_of_a_rejected_token(shown: Shown, value: str) -> None:
    token = OAuthToken(value, unsecured_token("alice").expires_at)
    options = SECURITY.client_options("alice", "OAUTHBEARER") | {"sasl_token_provider": lambda: token}
    await refused(shown, SECURITY, options)
    assert "rejected the log-in of the token" in shown.texts[0]
    assert shown.leaks(MARK) == []


def broken_settings(folder: Path) -> Iterator[dict[str, Any]]:
    """Settings that a producer refuses, most of them where the secret is."""
    own = SECURITY.authority.issue("alice")
    plain = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    yield plain | {"sasl_jaas_config": JAAS}
    yield plain | {"sasl_jaas_config": JAAS.replace("PlainLoginModule", "OtherModule") + ";"}
    yield plain | {"sasl_jaas_config": JAAS + ";", "sasl_mechanism": "SCRAM-SHA-256"}
    yield plain | {"sasl_jaas_config": JAAS + ";", "sasl_password": MARK}
    yield plain | {"sasl_password": MARK}
    yield plain | {"sasl_username": "alice", "sasl_password": f"{MARK}\0"}
    yield plain | {"sasl_username": "alice", "sasl_password": [MARK]}
    yield {"sasl_username": "alice", "sasl_password": MARK}
    (folder / "secret").write_bytes(MARK.encode() + b"\xe9")
    yield plain | {"sasl_username": "alice", "sasl_password": f"file:{folder / 'secret'}"}
    yield plain | {"sasl_username": "alice", "sasl_password": f"{MARK}\udce9"}
    yield plain | {"sasl_jaas_config": f"file:{folder / 'secret'}"}
    yield plain | {"sasl_jaas_config": f"{JAAS} other={MARK};"}
    bearer = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    url = "sasl_oauthbearer_token_endpoint_url"
    yield bearer | {url: f"https://idp/?{MARK}"}
    yield bearer | {url: [f"https://idp/?{MARK}"]}
    yield bearer | {url: f"ftp://idp/?{MARK}"}
    yield bearer | {url: f"file:x?{MARK}"}
    yield bearer | {url: f"https://alice:{MARK}@idp/"}
    tls: dict[str, Any] = {"security_protocol": "SSL", "ssl_keystore_certificate_chain": own.chain}
    yield tls | {"ssl_keystore_key": MARK}
    yield tls | {"ssl_keystore_key": f"{MARK}\udce9"}
    odd = own.chain.replace("\n", "\n\udce9", 1)
    yield tls | {"ssl_keystore_key": f"{own.key}{MARK}", "ssl_keystore_certificate_chain": odd}
    marked = own.key.replace("\n", f"\n{MARK}", 1)
    yield tls | {"ssl_keystore_key": marked, "ssl_keystore_certificate_chain": odd + own.chain}
    yield tls | {"ssl_keystore_key": own.key.replace("\n", f"\n{MARK}\n", 1)}
    yield tls | {"ssl_keystore_key": own.encrypted_key("another"), "ssl_key_password": MARK}
    (folder / "own.pem").write_text(f"{own.encrypted_key('another')}{MARK}{own.chain}")
    yield {"security_protocol": "SSL", "ssl_keystore_location": str(folder / "own.pem"), "ssl_key_password": MARK}


async def test_of_invalid_settings(shown: Shown, tmp_path: Path) -> None:
    async with FakeCluster(security=SECURITY) as brokers:
        count = 0
        for options in broken_settings(tmp_path):
            with pytest.raises(ConfigError) as caught:
                async with Producer(brokers.bootstrap, **options):
                    pass
            shown.error(caught.value)
            count += 1
        assert count == 24
    assert shown.leaks(MARK) == []


async def test_of_what_a_provider_raises_all_but_the_secret_is_shown(shown: Shown) -> None:
    def provider() -> OAuthToken:
        raise RuntimeError(f"client_secret={MARK} was refused")

    options = SECURITY.client_options("alice", "OAUTHBEARER") | {"sasl_token_provider": provider}
    async with FakeCluster(security=SECURITY) as brokers:
        with pytest.raises(AioprodError) as caught:
            async with Producer(brokers.bootstrap, **options):
                pass
        shown.texts += [str(caught.value), repr(caught.value)]
    assert "client_secret=... was refused" in str(caught.value)
    assert shown.leaks(MARK) == []


def test_of_settings_themselves(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        f"bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS};\n"
    )
    given = {
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": MARK,
        "security_protocol": "SASL_SSL",
    }
    for config in (
        ProducerConfig.from_properties(path),
        ProducerConfig.from_options(bootstrap_servers=("a:1",), **given),
    ):
        assert MARK not in f"{config!r} {config} {config.replace(linger_ms=3)!r}"
        assert "[hidden]" in repr(config)
    path.write_text(
        "bootstrap.servers=a:1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.oauthbearer.token.endpoint.url=https://idp/t?{MARK}\n"
        f"sasl.jaas.config={BEARER} required clientId=a clientSecret={MARK};\n"
    )
    described = check_file(path, ProducerConfig)
    assert "sasl.oauthbearer.token.endpoint.url = 'https://idp/t?[hidden]'" in described
    assert MARK not in described
