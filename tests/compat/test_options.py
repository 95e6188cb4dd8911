"""aiokafka's options as settings of aioprod's."""

from __future__ import annotations

import logging
import ssl
import time
from typing import Any

import pytest

from aioprod.compat.aiokafka import AIOKafkaProducer, options
from aioprod.compat.aiokafka.options import DEFAULTS, NO_MEANING, producer_config
from aioprod.compat.aiokafka.tokens import OPAQUE_S, TokenAdapter
from aioprod.config import ProducerConfig
from aioprod.config._security import credentials_of
from aioprod.errors import AioprodError, ConfigError


def config(**options: Any) -> ProducerConfig:
    return producer_config({**DEFAULTS, **options})


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "_said", set())


def test_defaults_are_those_of_aiokafka() -> None:
    made = config()
    assert (made.acks, made.enable_idempotence, made.compression_type) == (1, False, "none")
    assert (made.batch_size, made.linger_ms, made.adaptive_linger) == (16_384, 0, False)
    assert (made.request_timeout_ms, made.max_block_ms, made.delivery_timeout_ms) == (40_000, 40_000, 40_000)
    assert (made.max_in_flight_requests_per_connection, made.bootstrap_servers) == (1, ("localhost:9092",))
    assert made.client_id.startswith("aiokafka-producer-")


def test_idempotence_changes_acks_order_and_patience() -> None:
    for given in ({"enable_idempotence": True}, {"transactional_id": "till"}):
        made = config(**given)
        assert (made.acks, made.enable_idempotence, made.delivery_timeout_ms) == (-1, True, 120_000)
        assert made.max_in_flight_requests_per_connection == 5


def test_a_record_lingers_and_is_delivered_in_the_time_of_a_request() -> None:
    made = config(linger_ms=500, request_timeout_ms=1000)
    assert (made.linger_ms, made.delivery_timeout_ms, made.max_block_ms) == (500, 1500, 1000)


@pytest.mark.parametrize("linger_ms", [4.2, 5.0])
def test_times_that_are_floats_bound_the_delivery_as_well(linger_ms: float) -> None:
    made = config(linger_ms=linger_ms, request_timeout_ms=1000.0)
    assert (made.linger_ms, made.delivery_timeout_ms, made.max_block_ms) == (5, 1005, 1000)


@pytest.mark.parametrize("linger_ms", [-0.5, float("inf"), float("nan")])
def test_a_linger_that_is_no_time_raises(linger_ms: float) -> None:
    with pytest.raises(ConfigError, match="linger"):
        config(linger_ms=linger_ms)


def test_the_buffer_holds_two_of_the_largest_batches_and_records() -> None:
    assert config().buffer_memory == 32 * 1024 * 1024
    assert config(max_request_size=50_000_000).buffer_memory == 100_000_000
    assert config(max_batch_size=20_000_000).buffer_memory == 40_000_000


def test_no_idle_limit_is_minus_one() -> None:
    assert config(connections_max_idle_ms=None).connections_max_idle_ms == -1


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("localhost", ("localhost:9092",)),
        ("a:1, b,c:3", ("a:1", "b:9092", "c:3")),
        (["a", "a:9092"], ("a:9092",)),
        ("a:1, ,b:2,", ("a:1", "b:2")),
        (["::1", "[::1]", "[::1]:93"], ("[::1]:9092", "[::1]:93")),
        (("10.0.0.1:9093",), ("10.0.0.1:9093",)),
    ],
)
def test_servers_without_a_port_have_kafkas(given: Any, servers: tuple[str, ...]) -> None:
    assert config(bootstrap_servers=given).bootstrap_servers == servers


@pytest.mark.parametrize("given", [9092, [9092], [], "", ","])
def test_servers_that_are_none_raise(given: Any) -> None:
    with pytest.raises(ConfigError, match="bootstrap"):
        config(bootstrap_servers=given)


# --- what has no meaning


