"""Tokens from an endpoint or a file: each way to ask, and what is said when there is none."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from aioprod import Producer, ProducerConfig
from aioprod.config import ClientConfig
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.messages import SaslAuthenticateRequest
from aioprod.net.login.http_post import _explained
from aioprod.net.login.logins import TokenLogins
from aioprod.net.login.token_endpoint import EndpointTokens
from aioprod.net.protocol.sasl.token_endpoint import request_by_secret
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.oauth_token import OAuthToken
from aioprod.testing import FakeCluster, Security
from aioprod.testing.certificates import LOCAL_HOSTS, Authority
from tests.support.clients import Clock
from tests.support.identity_provider import CLIENT, SECRET, Answer, IdentityProvider, identity_provider
from tests.support.producers import until

JAVA = "org.apache.kafka.common.security.oauthbearer"
URL = "sasl.oauthbearer.token.endpoint.url"
LOGIN = {
    "bootstrap.servers": "localhost:9093",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
}
# In all long enough for a process that is stopped in between.
AGAIN = {"sasl.login.retry.backoff.ms": 1, "sasl.login.retry.backoff.max.ms": 30_000}
BY_SECRET = {
    "sasl.oauthbearer.client.credentials.client.id": CLIENT,
    "sasl.oauthbearer.client.credentials.client.secret": SECRET,
}

REQUEST = request_by_secret(CLIENT, SECRET, "", encode=False)


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with identity_provider() as running:
        yield running


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def source(url: str, **options: Any) -> EndpointTokens:
    settings = LOGIN | AGAIN | {URL: url} | {name.replace("_", "."): value for name, value in options.items()}
    return EndpointTokens(ClientConfig.from_dict(settings), random=Random(1), wall=Clock())


async def fetched(url: str, settings: dict[str, Any]) -> OAuthToken:
    return await source(url, **settings).fetch()


async def refused(url: str, settings: dict[str, Any]) -> AuthenticationError:
    with pytest.raises(AuthenticationError) as caught:
        await fetched(url, settings)
    for secret in (SECRET, "abc.def.ghi"):
        assert secret not in f"{caught.value} {caught.value!r}"
    return caught.value


# -- ways to ask -----------------------------------------------------------------------------------------------------


async def test_by_id_and_secret(idp: IdentityProvider) -> None:
    token = await fetched(idp.url, BY_SECRET | {"sasl.oauthbearer.scope": "produce all"})
    assert token.principal == CLIENT
    (asked,) = idp.requests
    assert asked.method == "POST"
    assert asked.form == {"grant_type": "client_credentials", "scope": "produce all"}
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["cache-control"] == "no-cache"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"


async def test_by_id_and_secret_encoded(idp: IdentityProvider) -> None:
    await fetched(idp.url, BY_SECRET)
    await fetched(idp.url, BY_SECRET | {"sasl.oauthbearer.header.urlencode": "true"})
    plain, encoded = (asked.headers["authorization"] for asked in idp.requests)
    assert plain != encoded


async def test_in_the_words_of_jaas(idp: IdentityProvider) -> None:
    jaas = (
        f"{JAVA}.OAuthBearerLoginModule required clientId='{CLIENT}' clientSecret='{SECRET}' scope='produce' "
        "extension_logicalCluster='lkc-1' extension_identityPoolId='pool-1';"
    )
    token = await fetched(
        idp.url,
        {
            "sasl.jaas.config": jaas,
            "sasl.login.callback.handler.class": f"{JAVA}.secured.OAuthBearerLoginCallbackHandler",
        },
    )
    assert token.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}
    assert idp.requests[0].form["scope"] == "produce"


async def test_the_secret_in_a_file_may_change(idp: IdentityProvider, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old")
    tokens = source(idp.url, **BY_SECRET | {"sasl.oauthbearer.client.credentials.client.secret": f"file:{secret}"})
    with pytest.raises(AuthenticationError, match="answered 401"):
        await tokens.fetch()
    secret.write_text(f"{SECRET}\n")
    assert (await tokens.fetch()).principal == CLIENT


@pytest.mark.parametrize("retriever", [None, "ClientCredentialsJwtRetriever", "JwtBearerJwtRetriever"])
async def test_by_an_assertion_that_is_made(idp: IdentityProvider, tmp_path: Path, retriever: str | None) -> None:
    (tmp_path / "key.pem").write_text(idp.client_key)
    (tmp_path / "template.json").write_text(json.dumps({"header": {"kid": "k1"}, "payload": {"tenant": "t1"}}))
    settings: dict[str, Any] = {
        "sasl.oauthbearer.assertion.private.key.file": (tmp_path / "key.pem").as_uri(),
        "sasl.oauthbearer.assertion.template.file": str(tmp_path / "template.json"),
        "sasl.oauthbearer.assertion.claim.iss": CLIENT,
        "sasl.oauthbearer.assertion.claim.sub": "orders",
        "sasl.oauthbearer.assertion.claim.aud": idp.url,
        "sasl.oauthbearer.scope": "produce",
    }
    if retriever is not None:
        settings["sasl.oauthbearer.jwt.retriever.class"] = f"{JAVA}.{retriever}"
    # The provider compares the validity of the assertion with the time of the epoch.
    tokens = EndpointTokens(ClientConfig.from_dict(LOGIN | {URL: idp.url} | settings), random=Random(1), wall=time.time)
    assert (await tokens.fetch()).principal == "orders", "the signature was checked"
    form = idp.requests[0].form
    assert form["scope"] == "produce"
    if retriever == "JwtBearerJwtRetriever":
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        assert "assertion" in form
    else:
        assert form["grant_type"] == "client_credentials"
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        assert "authorization" not in idp.requests[0].headers


async def test_by_an_assertion_in_a_file_that_may_change(idp: IdentityProvider, tmp_path: Path) -> None:
    path = tmp_path / "assertion"
    tokens = source(idp.url, **{"sasl.oauthbearer.assertion.file": str(path)})
    for subject in ("one", "two"):
        path.write_text(idp.token(subject, nbf=0) + "\n")
        assert (await tokens.fetch()).principal == subject
    path.write_text(" \n")
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.assertion\.file=.* is empty"):
        await tokens.fetch()
    path.unlink()
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.assertion\.file=.* can't be read: No such file"):
        await tokens.fetch()


# -- answers ---------------------------------------------------------------------------------------------------------


async def test_when_a_token_ends_is_what_the_token_says(idp: IdentityProvider) -> None:
    idp.answers = [
        Answer.of({"access_token": idp.token("alice", exp=4e9), "expires_in": 60}),
        Answer.of({"access_token": "opaque", "expires_in": "60"}, 201),
        Answer.of({"access_token": " ", "id_token": idp.token("bob", exp=5e9)}),
    ]
    clock = Clock()
    assert (await fetched(idp.url, BY_SECRET)).expires_at == 4e9
    opaque = await fetched(idp.url, BY_SECRET)
    assert (opaque.value, opaque.principal) == ("opaque", "")
    assert 0 < opaque.expires_at - clock() <= 60
    assert (await fetched(idp.url, BY_SECRET)).expires_at == 5e9


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (Answer.of({"error": "invalid_client"}, 401), r"answered 401 \(invalid_client\)"),
        (
            Answer.of({"error": "invalid_scope", "error_description": f"The scope\r\nof {SECRET}"}, 400),
            r"answered 400 \(invalid_scope: The scope\?\?of \[hidden\]\)",
        ),
        (Answer.of({"errorCode": "E1", "errorSummary": "Away"}, 403), r"answered 403 \(E1: Away\)"),
        (Answer.of({"error": "x" * 5000}, 400), rf"answered 400 \({'x' * 200}\)"),
        (Answer.of({"error": 3}, 400), "answered 400"),
        (Answer(404, b"<html>"), "answered 404"),
        (Answer(501, b""), "answered 501"),
        (Answer(302, b"", {"Location": "http://localhost:1/"}), "answered 302, a redirect, which is not followed"),
        (Answer(200, b"<html>"), "answered with something else than a JSON object"),
        (Answer(200, b"[" * 100_000), "answered with something else than a JSON object"),
        (Answer(200, b"\xff"), "answered with something else than a JSON object"),
        (Answer.of({"token": "abc.def.ghi"}), "answered without an access_token"),
        (Answer.of({"access_token": 3}), "answered without an access_token"),
        (Answer.of({"access_token": "abc.def.ghi"}), "gave a token without saying when it ends"),
        (Answer.of({"access_token": "abc.def.ghi", "expires_in": -1}), "gave a token without saying when it ends"),
        (Answer.of({"access_token": "abc.def.ghi", "expires_in": True}), "gave a token without saying when it ends"),
        (Answer(200, b'{"access_token":"a","expires_in":NaN}'), "gave a token without saying when it ends"),
        (Answer(200, b" " * 300_000), "answered with more than 262144 bytes"),
    ],
)
async def test_answers_that_are_not_retried(idp: IdentityProvider, answer: Answer, what: str) -> None:
    idp.answers = [answer]
    error = await refused(f"{idp.url}?tenant=abc.def.ghi", BY_SECRET)
    shown = idp.url.replace(".", r"\.")
    assert re.fullmatch(rf"The token endpoint {shown} {what}.*\.", error.message), error.message
    assert len(idp.requests) == 1


@pytest.mark.parametrize("answer", [Answer(503), Answer(500), Answer(408), Answer(429), Answer(drops=True)])
async def test_answers_that_are_retried(idp: IdentityProvider, answer: Answer) -> None:
    idp.answers = [answer, answer]
    assert (await fetched(idp.url, BY_SECRET)).principal == CLIENT
    assert len(idp.requests) == 3


async def test_retries_end(idp: IdentityProvider) -> None:
    idp.answers = [Answer.of({"error": "temporarily_unavailable"}, 503)] * 1000
    error = await refused(idp.url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 50})
    assert error.message == f"The token endpoint {idp.url} answered 503 (temporarily_unavailable)."


async def test_nothing_listens_at_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/token"
        # While it is ours, and does not listen: nobody else can.
        error = await refused(url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 20})
    assert error.message == f"The token endpoint {url} can't be reached: Connection refused."


async def test_a_name_that_is_unknown() -> None:
    url = "http://no-such-host.invalid/token"
    error = await refused(url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 20})
    assert error.message.startswith(f"The token endpoint {url} can't be reached: ")


async def test_an_endpoint_that_hangs_for_longer_than_it_may_be_silent(idp: IdentityProvider) -> None:
    idp.answers = [Answer(hangs=True)]
    assert (await fetched(idp.url, BY_SECRET | {"sasl.login.read.timeout.ms": 50})).principal == CLIENT
    idp.answers = [Answer(hangs=True)] * 100
    settings = {"sasl.login.read.timeout.ms": 20, "sasl.login.retry.backoff.max.ms": 50}
    error = await refused(idp.url, BY_SECRET | settings)
    assert error.message.endswith(" did not answer within sasl.login.read.timeout.ms.")


async def test_an_endpoint_that_hangs_for_ever(idp: IdentityProvider) -> None:
    idp.answers = [Answer(hangs=True)]
    config = ClientConfig.from_dict(LOGIN | {URL: idp.url} | BY_SECRET)
    clock = Clock()
    tokens = EndpointTokens(config, random=Random(1), wall=clock)
    logins = TokenLogins(config, tokens, timeout_s=0.3, random=Random(1), wall=clock)
    with pytest.raises(AuthenticationError) as caught:
        await logins.new("localhost")
    assert caught.value.message == f"The token endpoint {idp.url} gave no token within 0.3 s."


@asynccontextmanager
async def other_protocol(greeting: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """The URL of a server that answers what `greeting` makes of a request's head."""

    served: list[asyncio.Task[Any] | None] = []

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        writer.write(greeting(await reader.readuntil(b"\r\n\r\n")))
        await reader.read()  # Closed with a request that is not read, the connection would be reset.
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(greet, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"
        await asyncio.gather(*filter(None, served))


async def test_an_endpoint_of_another_protocol() -> None:
    async with other_protocol(lambda head: b"220 ready\r\n\r\n") as url:
        error = await refused(url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 20})
    assert error.message.startswith(f"The token endpoint {url} can't be requested: ")
    assert "220 ready" in error.message


