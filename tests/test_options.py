"""The options of each client are typed, from the tables of settings, at no cost at run time.

Lines with `type: ignore` are calls that type checkers must refuse: mypy fails where one of them is not needed.
"""

from __future__ import annotations

import asyncio
import builtins
import collections.abc
import concurrent.futures
import contextlib
import inspect
import json
import re
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import Any

import pytest

import aioprod.admin
import aioprod.group
import aioprod.producer
import aioprod.sync
from aioprod import Admin, AioprodError, Member, OAuthToken, Producer, ProducerRecord, RecordMetadata, options, read
from aioprod.cluster import Cluster
from aioprod.errors import ConfigError
from aioprod.group.assignors import RangeAssignor, StickyAssignor
from aioprod.reader import Reader
from aioprod.relay import Relay
from aioprod.routing import DefaultPartitioner, Murmur2Partitioner
from aioprod.serializers import IntegerSerializer, StringDeserializer
from aioprod.transactions import TransactionSession
from tools.typed_options import SHAPES, keywords

PUBLIC = (
    *(aioprod, aioprod.errors, aioprod.types, aioprod.cluster, aioprod.config, aioprod.metrics, aioprod.options),
    *(aioprod.admin, aioprod.group, aioprod.producer, aioprod.reader, aioprod.transactions),
    *(builtins, asyncio, collections.abc, concurrent.futures, contextlib, types, typing, uuid),
)
"""Modules whose names people know or find in the reference."""


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_keyword_of_a_client_is_in_its_options(shape: Any) -> None:
    typed = getattr(options, shape.name)
    assert set(typed.__annotations__) == set(keywords(shape.config)) - shape.without
    assert not typed.__required_keys__


@pytest.mark.parametrize("client", [Producer, Reader, Member, Admin, Relay, TransactionSession, read])
def test_a_client_shows_its_signature(client: Callable[..., Any]) -> None:
    parameters = inspect.signature(client).parameters
    assert {"bootstrap_servers", "config", "options"} <= set(parameters)
    assert parameters["options"].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize("client", [Producer, Reader, Member, Admin, TransactionSession, read])
def test_a_signature_has_no_names_of_the_inside(client: Callable[..., Any]) -> None:
    for parameter in inspect.signature(client).parameters.values():
        assert parameter.name[0] != "_"
        spelled = str(parameter.annotation)
        for name in re.findall(r"\b[A-Z]\w+Options?\b", spelled):
            assert hasattr(options, name)


@pytest.mark.parametrize("client", [Producer, Reader, Member, Admin, TransactionSession, aioprod.sync.Producer])
def test_the_names_in_signatures_can_be_looked_up(client: type) -> None:
    calls = [getattr(client, name) for name in dir(client) if name == "__init__" or name[0] != "_"]
    for call in filter(callable, calls):
        signature = inspect.signature(call)
        spelled = [str(one.annotation) for one in signature.parameters.values()]
        for words in (*spelled, str(signature.return_annotation)):
            for name in re.findall(r"(?<![.\w])[A-Z]\w+", re.sub(r"Literal\[[^]]*\]|pa\.\w+", "", words)):
                assert any(hasattr(room, name) for room in PUBLIC), f"{call.__qualname__}: {name}"


class Recorder:
    """Serializer, partitioner, interceptor and reporter in one."""

    def serialize(self, topic: str, headers: Any, value: Any) -> bytes:
        return b""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        return 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def report(self, snapshot: Mapping[str, float]) -> None:
        pass


class Outcomes:
    """An interceptor that has but the other method."""

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        pass


def in_partition_0(topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
    return 0


async def as_json(topic: str, headers: Any, value: Any) -> bytes:
    return json.dumps(value).encode()


async def token() -> OAuthToken:
    return OAuthToken("t", 0.0)


def test_right_options_pass() -> None:
    Producer("h:1", linger_ms=5, acks="all", compression_type="zstd", sasl_mechanisms=None, close_timeout_ms=None)
    Producer("h:1", key_serializer=str.encode, value_serializer=as_json, partitioner=in_partition_0)
    Producer("h:1", key_serializer=IntegerSerializer, value_serializer=IntegerSerializer(), partitioner="murmur2")
    Producer("h:1", key_serializer="str", value_serializer=Recorder(), partitioner=Recorder, interceptors=Recorder())
    Producer("h:1", value_serializer=lambda value: json.dumps(value).encode(), interceptors=[Recorder, Outcomes()])
    Producer("h:1", partitioner=Murmur2Partitioner(), interceptor_classes=[Recorder()], metric_reporters=[Recorder()])
    Producer("h:1", partitioner=DefaultPartitioner, ssl_enabled_protocols=["TLSv1.3"], security_protocol="SSL")
    Producer("h:1", security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_token_provider=token)
    Producer("h:1", security_protocol="SSL", ssl_context=lambda: SSLContext())
    Member("h:1", group_id="g", topics="t", session_timeout_ms=10_000, key_deserializer=StringDeserializer)
    Member("h:1", group_id="g", topics="t", assignors="range", auto_offset_reset="none", isolation="read_committed")
    Member("h:1", group_id="g", topics="t", assignors=[RangeAssignor(), StickyAssignor, "roundrobin"])
    Member("h:1", topics="t", config={"group.id": "g"}, isolation_level="read_committed", fetch_min_bytes=1)
    Reader("h:1", fetch_max_bytes=1, value_deserializer=lambda data: data.decode())
    Admin("h:1", default_api_timeout_ms=1)
    TransactionSession("h:1", transactional_id="t", transaction_timeout_ms=1)


def test_wrong_options_are_refused_by_type_checkers_and_at_run_time() -> None:
    with pytest.raises(ConfigError, match="linger"):
        Producer("h:1", linger=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="linger"):
        Producer("h:1", linger_ms="abc")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="acks"):
        Producer("h:1", acks="everything")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="compression"):
        Producer("h:1", compression_type="zip")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="partitioner"):
        Producer("h:1", partitioner=lambda key: 0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"ssl\.context"):
        Producer("h:1", ssl_context="tls")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="fetch_max_bytes"):
        Producer("h:1", fetch_max_bytes=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"fetch\.max\.bytes"):
        read("t", bootstrap_servers="h:1", fetch_max_bytes="many")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="session_timeout"):
        Member("h:1", group_id="g", topics="t", session_timeout=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        Member("h:1", group_id="g", topics="t", auto_offset_reset=0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        Member("h:1", group_id="g", topics="t", isolation_level="read_comitted")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"isolation\.level"):
        Reader("h:1", isolation="read_comitted")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="names no assignor"):
        Member("h:1", group_id="g", topics="t", assignors=["rnage"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="fetch_max_bytes"):
        Admin("h:1", fetch_max_bytes=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms"):
        TransactionSession("h:1", transactional_id="t", transaction_timeout_ms="1 s")  # type: ignore[arg-type]