@pytest.mark.parametrize(("name", "value"), [("loop", object()), ("api_version", "auto")])
def test_an_option_without_meaning_is_said_once(name: str, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        config(**{name: value})
    (line,) = caplog.records
    assert (line.name, line.levelno) == ("aioprod.compat", logging.WARNING)
    assert line.getMessage() == f"The option {name} of AIOKafkaProducer has no meaning in aioprod: {NO_MEANING[name]}."


def test_options_at_their_defaults_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    config()
    assert caplog.records == []


def test_log_in_options_without_a_log_in_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        config(sasl_plain_password="hush", ssl_context=ssl.create_default_context())
    assert [line.getMessage() for line in caplog.records] == [
        "The option sasl_plain_password has no effect with security_protocol=PLAINTEXT.",
        "The option ssl_context has no effect with security_protocol=PLAINTEXT.",
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lingr_ms", "Did you mean 'linger_ms'?"),
        ("batch_size", "It is a setting of aioprod.Producer: with that one, batch_size=... works."),
        ("xyzzy", None),
    ],
)
def test_an_option_that_does_not_exist_is_named_in_one_sentence(name: str, hint: str | None) -> None:
    unknown: dict[str, Any] = {name: 5}
    with pytest.raises(TypeError) as caught:
        AIOKafkaProducer(**unknown)
    error: Any = caught.value
    assert isinstance(error, ConfigError)
    assert (error.message, error.hint) == (f"aiokafka's producer has no option {name!r}.", hint)


@pytest.mark.parametrize(
    "wrong",
    [
        {"request_timeout_ms": "soon"},
        {"linger_ms": -1},
        {"max_batch_size": None},
        {"acks": True},
        {"client_id": 7},
        {"transactional_id": ""},
        {"metadata_max_age_ms": 1.5},
        {"security_protocol": None},
    ],
)
def test_a_value_that_makes_no_sense_is_a_value_error_of_aioprod(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - each has a text of its own
        config(**wrong)
    assert isinstance(caught.value, AioprodError)


def test_the_sentinel_of_aiokafka_is_no_acks() -> None:
    assert config(acks=object()).acks == 1  # FastStream passes it on.


# --- log-ins


def test_plain_and_scram_take_the_same_user() -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        made = config(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="ada",
            sasl_plain_password="hush",
        )
        assert (made.sasl_mechanism, made.sasl_username) == (mechanism, "ada")
        assert "hush" not in repr(made)


@pytest.mark.parametrize("password", ["env:HOME", "file:/etc/hostname", "${env:HOME}", "raw:x"])
def test_a_password_is_sent_as_it_is(password: str) -> None:
    made = config(security_protocol="SASL_PLAINTEXT", sasl_plain_username="a:b", sasl_plain_password=password)
    credentials: Any = credentials_of(made)
    assert (credentials.username, credentials.password) == ("a:b", password)


def test_oauthbearer_needs_a_provider() -> None:
    with pytest.raises(ConfigError, match="sasl_oauth_token_provider"):
        config(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER")


class Tokens:
    def __init__(self, value: str) -> None:
        self.value = value

    async def token(self) -> str:
        return self.value

    def extensions(self) -> dict[str, str]:
        return {"logicalCluster": "lkc-1"}


async def test_a_tokens_end_is_read_from_it() -> None:
    token = await TokenAdapter(Tokens("e30.eyJleHAiOiAyMDAwMDAwMDAwfQ.sig")).token()
    assert (token.expires_at, token.extensions) == (2_000_000_000.0, {"logicalCluster": "lkc-1"})


@pytest.mark.parametrize("value", ["opaque", "e30.eyJleHAiOiAidGhlbiJ9.sig", "e30.eyJleHAiOiB0cnVlfQ.sig"])
async def test_a_token_that_does_not_say_its_end_holds_for_minutes(value: str) -> None:
    before = time.time()
    token = await TokenAdapter(Tokens(value)).token()
    assert before + OPAQUE_S <= token.expires_at <= time.time() + OPAQUE_S
    assert token.value == value
