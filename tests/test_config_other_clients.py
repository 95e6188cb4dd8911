"""Settings as librdkafka, aiokafka and kafka-python name them, and as a dict, as confluent-kafka takes them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from aioprod import Producer, ProducerConfig
from aioprod.admin import Admin
from aioprod.config import SessionConfig, settings_of
from aioprod.config._other_clients import OTHER_NAMES
from aioprod.config._page import reference_page
from aioprod.errors import ConfigError
from aioprod.group import Member, MemberConfig
from aioprod.reader import Reader, ReaderConfig, read
from aioprod.transactions import TransactionSessionConfig

CLASSES = {"any client": SessionConfig, "producer": ProducerConfig, "reader": ReaderConfig, "member": MemberConfig}

member = partial(Member, group_id="g", topics="t")
one_read = partial(read, "t")


def hint(client: Any, **options: Any) -> str | None:
    with pytest.raises(ConfigError) as caught:
        client("localhost:9092", **options)
    assert caught.value.message == f"{next(iter(options))!r} is not a setting."
    return caught.value.hint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("message.timeout.ms", "Here it is 'delivery.timeout.ms'."),
        ("message_timeout_ms", "Here it is 'delivery_timeout_ms'."),
        ("request.required.acks", "Here it is 'acks'."),
        ("metadata.broker.list", "Here it is 'bootstrap.servers'."),
        ("queue.buffering.max.ms", "Here it is 'linger.ms'."),
        ("message.max.bytes", "Here it is 'max.request.size'."),
        ("message.send.max.retries", "Here it is 'retries'."),
        ("max.in.flight", "Here it is 'max.in.flight.requests.per.connection'."),
        ("max_batch_size", "Here it is 'batch_size'."),
        ("queue.buffering.max.kbytes", "Set buffer.memory, which is in bytes."),
        ("queue.buffering.max.messages", "Records have no limit but that of their bytes: buffer.memory."),
        ("batch.num.messages", "A batch has no limit of records but that of their bytes: batch.size."),
        ("group.id", "A producer belongs to no group: aioprod.Member(..., group_id=...) reads in one."),
        ("loop", "Leave it out: a client belongs to the event loop in which it is started."),
        ("api_version", "Leave it out: versions are negotiated with each broker."),
        ("api.version.request", "Leave it out: versions are negotiated with each broker."),
    ],
)
def test_a_producer_says_what_to_set_in_place_of_another_clients_name(name: str, said: str) -> None:
    assert hint(Producer, **{name: 1}) == said


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("compression.level", "compression.zstd.level"),
        ("error_cb", "on_error=f"),
        ("stats_cb", "metrics()"),
        ("statistics.interval.ms", "metric.reporters"),
        ("on_delivery", "send_nowait()"),
        ("isolation.level", "It is a setting of consumers"),
        ("session.timeout.ms", "It is a setting of consumers"),  # and not "Did you mean 'close.timeout.ms'?"
    ],
)
def test_a_producer_says_which_call_does_it(name: str, part: str) -> None:
    assert part in (hint(Producer, **{name: 1}) or "")


@pytest.mark.parametrize(
    ("client", "name", "part"),
    [
        (member, "enable_auto_offset_store", "`await member.commit(record)`"),
        (member, "auto_commit_enable", "Here it is 'enable_auto_commit'."),
        (member, "max_poll_records", "records are given one by one"),
        (member, "max_poll_records", "`member.batches(max_records)`"),
        (member, "on_assign", "Give on_assigned=, on_revoked= and on_lost="),
        (member, "listener", "Give on_assigned=, on_revoked= and on_lost="),
        (Producer, "enable.ssl.certificate.verification", "certificates are always verified"),
        (Producer, "broker.address.family", "of IPv6 and of IPv4"),
        (Producer, "throttle_cb", "as long as a broker throttles it"),
        (Producer, "default.topic.config", "Give these settings to the client itself."),
        (member, "rebalance_timeout_ms", "Here it is 'max_poll_interval_ms'."),
        (
            member,
            "linger_ms",
            "It is a setting of producers; `python -m aioprod.config --of aioprod.group:MemberConfig`",
        ),
        (Reader, "group_id", "A reader belongs to no group"),
        (Reader, "auto_offset_reset", "Give start= to read()"),
        (Reader, "fetch_wait_max_ms", "Here it is 'fetch_max_wait_ms'."),
        (Admin, "api_version_auto_timeout_ms", "versions are negotiated with each broker"),
        (Admin, "acks", "It is a setting of producers; `python -m aioprod.config --of aioprod.config:SessionConfig`"),
        (Admin, "error_cb", "calls raise what makes them fail"),
    ],
)
def test_each_client_has_advice_of_its_own(client: Any, name: str, part: str) -> None:
    assert part in (hint(client, **{name: 1}) or "")


@pytest.mark.parametrize(
    ("role", "name", "here"), [(role, *row) for role, names in OTHER_NAMES.items() for row in names.items()]
)
def test_no_such_name_is_a_setting_and_those_it_stands_for_are(role: str, name: str, here: str) -> None:
    known: Mapping[str, object] = settings_of(CLASSES[role])
    assert name.replace(".", "_") not in known
    assert " " in here or here.replace(".", "_") in known


def test_the_page_shows_those_of_the_producer() -> None:
    assert "\n| `message.timeout.ms` | `delivery.timeout.ms` |\n" in reference_page()


@pytest.mark.parametrize("cls", [*CLASSES.values(), TransactionSessionConfig])
def test_the_page_that_is_named_for_an_unknown_setting_shows_those_of_the_class(cls: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        cls.from_options(xyzzy=1)
    command = (caught.value.hint or "").split("`")[1].split()
    page = subprocess.run([sys.executable, *command[1:]], capture_output=True, check=True, text=True).stdout
    assert page.startswith(f"# {cls.__name__}\n")
    for name in settings_of(cls):
        assert page.count(f"\n| `{name.replace('_', '.')}` |") == 1, name
    assert ("polled past, and `await member.commit(record)`" in page) is (cls is MemberConfig)


@pytest.mark.parametrize("name", ["aioprod.group:Nothing", "aioprod.group:Member", "no.such:Thing", "nothing"])
def test_a_class_that_there_is_not_is_said(name: str) -> None:
    run = subprocess.run([sys.executable, "-m", "aioprod.config", "--of", name], capture_output=True, check=False)
    assert run.returncode == 1
    assert repr(name) in run.stderr.decode()


@pytest.mark.parametrize("client", [Producer, Reader, Admin, member])
def test_settings_may_come_as_a_dict_and_keywords_win(client: Any) -> None:
    given = {"bootstrap.servers": "a:1", "client.id": "shop", "request.timeout.ms": 7}
    config = client("b:2", config=given, request_timeout_ms=8).config
    assert (config.bootstrap_servers, config.client_id, config.request_timeout_ms) == (("b:2",), "shop", 8)
    assert client(config=given).config.bootstrap_servers == ("a:1",)


async def test_reading_takes_settings_as_a_dict() -> None:
    records = one_read(config={"bootstrap.servers": "a:1"})
    assert inspect.isasyncgen(records)
    await records.aclose()


@pytest.mark.parametrize("client", [Producer, Reader, Admin, member, one_read])
def test_a_dict_of_settings_is_as_strict_as_keywords(client: Any) -> None:
    with pytest.raises(ConfigError, match=r"^'linger\.sm' is not a setting\."):
        client(config={"bootstrap.servers": "a:1", "linger.sm": 5})
    with pytest.raises(ConfigError, match=r"^client\.id is given twice"):
        client(config={"bootstrap.servers": "a:1", "client.id": "a", "client_id": "a"})


@pytest.mark.parametrize("client", [Producer, Reader, Admin, member])
@pytest.mark.parametrize("settings", [{"bootstrap.servers": "a:1"}, ProducerConfig(bootstrap_servers=("a:1",))])
def test_settings_in_the_place_of_servers_are_told_where_to_go(client: Any, settings: Any) -> None:
    with pytest.raises(ConfigError, match=r"settings are not servers\. Hint: Give it as config="):
        client(settings)
