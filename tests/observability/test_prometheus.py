"""What Prometheus scrapes is what the clients have counted."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from aioprod import Member, Producer
from aioprod.errors import DeliveryError, ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.metrics import Family, ProducerMetrics
from aioprod.observability import reading
from aioprod.observability.prometheus import Collector
from aioprod.outbox import Outbox, SqliteTable
from aioprod.relay import Relay
from aioprod.spool import SpooledProducer
from aioprod.testing import FakeCluster
from tests.support.snippets import ROOT
from tests.support.sources import ListSource

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]

TABLE = {
    name: (kind, set(re.findall(r"`(\w+)`", labels)))
    for name, kind, labels in re.findall(
        r"^\| `aioprod_(\w+)` \| (\w+) \| \w* \| ([^|]*) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE
    )
}
"""The table of docs/metrics.md: name -> kind and labels."""


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


async def test_a_scrape_over_http_has_the_names_and_kinds_of_the_table(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    async with (
        FakeCluster() as brokers,
        Producer(brokers.bootstrap, client_id="shop") as producer,
        Member(
            brokers.bootstrap, group_id="g", topics=["orders"], client_id="worker", auto_offset_reset="earliest"
        ) as member,
    ):
        relay = Relay(ListSource(), brokers.bootstrap, transactional_id="relay", client_id="bridge")
        spooled = SpooledProducer(brokers.bootstrap, folder=tmp_path, client_id="kept")
        table = SqliteTable(tmp_path / "shop.db", Outbox())
        outbox = Relay(table, brokers.bootstrap, transactional_id="outbox", client_id="outbox")
        registry.register(Collector(producer, member, relay, spooled, outbox))
        server, thread = start_http_server(0, "127.0.0.1", registry)
        try:
            for number in range(20):
                await producer.send("orders", b"x" * 100, key=b"%d" % number)
            async with asyncio.timeout(30):
                await anext(member)
            url = f"http://127.0.0.1:{server.server_port}/metrics"
            text = await asyncio.to_thread(lambda: urlopen(url).read().decode())
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        found = samples(text)
        snapshot = producer.metrics()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families.pop("aioprod_clients").type == "gauge"
    scraped = {
        name.removeprefix("aioprod_") + ("_total" if family.type == "counter" else ""): (
            family.type,
            {label for sample in family.samples for label in sample.labels} - {"le"},
        )
        for name, family in families.items()
    }
    assert {name: kind for name, (kind, _) in scraped.items()} == {name: kind for name, (kind, _) in TABLE.items()}
    for name, (_, labels) in scraped.items():
        # A family without a value, such as the end of credentials that there are none of, has no labels to see.
        assert labels in (set(), TABLE[name][1]), name
    assert value(found, "aioprod_record_send_total", client_id="shop") == 20
    assert value(found, "aioprod_topic_record_send_total", client_id="shop", topic="orders") == 20
    assert value(found, "aioprod_bytes_total", client_id="shop") == snapshot["byte_total"] > 2000
    assert value(found, "aioprod_request_latency_seconds_count", client_id="shop") == 20
    assert value(found, "aioprod_record_delivery_time_seconds_count", client_id="shop") == 20
    assert value(found, "aioprod_batch_size_bytes_bucket", client_id="shop", le="256") == 20
    assert value(found, "aioprod_batch_size_bytes_bucket", client_id="shop", le="+Inf") == 20
    assert value(found, "aioprod_record_size_avg_bytes", client_id="shop") > 100
    assert value(found, "aioprod_records_consumed_total", client_id="worker") >= 1
    assert value(found, "aioprod_relay_records_total", client_id="bridge") == 0
    by_node = [
        amount
        for (name, labels), amount in found.items()
        if name == "aioprod_node_request_latency_seconds_count" and dict(labels)["client_id"] == "shop"
    ]
    assert sum(by_node) == 20
    sent = sum(amount for (name, _), amount in found.items() if name == "aioprod_node_outgoing_bytes_total")
    assert sent > snapshot["byte_total"]


async def test_topics_beyond_the_limit_share_a_label() -> None:
    registry = CollectorRegistry()
    async with FakeCluster() as brokers, Producer(brokers.bootstrap, metrics_topics_max=2) as producer:
        registry.register(Collector(producer))
        for topic in ("a", "b", "c", "d", "a"):
            await producer.send(topic, b"x")
        found = samples(generate_latest(registry).decode())
    counted = {
        dict(labels)["topic"]: amount
        for (name, labels), amount in found.items()
        if name == "aioprod_topic_record_send_total"
    }
    assert counted == {"a": 2, "b": 1, "(other)": 2}


async def test_failures_and_retries_count_for_their_topic() -> None:
    async with FakeCluster() as brokers, Producer(brokers.bootstrap, retry_backoff_ms=1) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await producer.send("bumpy", b"x")
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        with pytest.raises(DeliveryError):
            await producer.send("strict", b"x")
        families = {family.name: family for family in producer.metric_families()}

    def by_topic(name: str) -> dict[str, object]:
        return {point.labels["topic"]: point.value for point in families[name].points}

    assert by_topic("topic_record_retry_total") == {"bumpy": 1, "strict": 0}
    assert by_topic("topic_record_error_total") == {"bumpy": 0, "strict": 1}


def test_clients_of_one_name_are_told_apart_and_end_with_their_clients() -> None:
    one, two = Producer("localhost:1", client_id="shop"), Producer("localhost:1", client_id="shop")
    collector = Collector(one)
    assert collector.add(two) == "shop-2"
    assert collector.add(two) == "shop-2"
    assert collector.add(Producer("localhost:1"), client_id="other") == "other"
    registry = CollectorRegistry()
    registry.register(collector)
    del two
    gc.collect()
    found = samples(generate_latest(registry).decode())
    assert {dict(labels).get("client_id") for _, labels in found} == {None, "shop"}
    assert value(found, "aioprod_clients") == 1


def test_a_registry_takes_one_collector() -> None:
    registry = CollectorRegistry()
    registry.register(Collector())
    with pytest.raises(ValueError, match="aioprod_clients"):
        registry.register(Collector())


class Blocked:
    """A client whose loop, in another thread, does not come to read its metrics."""

    client_id = "blocked"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.event_loop = loop

    def metric_families(self) -> list[Family]:
        raise AssertionError("its loop is blocked")


def test_a_blocked_loop_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_S", 0.01)
    loop = asyncio.new_event_loop()
    go_on, is_blocked = threading.Event(), threading.Event()

    def block() -> None:
        is_blocked.set()
        go_on.wait()

    loop.call_soon(block)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        is_blocked.wait()
        client = Blocked(loop)
        with caplog.at_level(logging.WARNING, "aioprod"):
            collected = list(Collector(client).collect())
        assert [family.name for family in collected] == ["aioprod_clients"]
        assert "The metrics of client 'blocked' were not collected" in caplog.text
    finally:
        go_on.set()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def test_an_error_while_reading_reaches_the_scrape() -> None:
    class Broken(Blocked):
        def metric_families(self) -> list[Family]:
            raise ZeroDivisionError

    client = Broken(asyncio.get_running_loop())
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(list, Collector(client).collect())


def test_a_closed_loop_is_no_obstacle() -> None:
    loop = asyncio.new_event_loop()
    loop.close()

    class Ended(Blocked):
        def metric_families(self) -> list[Family]:
            return ProducerMetrics().families()

    ended = Ended(loop)
    assert len(list(Collector(ended).collect())) == len(ProducerMetrics().families()) + 1
