"""The settings of tokens from an endpoint or a file: which go together, and what they mean."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod import OAuthToken
from aioprod.config import ClientConfig, credentials_of
from aioprod.config._token_source import Grant, TokenEndpoint, TokenFile
from aioprod.errors import ConfigError

JAVA = "org.apache.kafka.common.security.oauthbearer"
JAAS = f"{JAVA}.OAuthBearerLoginModule required"
SECRET = "hunter2"
URL = "https://idp.example.com/token"
OIDC = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_endpoint_url": URL}
BY_SECRET = OIDC | {
    "sasl_oauthbearer_client_credentials_client_id": "orders",
    "sasl_oauthbearer_client_credentials_client_secret": SECRET,
}
KEY = {"sasl_oauthbearer_assertion_private_key_file": "key.pem"}
FILE = OIDC | {"sasl_oauthbearer_token_endpoint_url": "file:///var/run/a%20token"}


def config(**options: Any) -> ClientConfig:
    return ClientConfig.from_options(bootstrap_servers="localhost:9092", **options)


def endpoint(**options: Any) -> TokenEndpoint:
    credentials = credentials_of(config(**options))
    assert isinstance(credentials, TokenEndpoint)
    return credentials


def test_an_id_and_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    found = endpoint(**BY_SECRET)
    assert (found.url, found.grant, found.client_id, found.client_secret, found.scope) == (
        URL, Grant.CLIENT_SECRET, "orders", SECRET, ""
    )  # fmt: skip
    monkeypatch.setenv("AIOPROD_TEST_SECRET", "other")
    given = BY_SECRET | {"sasl_oauthbearer_client_credentials_client_secret": "env:AIOPROD_TEST_SECRET"}
    assert endpoint(**given).client_secret == "other"
    assert SECRET not in f"{found!r} {config(**BY_SECRET)!r}"


def test_id_secret_and_scope_may_be_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_TEST_SECRET", "env:other")
    named = "env:AIOPROD_TEST_SECRET"
    settings = {
        "sasl_oauthbearer_client_credentials_client_id": named,
        "sasl_oauthbearer_client_credentials_client_secret": named,
        "sasl_oauthbearer_scope": named,
    }
    options = f"clientId={named} clientSecret={named} scope={named}"
    for given in (settings, {"sasl_jaas_config": f"{JAAS} {options};"}):
        found = endpoint(**OIDC, **given)
        assert (found.client_id, found.client_secret, found.scope) == ("env:other",) * 3


def test_secrets_of_tls_are_looked_up_by_who_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOPROD_TEST_SECRET", "other")
    options = "ssl.truststore.location=${env:AIOPROD_TEST_SECRET} ssl.truststore.password=${env:AIOPROD_TEST_SECRET}"
    found = endpoint(**BY_SECRET, sasl_jaas_config=f"{JAAS} {options};")
    assert found.tls == {
        "ssl.truststore.location": "other",
        "ssl.truststore.password": "${env:AIOPROD_TEST_SECRET}",
    }


def test_the_options_of_jaas() -> None:
    options = "clientId=orders clientSecret='a b' scope=produce extension_a=1 ssl.truststore.location=ca.pem"
    found = endpoint(**OIDC, sasl_jaas_config=f"{JAAS} {options};")
    assert (found.client_id, found.client_secret, found.scope) == ("orders", "a b", "produce")
    assert (found.extensions, found.tls) == ({"a": "1"}, {"ssl.truststore.location": "ca.pem"})


def test_assertions() -> None:
    assert endpoint(**OIDC | KEY).grant is Grant.CLIENT_ASSERTION
    assert endpoint(**OIDC, sasl_oauthbearer_assertion_file="a.jwt").grant is Grant.CLIENT_ASSERTION
    bearer = {"sasl_oauthbearer_jwt_retriever_class": f"{JAVA}.JwtBearerJwtRetriever"}
    assert endpoint(**OIDC | KEY | bearer).grant is Grant.JWT_BEARER


@pytest.mark.parametrize(
    "url", ["file:///var/run/a%20token", "file:/var/run/a%20token", "file://localhost/var/run/a token"]
)
@pytest.mark.parametrize("retriever", [None, "DefaultJwtRetriever", "FileJwtRetriever"])
def test_a_file(url: str, retriever: str | None) -> None:
    given: dict[str, Any] = FILE | {"sasl_oauthbearer_token_endpoint_url": url}
    given["sasl_login_callback_handler_class"] = f"{JAVA}.OAuthBearerLoginCallbackHandler"
    if retriever is not None:
        given["sasl_oauthbearer_jwt_retriever_class"] = f"{JAVA}.{retriever}"
    credentials = credentials_of(config(**given, sasl_jaas_config=f"{JAAS} extension_a=1;"))
    assert isinstance(credentials, TokenFile)
    assert (credentials.path, credentials.extensions) == ("/var/run/a token", {"a": "1"})


def test_an_url_is_shown_without_its_query() -> None:
    given = BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": f"{URL}?a={SECRET}#b"}
    assert endpoint(**given).shown == URL
    assert f"url='{URL}?[hidden]'" in repr(config(**given))
    assert f"url='{URL}'" in repr(config(**BY_SECRET))
    assert SECRET not in repr(config(**given))
    assert "endpoint_url=None" in repr(config(sasl_oauthbearer_token_endpoint_url=None))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (OIDC, r"endpoint\.url needs sasl\.oauthbearer\.client\.credentials\.client\.id\. Hint: Or an assertion"),
        (
            {name: value for name, value in BY_SECRET.items() if not name.endswith("secret")},
            r"needs sasl\.oauthbearer\.client\.credentials\.client\.secret",
        ),
        (
            BY_SECRET | {"sasl_jaas_config": f"{JAAS} clientSecret={SECRET};"},
            r"The option clientSecret in sasl\.jaas\.config is given beside the setting for it",
        ),
        (BY_SECRET | {"sasl_jaas_config": f"{JAAS} oauth.access.token={SECRET};"}, r"option 'oauth\.access\.token', w"),
        (
            BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": [f"{URL}?{SECRET}"]},
            r"endpoint\.url must be a string, not \[hidden\]",
        ),
        (FILE | {"sasl_oauthbearer_token_endpoint_url": f"file:x?{SECRET}"}, "'file:x' names no file"),
        (BY_SECRET | {"sasl_oauthbearer_assertion_claim_sub": "x"}, r"claim\.sub has no use beside a client secret"),
        (BY_SECRET | {"sasl_oauthbearer_assertion_template_file": "x"}, r"template\.file has no use beside a client s"),
        (BY_SECRET | {"sasl_oauthbearer_assertion_algorithm": "ES256"}, r"algorithm has no use beside a client secret"),
        (
            OIDC | {"sasl_oauthbearer_assertion_file": "x", "sasl_oauthbearer_assertion_claim_sub": "x"},
            r"claim\.sub has no use beside sasl\.oauthbearer\.assertion\.file",
        ),
        (
            OIDC | {"sasl_oauthbearer_assertion_file": "x", "sasl_oauthbearer_header_urlencode": True},
            r"header\.urlencode has no use beside sasl\.oauthbearer\.assertion\.file",
        ),
        (OIDC | KEY | {"sasl_oauthbearer_header_urlencode": True}, r"header\.urlencode has no use beside an assertion"),
        (BY_SECRET | KEY, "A client secret and an assertion are both given"),
        (OIDC | KEY | {"sasl_oauthbearer_assertion_file": "x"}, r"assertion\.file is given beside settings for making"),
        (OIDC | {"sasl_oauthbearer_assertion_claim_iss": "x"}, r"claim\.iss needs .*private\.key\.file to sign with"),
        (BY_SECRET | {"sasl_oauthbearer_jwt_retriever_class": f"{JAVA}.JwtBearerJwtRetriever"}, "needs an assertion"),
        (BY_SECRET | {"sasl_oauthbearer_jwt_retriever_class": f"{JAVA}.FileJwtRetriever"}, "is not for .*=https://idp"),
        (FILE | {"sasl_oauthbearer_jwt_retriever_class": f"{JAVA}.JwtBearerJwtRetriever"}, "is not for .*=file:"),
        (BY_SECRET | {"sasl_oauthbearer_jwt_retriever_class": "com.Other"}, r"must be one of .*, not 'com\.Other'"),
        (BY_SECRET | {"sasl_login_callback_handler_class": "com.Other"}, r"must be one of .*, not 'com\.Other'"),
        (FILE | {"sasl_oauthbearer_scope": "x"}, r"sasl\.oauthbearer\.scope has no use with a token in a file"),
        (FILE | {"sasl_jaas_config": f"{JAAS} clientId=x;"}, r"clientId has no use with a token in a file"),
        (FILE | {"sasl_oauthbearer_token_endpoint_url": "file://host/x"}, "names no file"),
        (FILE | {"sasl_oauthbearer_token_endpoint_url": "file:x"}, "names no file"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": "ftp://idp/x"}, "=ftp://idp/x is not a source of tokens"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": "https:///x"}, "is not a source of tokens"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": "https://[x"}, r"url is malformed"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": "https://idp:x/"}, r"url is malformed"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint_url": f"https://a:{SECRET}@idp/"}, "contains a user or a pass"),
        (
            BY_SECRET
            | {
                "sasl_oauthbearer_token_endpoint_url": "http://idp/",
                "sasl_jaas_config": f"{JAAS} ssl.protocol=TLSv1.3;",
            },
            r"ssl\.protocol in sasl\.jaas\.config has no use with .*=http://idp/",
        ),
        (
            BY_SECRET | {"sasl_token_provider": lambda: OAuthToken("a", 1.0)},
            r"endpoint\.url has no use with sasl\.mechanism=OAUTHBEARER and sasl_token_provider",
        ),
        (BY_SECRET | {"sasl_username": "x"}, r"sasl\.username has no use"),
        (BY_SECRET | {"sasl_login_connect_timeout_ms": -1}, r"must be an integer from 0"),
        (BY_SECRET | {"sasl_oauthbearer_assertion_algorithm": "none"}, "must be one of RS256, ES256"),
        (BY_SECRET | {"sasl_oauthbearer_sub_claim_name": "x"}, "how tokens are checked"),
        (BY_SECRET | {"sasl_oauthbearer_token_endpoint": "x"}, r"Did you mean 'sasl_oauthbearer_token_endpoint_url'"),
    ],
)
def test_settings_that_contradict_or_lack_something(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config(**options)
    assert SECRET not in str(caught.value)
