"""The settings of consumers as Java's files and librdkafka's dicts have them: they work as they are, in one run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer, ProducerConfig
from aioprod.admin import Admin
from aioprod.config import SessionConfig
from aioprod.errors import ConfigError
from aioprod.group import Member, MemberConfig
from aioprod.reader import Reader, ReaderConfig

JAVA = """\
bootstrap.servers=broker-1:9092,broker-2:9092
group.id=billing
client.id=billing-1
client.rack=eu-1
auto.offset.reset=earliest
enable.auto.commit=true
auto.commit.interval.ms=1000
isolation.level=read_committed
key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
value.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer
max.poll.records=200
max.poll.interval.ms=60000
fetch.min.bytes=1024
fetch.max.wait.ms=250
partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor,\\
    org.apache.kafka.clients.consumer.RangeAssignor
session.timeout.ms=30000
heartbeat.interval.ms=5000
allow.auto.create.topics=false
interceptor.classes=com.example.Counting
default.api.timeout.ms=20000
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";
schema.registry.url=https://registry.example.com
"""

LIBRDKAFKA: dict[str, Any] = {
    "bootstrap.servers": "broker-1:9092",
    "group.id": "billing",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "session.timeout.ms": 30_000,
    "fetch.wait.max.ms": 100,
    "queued.min.messages": 10_000,
    "statistics.interval.ms": 0,
    "partition.assignment.strategy": "cooperative-sticky",
    "enable.partition.eof": False,
    "sasl.mechanisms": "PLAIN",
    "security.protocol": "SASL_SSL",
    "sasl.username": "u",
    "sasl.password": "p",
    "socket.keepalive.enable": True,
    "log_level": 3,
}

member = partial(Member, "h:1", topics="t")


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "aioprod")
    return caplog


def file_of(folder: Path, content: str) -> Path:
    path = folder / "consumer.properties"
    path.write_text(content)
    return path


# --- whole files and dicts


def test_a_file_of_javas_consumer(tmp_path: Path, log: pytest.LogCaptureFixture) -> None:
    config = MemberConfig.from_properties(file_of(tmp_path, JAVA))
    assert (config.group_id, config.auto_offset_reset, config.isolation_level) == (
        "billing",
        "earliest",
        "read_committed",
    )
    assert (config.enable_auto_commit, config.fetch_min_bytes, config.client_rack) == (True, 1024, "eu-1")
    (line,) = log.messages
    assert [record.levelname for record in log.records] == ["INFO"]
    for part in (
        "max.poll.records (records are given one by one",
        "interceptor.classes (",
        "allow.auto.create.topics (",
    ):
        assert part in line
    assert "schema.registry.url (the Schema Registry)" in line
    made = Member(topics="orders", config=config)
    assert made.group_id == "billing"
    assert [one.name for one in made._subscription.assignors] == ["cooperative-sticky", "range"]


def test_a_dict_of_librdkafkas_consumer(log: pytest.LogCaptureFixture) -> None:
    made = Member(topics="orders", config=LIBRDKAFKA)
    assert (made.group_id, made.config.fetch_max_wait_ms, made.config.enable_auto_commit) == ("billing", 100, False)
    assert [one.name for one in made._subscription.assignors] == ["cooperative-sticky"]
    (line,) = log.messages
    assert line.startswith("MemberConfig leaves out: enable.auto.offset.store (")
    for name in ("queued.min.messages", "statistics.interval.ms", "enable.partition.eof", "log_level"):
        assert f"{name} (" in line


def test_a_reader_takes_the_file_and_the_dict_of_a_group_and_leaves_the_group_out(
    tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    without_rack = JAVA.replace("client.rack=eu-1\n", "")
    assert ReaderConfig.from_properties(file_of(tmp_path, without_rack)).isolation_level == "read_committed"
    assert "group.id (A reader belongs to no group" in log.messages[0]
    assert Reader(config=LIBRDKAFKA).config.fetch_max_wait_ms == 100


def test_a_name_that_is_understood_is_no_second_one() -> None:
    with pytest.raises(ConfigError, match=r"^fetch\.max\.wait\.ms is given twice"):
        MemberConfig.from_dict({"fetch.wait.max.ms": 1, "fetch.max.wait.ms": 1})


@pytest.mark.parametrize("name", ["error.cbs", "linger.ms", "rebalance_cb", "on_assign"])
def test_what_a_dict_means_in_vain_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^'{name}' is not a setting"):
        member(config={"group.id": "g", name: 1})


@pytest.mark.parametrize("kind", ["key", "value"])
def test_a_class_of_java_without_a_counterpart_is_one_sentence(kind: str, tmp_path: Path) -> None:
    name = "io.confluent.kafka.serializers.KafkaAvroDeserializer"
    path = file_of(tmp_path, f"bootstrap.servers=a:1\n{kind}.deserializer={name}\n")
    with pytest.raises(ConfigError, match=f"^The deserializer '{name}' is a Java class that has no counterpart"):
        MemberConfig.from_properties(path)


@pytest.mark.parametrize(
    ("content", "is_warned"),
    [
        ("group.id=g\n", True),
        ("value.deserializer=string\n", True),
        ("group.id=g\nenable.auto.commit=false\n", False),
        ("group.id=g\nenable.auto.commit=true\n", False),
        ("client.id=c\nacks=all\n", False),
    ],
)
def test_a_file_that_leaves_commits_to_the_default_is_warned_of_once(
    content: str, is_warned: bool, tmp_path: Path, log: pytest.LogCaptureFixture
) -> None:
    path = file_of(tmp_path, f"bootstrap.servers=a:1\n{content}")
    assert MemberConfig.from_properties(path).enable_auto_commit is ("=true" in content)
    warnings = [record.getMessage() for record in log.records if record.levelname == "WARNING"]
    assert len(warnings) == is_warned
    for line in warnings:
        assert line.startswith(f"{str(path)!r} does not set enable.auto.commit: it is true for Java's consumer")
        assert "Set enable.auto.commit=true" in line


# --- all that is wrong, at once


@pytest.mark.parametrize("kind", [ProducerConfig, ReaderConfig, MemberConfig, SessionConfig])
def test_all_wrong_names_and_values_of_a_file_or_a_dict_are_one_error(kind: Any, tmp_path: Path) -> None:
    wrong = {"client.ids": "a", "requset.timeout.ms": 1, "retry.backoff.ms": "soon", "client.dns.lookup": "never"}
    path = file_of(
        tmp_path, "".join(f"{name}={value}\n" for name, value in {"bootstrap.servers": "a:1", **wrong}.items())
    )
    calls: list[Callable[[], object]] = [
        lambda: kind.from_properties(path),
        lambda: kind.from_dict({"bootstrap.servers": "a:1", **wrong}),
        lambda: kind.from_options(bootstrap_servers="a:1", **wrong),
        lambda: kind.from_options(bootstrap_servers="a:1").replace(**wrong),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=r"^4 settings can't be used:") as caught:
            call()
        for name in wrong:
            assert name in caught.value.message


@pytest.mark.parametrize("client", [Producer, Reader, Admin, partial(Member, topics="t", group_id="g")])
def test_names_of_a_dict_and_of_keywords_are_one_error(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"^2 settings can't be used:") as caught:
        client("h:1", config={"client.ids": 1}, requset_timeout_ms=1)
    assert "'client.ids'" in caught.value.message
    assert "'requset_timeout_ms'" in caught.value.message


@pytest.mark.parametrize("client", [Producer, Reader, Admin, partial(Member, topics="t", group_id="g")])
def test_wrong_values_are_one_error(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"^2 settings can't be used:") as caught:
        client("h:1", request_timeout_ms=-1, retry_backoff_ms="soon")
    assert "request.timeout.ms must be" in caught.value.message
    assert "retry.backoff.ms must be" in caught.value.message


# --- arguments and settings


def test_the_group_may_be_in_the_config() -> None:
    assert member(config={"group.id": "g"}).group_id == "g"
    assert member(config=MemberConfig.from_options(bootstrap_servers="a:1", group_id="g")).group_id == "g"
    assert member(group_id="g", config={"group_id": "g"}).config.group_id == "g"
    assert member(group_id="g").config.group_id == "g"


def test_two_groups_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^group_id is 'a', and group\.id in config is 'b'\."):
        member(group_id="a", config={"group.id": "b"})


def test_no_group_is_an_error_that_names_both_ways() -> None:
    with pytest.raises(ConfigError, match=r"^No group is given\.") as caught:
        member()
    assert caught.value.hint is not None
    assert "group_id=" in caught.value.hint
    assert '"group.id"' in caught.value.hint


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("smallest", "beginning", "Earliest"), "earliest"), (("largest", "end"), "latest"), (("error",), "none")],
)
def test_words_of_librdkafka_say_where_to_start(words: Sequence[str], meant: str) -> None:
    for word in words:
        assert member(group_id="g", config={"auto.offset.reset": word}).config.auto_offset_reset == meant


def test_arguments_win_over_the_config() -> None:
    config = {
        "auto.offset.reset": "none",
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "sticky",
        "value.deserializer": "string",
    }
    made = member(
        group_id="g",
        config=config,
        auto_offset_reset="earliest",
        isolation_level="read_uncommitted",
        assignors=["range"],
        value_deserializer="json",
    ).config
    assert (made.auto_offset_reset, made.isolation_level) == ("earliest", "read_uncommitted")
    assert (made.partition_assignment_strategy, made.value_deserializer) == (("range",), "json")
    made = member(group_id="g", config=config).config
    assert (made.auto_offset_reset, made.isolation_level) == ("none", "read_committed")
    assert (made.partition_assignment_strategy, made.value_deserializer) == (("sticky",), "string")


def test_isolation_is_another_name_of_isolation_level() -> None:
    assert Reader("h:1", isolation="read_committed").config.isolation_level == "read_committed"
    assert member(group_id="g", isolation="read_committed").config.isolation_level == "read_committed"
    assert MemberConfig.from_dict({"bootstrap.servers": "a:1", "isolation": "read_committed"}).isolation_level
    with pytest.raises(ConfigError, match=r"^isolation\.level is given twice"):
        Reader("h:1", isolation="read_committed", isolation_level="read_uncommitted")


@pytest.mark.parametrize(
    "given",
    [
        "range, sticky",
        ["range", "sticky"],
        "RangeAssignor,org.apache.kafka.clients.consumer.StickyAssignor",
        ("org.apache.kafka.clients.consumer.RangeAssignor", "aioprod.group.assignors:StickyAssignor"),
    ],
)
def test_assignors_have_the_names_of_java_and_ours(given: Any) -> None:
    made = member(config={"group.id": "g", "partition.assignment.strategy": given})
    assert [one.name for one in made._subscription.assignors] == ["range", "sticky"]


@pytest.mark.parametrize("name", ["assignors", "partition_assignment_strategy", "partition.assignment.strategy"])
def test_the_brokers_protocol_has_no_assignors(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^partition\.assignment\.strategy \(assignors\) can't be set with"):
        member(config={"group.id": "g", "group.protocol": "consumer", name: "range"})
    assert member(config={"group.id": "g", "group.protocol": "consumer"}).config.group_protocol == "consumer"
