"""The constructor: which options there are, what they may be, and what is wrong."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import warnings
from typing import Any

import pytest

from aioprod.compat.aiokafka.options import DEFAULTS
from tests.support.aiokafka_pairs.pair import Pair, behaviour


def parameters(client: type[Any]) -> dict[str, inspect.Parameter]:
    given = inspect.signature(client.__init__).parameters.items()
    return {name: one for name, one in given if name != "self" and one.kind is not one.VAR_KEYWORD}


@behaviour()
async def every_option_is_there_by_keyword_only(pair: Pair) -> None:
    assert set(parameters(pair.client)) == set(DEFAULTS)
    assert {one.kind for one in parameters(pair.client).values()} == {inspect.Parameter.KEYWORD_ONLY}


@behaviour()
async def the_defaults_are_these(pair: Pair) -> None:
    by_class = {"acks", "partitioner"}  # Sentinels, and objects, that stand for what the next tests show.
    defaults = {name: one.default for name, one in parameters(pair.client).items() if name not in by_class}
    assert defaults == {name: value for name, value in DEFAULTS.items() if name not in by_class}


@behaviour()
async def every_method_is_there_with_its_arguments(pair: Pair) -> None:
    calls = {
        "start": [],
        "stop": [],
        "flush": [],
        "partitions_for": ["topic"],
        "send": ["topic", "value", "key", "partition", "timestamp_ms", "headers"],
        "send_and_wait": ["topic", "value", "key", "partition", "timestamp_ms", "headers"],
        "create_batch": [],
        "send_batch": ["batch", "topic", "partition"],
        "begin_transaction": [],
        "commit_transaction": [],
        "abort_transaction": [],
        "transaction": [],
        "send_offsets_to_transaction": ["offsets", "group_id"],
    }
    public = {name for name, one in inspect.getmembers(pair.client, callable) if not name.startswith("_")}
    assert public == set(calls)
    for name, arguments in calls.items():
        assert list(inspect.signature(getattr(pair.client, name)).parameters)[1:] == arguments


@behaviour()
async def an_option_that_does_not_exist_is_a_type_error_that_names_it(pair: Pair) -> None:
    with pytest.raises(TypeError, match="lingr_ms"):
        pair.make(lingr_ms=5)


@behaviour()
async def acks_are_0_1_or_all(pair: Pair) -> None:
    for acks in (2, "1", "leader", -2):
        with pytest.raises(ValueError):  # noqa: PT011 - the texts are not the same
            pair.make(acks=acks)
    for acks in (0, 1, -1, "all"):
        await pair.make(acks=acks).stop()


@behaviour()
async def a_compression_that_does_not_exist_is_a_value_error(pair: Pair) -> None:
    for codec in ("none", "brotli", "GZIP"):
        with pytest.raises(ValueError):  # noqa: PT011
            pair.make(compression_type=codec)


@behaviour()
async def idempotence_contradicts_other_acks_than_all(pair: Pair) -> None:
    for acks in (0, 1):
        with pytest.raises(ValueError, match="acks"):
            pair.make(enable_idempotence=True, acks=acks)
        with pytest.raises(ValueError, match="acks"):
            pair.make(transactional_id="t", acks=acks)
    await pair.make(enable_idempotence=True, acks="all").stop()


@behaviour()
async def a_security_protocol_that_does_not_exist_is_a_value_error(pair: Pair) -> None:
    with pytest.raises(ValueError, match="security_protocol"):
        pair.make(security_protocol="TLS")


@behaviour()
async def tls_needs_a_context(pair: Pair) -> None:
    for protocol in ("SSL", "SASL_SSL"):
        with pytest.raises(ValueError, match="ssl_context"):
            pair.make(security_protocol=protocol)
    await pair.make(security_protocol="SSL", ssl_context=ssl.create_default_context()).stop()


@behaviour()
async def a_mechanism_that_does_not_exist_is_a_value_error(pair: Pair) -> None:
    with pytest.raises(ValueError, match="sasl_mechanism"):
        pair.make(security_protocol="SASL_PLAINTEXT", sasl_mechanism="DIGEST-MD5")


@behaviour()
async def plain_needs_a_user_and_a_password(pair: Pair) -> None:
    for given in ({}, {"sasl_plain_username": "u"}, {"sasl_plain_password": "p"}):
        with pytest.raises(ValueError, match="sasl_plain_"):
            pair.make(security_protocol="SASL_PLAINTEXT", **given)


@behaviour(differs="SCRAM and OAUTHBEARER without credentials")
async def scram_without_a_user_fails(pair: Pair) -> None:
    given: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
    if pair.is_ours:
        with pytest.raises(ValueError, match="sasl_plain_username"):
            pair.make(**given)
    else:
        await pair.make(**given).stop()


@behaviour()
async def log_in_options_under_plaintext_do_nothing(pair: Pair) -> None:
    topic = await pair.topic()
    given = {"sasl_plain_username": "u", "sasl_plain_password": "p", "ssl_context": ssl.create_default_context()}
    async with pair.running(**given) as producer:
        await producer.send_and_wait(topic, b"value")
    assert await pair.values(topic) == [b"value"]


@behaviour(differs="`loop`, `api_version`")
async def options_without_meaning_are_reported(pair: Pair) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        producer = pair.make(loop=asyncio.get_running_loop(), api_version="2.3.0")
    await producer.stop()
    assert {one.category for one in caught} == pair.either({DeprecationWarning}, set())


@behaviour(differs="made outside of an event loop")
async def it_needs_a_running_loop(pair: Pair) -> None:
    def make() -> bool:
        try:
            pair.make()
        except RuntimeError:
            return False
        return True

    assert await asyncio.to_thread(make) is pair.either(False, True)


@behaviour()
async def servers_may_be_a_list_and_lack_the_port(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(bootstrap_servers=pair.servers.split(",")) as producer:
        await producer.send_and_wait(topic, b"one")
    async with pair.running(bootstrap_servers=f"{pair.servers},{pair.servers}") as producer:
        await producer.send_and_wait(topic, b"two")
    await pair.make(bootstrap_servers="localhost").stop()
    await pair.make(bootstrap_servers=["kafka1", "kafka2:9093", "::1", "[::1]:9094"]).stop()
    assert await pair.values(topic) == [b"one", b"two"]


@behaviour()
async def each_producer_is_numbered_unless_it_has_a_name(pair: Pair) -> None:
    topic = await pair.topic()
    async with pair.running(client_id="shop") as producer:
        await producer.send_and_wait(topic, b"value")
    async with pair.running() as producer:
        await producer.send_and_wait(topic, b"value")
    assert len(await pair.values(topic)) == 2