async def test_an_endpoint_that_repeats_the_secret_where_http_has_its_status() -> None:
    basic = b64encode(f"{CLIENT}:{SECRET}".encode())

    def greeting(head: bytes) -> bytes:
        assert basic in head
        return b"500 " + basic + b"\r\n\r\n"

    async with other_protocol(greeting) as url:
        error = await refused(url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 20})
    assert "500 [hidden]" in error.message
    assert basic.decode() not in error.message


async def test_what_a_peer_says_that_is_no_http_is_bounded_and_printable() -> None:
    explained = _explained(httpx.RemoteProtocolError(f"a\x1b[2J{'b' * 1000}"), REQUEST)
    assert explained.what == f"can't be requested: a?[2J{'b' * 195}"


async def test_a_proxy_of_the_environment(idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", idp.url.removesuffix("/token"))
    assert (await fetched("http://idp.invalid/token", BY_SECRET)).principal == CLIENT
    assert idp.requests[0].path == "http://idp.invalid/token"


async def test_a_proxy_that_httpx_has_no_use_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    error = await refused("http://idp.invalid/token", BY_SECRET)
    assert error.message.endswith(" can't be reached by the proxy that the environment names.")


async def test_an_endpoint_that_can_not_be_reached_is_named_at_the_first_attempt(
    idp: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """The error comes when the retries are over; whoever looks at a start that takes long has its reason at once."""
    url = "http://127.0.0.1:1/token"
    with caplog.at_level(logging.WARNING, "aioprod"):
        fetching = asyncio.create_task(fetched(url, BY_SECRET | {"sasl.login.retry.backoff.max.ms": 600_000}))
        await until(lambda: bool(caplog.messages))
        fetching.cancel()
        await asyncio.wait([fetching])
    assert [said.partition("; trying for")[0] for said in caplog.messages] == [
        f"The token endpoint {url} can't be reached: Connection refused"
    ]


async def test_errors_within_a_request_are_not_blamed_on_the_proxy(
    idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, data: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("h11.Connection.receive_data", broken)
    error = await refused(idp.url, BY_SECRET)
    assert error.message == f"The token endpoint {idp.url} can't be requested: ValueError."


async def test_without_httpx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigError, match=r"needs the package httpx\. Hint: Install it: pip install 'aioprod\[oidc\]'"):
        await fetched("http://localhost:1/token", BY_SECRET)


async def test_no_log_line_has_a_secret(idp: IdentityProvider, caplog: pytest.LogCaptureFixture) -> None:
    """Those of httpx and httpcore neither, which write much at level DEBUG."""
    with caplog.at_level(logging.DEBUG):
        token = await fetched(f"{idp.url}?api-key=key%201", BY_SECRET)
    said = "\n".join(f"{record.getMessage()} {record.args}" for record in caplog.records)
    assert "httpcore" in {record.name.partition(".")[0] for record in caplog.records}
    assert f"POST {idp.url} " in said, "httpx has logged the request"
    assert idp.requests[0].path == "/token?api-key=key%201"
    for secret in (SECRET, token.value, idp.requests[0].headers["authorization"].removeprefix("Basic "), "api-key"):
        assert secret not in said


@pytest.mark.parametrize(
    ("url", "times"), [("http://idp.example.com/t", 1), ("https://idp.example.com/t", 0), ("http://[::1]:80/t", 0)]
)
async def test_a_secret_in_the_clear_is_warned_of(url: str, times: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "aioprod"):
        source(url, **BY_SECRET)
    assert [f"The token endpoint {url} has no TLS: secret and token" in said for said in caplog.messages] == [
        True
    ] * times


def test_a_connection_that_takes_too_long() -> None:
    explained = _explained(httpx.ConnectTimeout("", request=httpx.Request("POST", "http://idp")), REQUEST)
    assert (explained.what, explained.is_passing) == ("can't be reached within sasl.login.connect.timeout.ms", True)


def test_what_can_not_be_sent_is_not_shown() -> None:
    explained = _explained(httpx.LocalProtocolError("Illegal header value abc"), REQUEST)
    assert explained.what == "can't be requested: LocalProtocolError"


# -- https -----------------------------------------------------------------------------------------------------------


async def test_the_certificate_of_an_endpoint_is_checked() -> None:
    """By the CAs of the system, or those that the JAAS entry names, as in Java; not by those for brokers."""
    authority = Authority()
    context = Security(authority=authority, identity=authority.issue("idp", LOCAL_HOSTS)).server_context()
    jaas = f"{JAVA}.OAuthBearerLoginModule required ssl.truststore.type=PEM ssl.truststore.certificates='{{}}';"
    with identity_provider(context) as idp:
        trusting = BY_SECRET | {"sasl.jaas.config": jaas.format(authority.certificate)}
        assert (await fetched(idp.url, trusting)).principal == CLIENT
        for settings in (BY_SECRET, BY_SECRET | {"sasl.jaas.config": jaas.format(Authority().certificate)}):
            error = await refused(idp.url, settings)
            assert "has a certificate that is not accepted (" in error.message
        assert len(idp.requests) == 1


# -- files -----------------------------------------------------------------------------------------------------------


def file_logins(path: Path, clock: Clock) -> TokenLogins:
    settings = ClientConfig.from_dict(LOGIN | {URL: path.as_uri()})
    _, logins = security_of(ClientSettings.from_config(settings), Random(1))
    assert isinstance(logins, TokenLogins)
    return TokenLogins(settings, logins._source, timeout_s=60.0, random=Random(1), wall=clock)


async def first_token(logins: TokenLogins) -> str:
    _, message = (await logins.new("localhost")).begin(is_renewal=False)
    assert isinstance(message, SaslAuthenticateRequest)
    return message.auth_bytes.split(b"Bearer ")[1].split(b"\1")[0].decode()


async def test_a_token_file_is_read_again_when_it_is_due(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "a token"
    made = [IdentityProvider(wall=clock).token("kubernetes", exp=clock() + 3600.0 * (1 + n)) for n in range(2)]
    path.write_text(made[0] + "\n")
    logins = file_logins(path, clock)
    assert await first_token(logins) == made[0]
    path.write_text(made[1])
    assert await first_token(logins) == made[0]
    clock.advance(3100)
    assert await first_token(logins) == made[1]
    path.unlink()
    clock.advance(3600)
    assert await first_token(logins) == made[1], "it holds for 500 s more"


@pytest.mark.parametrize("content", [b"", b"no-jwt", b"a.e30.c", b"\xff.e30.c", b"a.eyJleHAiOiJ4In0.c"])
async def test_a_file_without_a_token(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(AuthenticationError, match=r"The token file '.*token' has no JWT with the claim exp in it"):
        await file_logins(path, Clock()).new("localhost")


async def test_a_token_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"The token file '.*none' can't be read: No such file"):
        await file_logins(tmp_path / "none", Clock()).new("localhost")


@pytest.mark.parametrize("url", ["file:///run/token", "http://localhost:1/token"])
async def test_files_that_can_not_be_read_for_long_keep_one_thread(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those on a server that is away; the loop's threads are needed by others, too."""
    released = threading.Event()
    reading = []

    def slow(path: str, *_: object) -> bytes:
        reading.append(path)
        released.wait(60)
        return b""

    for module in ("token_sources", "token_endpoint"):
        monkeypatch.setattr(f"aioprod.net.login.{module}.read_file", slow)
    files = {"sasl.oauthbearer.assertion.file": "/run/assertion"} if url.startswith("http") else {}
    config = ClientConfig.from_dict(LOGIN | {URL: url} | files)
    _, found = security_of(ClientSettings.from_config(config), Random(1))
    assert isinstance(found, TokenLogins)
    logins = TokenLogins(config, found._source, timeout_s=0.05, random=Random(1), wall=Clock())
    try:
        for _ in range(3):
            with pytest.raises(AuthenticationError, match=r"gave no token within 0\.05 s"):
                await logins.new("localhost")
    finally:
        released.set()
    assert len(reading) <= 1


# -- together --------------------------------------------------------------------------------------------------------


async def test_while_the_endpoint_is_away_the_token_that_holds_serves(
    idp: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    config = ClientConfig.from_dict(LOGIN | AGAIN | {URL: idp.url, "sasl.login.retry.backoff.max.ms": 5} | BY_SECRET)
    idp.answers = [Answer.of({"access_token": "one", "expires_in": 1000})]
    tokens = EndpointTokens(config, random=Random(1), wall=clock)
    logins = TokenLogins(config, tokens, timeout_s=60.0, random=Random(1), wall=clock)
    assert await first_token(logins) == "one"
    clock.advance(800)
    idp.answers = [Answer(503)] * 1000
    with caplog.at_level(logging.WARNING, "aioprod"):
        assert await first_token(logins) == "one"
        asked = len(idp.requests)
        assert await first_token(logins) == "one"
    assert len(idp.requests) == asked, "not again within ten seconds, for each connection"
    kept = [said for said in caplog.messages if said.startswith("The cached token stays in use")]
    assert len(kept) == 1
    assert f"The token endpoint {idp.url} answered 503" in kept[0]
    clock.advance(20)
    idp.answers = [Answer.of({"access_token": "two", "expires_in": 1000})]
    assert await first_token(logins) == "two"


async def test_no_send_fails_while_the_endpoint_is_away(idp: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections are lost while nobody gives tokens; the token that is kept opens the next ones."""
    moved_s = 0.0
    monkeypatch.setattr("aioprod.net.security.time", SimpleNamespace(time=lambda: time.time() + moved_s))
    async with FakeCluster(security=Security(protocol="SASL_PLAINTEXT")) as brokers:
        settings = LOGIN | {URL: idp.url, "bootstrap.servers": brokers.bootstrap} | BY_SECRET
        config = ProducerConfig.from_dict(settings | AGAIN | {"sasl.login.retry.backoff.max.ms": 5})
        async with Producer(config=config) as producer:
            await producer.send("orders", b"first")
            assert len(idp.requests) == 1
            idp.answers = [Answer(503)] * 100_000
            moved_s = 3400.0  # The token is due, and holds for 200 s.
            for number in range(20):
                await brokers[1].cut()
                await producer.send("orders", b"%d" % number)
            assert len(idp.requests) > 1
