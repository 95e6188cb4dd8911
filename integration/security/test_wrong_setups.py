"""The start of a producer with a wrong configuration fails at once, with one sentence that names the cause."""

from __future__ import annotations

import time
from typing import Any

import pytest

from aioprod import OAuthToken, Producer
from aioprod.errors import AioprodError, AuthenticationError, BrokerConnectionError, ProtocolError, TlsError
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.security import unsecured_token
from integration.security.secured import CERTIFIED, Secured
from integration.support.figures import Figures

pytestmark = pytest.mark.timeout(120)


async def refused(servers: str, options: dict[str, Any], kind: type[AioprodError], figures: Figures) -> AioprodError:
    """The error of `start()`; nothing that is secret may be in it, nor in its repr."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        await Producer(servers, max_block_ms=60_000, **options).start()
    # Far from the 60 s of max.block.ms; how many seconds it takes is a figure, not a test.
    assert time.monotonic() - began < 30
    figures.add(f"s until it is said: {str(caught.value)[:90]}", f"{time.monotonic() - began:.2f}")
    for secret in ("-secret", "PRIVATE KEY", "wrong-one"):
        assert secret not in f"{caught.value} {caught.value!r}"
    return caught.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password(secured: Secured, figures: Figures, mechanism: str) -> None:
    options = secured.options("alice", mechanism) | {"sasl_password": "wrong-one"}
    error = await refused(secured.servers, options, AuthenticationError, figures)
    assert error.message.startswith(f"{secured.servers} rejected the log-in of user 'alice' by {mechanism}: Authentic")
    assert error.hint is not None
    assert "sasl.password" in error.hint


async def test_a_token_that_has_expired_though_its_provider_says_otherwise(secured: Secured, figures: Figures) -> None:
    def provider() -> OAuthToken:
        return OAuthToken(unsecured_token("alice", -100.0).value, time.time() + 100.0)

    options = secured.options("alice", "OAUTHBEARER") | {"sasl_token_provider": provider}
    error = await refused(secured.servers, options, AuthenticationError, figures)
    assert "rejected the log-in of the token by OAUTHBEARER" in error.message
    assert error.hint is not None
    assert "sub=alice, it expired 100 s before now" in error.hint


async def test_a_token_that_is_none(secured: Secured, figures: Figures) -> None:
    options = secured.options() | {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_username": None,
        "sasl_password": None,
        "sasl_token_provider": lambda: OAuthToken("no-jwt", time.time() + 100.0),
    }
    error = await refused(secured.servers, options, AuthenticationError, figures)
    assert error.hint is not None
    assert "It is not a JWT" in error.hint


async def test_a_mechanism_that_is_not_enabled(certified: Secured, figures: Figures) -> None:
    options = certified.options("alice") | {"sasl_mechanism": "PLAIN"}
    error = await refused(certified.servers, options, AuthenticationError, figures)
    assert error.message == f"{certified.servers} does not take sasl.mechanism=PLAIN; it takes SCRAM-SHA-512."


@pytest.mark.parametrize("cas", ["another one's", "the system's"])
async def test_a_ca_that_is_not_trusted(secured: Secured, figures: Figures, cas: str) -> None:
    options = secured.options()
    del options["ssl_truststore_certificates"]
    if cas == "another one's":
        options["ssl_truststore_certificates"] = Security().authority.certificate
    error = await refused(secured.servers, options, TlsError, figures)
    assert f"The certificate of {secured.servers} is from no CA that is trusted here" in error.message
    assert error.hint is not None
    assert "ssl.truststore.location" in error.hint


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_no_certificate_of_our_own(certified: Secured, figures: Figures, version: str) -> None:
    options = {name: value for name, value in certified.options().items() if "keystore" not in name}
    error = await refused(certified.servers, options | {"ssl_protocol": version}, TlsError, figures)
    assert "it requires a client certificate, and this client has none" in error.message
    assert error.hint is not None
    assert "ssl.keystore.location" in error.hint


@pytest.mark.parametrize(
    ("authority", "ends_days", "message"),
    [(Security().authority, 365.0, "valid until"), (CERTIFIED.authority, -0.5, "it expired on")],
)
async def test_a_certificate_that_the_broker_does_not_accept(
    certified: Secured, figures: Figures, authority: Any, ends_days: float, message: str
) -> None:
    own = authority.issue("mallory", ends_days=ends_days)
    options = certified.options() | {"ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.chain}
    error = await refused(certified.servers, options, TlsError, figures)
    assert f"{certified.servers} does not accept our certificate" in error.message
    assert message in error.message


async def test_another_host_name(secured: Secured, figures: Figures) -> None:
    servers = secured.servers.replace("127.0.0.1", "127.1")
    error = await refused(servers, secured.options(), TlsError, figures)
    assert "is for another host" in error.message
    async with Producer(servers, **secured.options(), ssl_endpoint_identification_algorithm="none"):
        pass


async def test_protocols_that_do_not_fit(secured: Secured, plain: KafkaCluster, figures: Figures) -> None:
    tls_only = {"security_protocol": "SSL", "ssl_truststore_certificates": secured.security.authority.certificate}
    log_in = secured.options()
    in_the_clear = {name: value for name, value in log_in.items() if not name.startswith("ssl")}
    in_the_clear["security_protocol"] = "SASL_PLAINTEXT"

    error = await refused(secured.servers, {}, ProtocolError, figures)
    assert "speaks TLS and was spoken to in plaintext" in error.message
    error = await refused(secured.servers, in_the_clear, ProtocolError, figures)
    assert "speaks TLS and was spoken to in plaintext" in error.message
    error = await refused(secured.servers, tls_only, BrokerConnectionError, figures)
    assert "in place of an answer to the first request, as a listener with SASL does" in error.message
    assert error.hint is not None
    assert "SASL_SSL" in error.hint
    error = await refused(plain.bootstrap_servers, tls_only, TlsError, figures)
    assert "during the TLS handshake, as a listener without TLS does" in error.message
    error = await refused(plain.bootstrap_servers, in_the_clear, AuthenticationError, figures)
    assert error.message == f"{plain.bootstrap_servers} takes no log-in at this port."
