"""Sessions that end after three seconds, under load: connections re-authenticate, and no send fails."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from aioprod import Producer
from aioprod.errors import NotSentError
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.security import MECHANISMS, unsecured_token
from integration.security.secured import Secured
from integration.support.brokers import NEWEST, TRANSACTION_VERSION_1
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from tests.support.length import PAUSE_S

LOAD_S: Final = 7
MINUTES_S: Final = 180
PARTITIONS: Final = 6
WRONG_S: Final = 300


@pytest.mark.timeout(120)
async def test_sessions_end_under_load(secured: Secured, make_topic: MakeTopic, figures: Figures) -> None:
    topic = await make_topic(secured.cluster, len(MECHANISMS))
    ends = time.monotonic() + LOAD_S
    longest_s = dict.fromkeys(MECHANISMS, 0.0)
    connections: dict[str, float] = {}

    async def load(partition: int, mechanism: str) -> int:
        sent = 0
        async with Producer(secured.servers, **secured.options("alice", mechanism)) as producer:
            while time.monotonic() < ends:
                began = time.perf_counter()
                await producer.send(topic, b"%d" % sent, partition=partition)
                longest_s[mechanism] = max(longest_s[mechanism], time.perf_counter() - began)
                sent += 1
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(4.0)
            await producer.send(topic, b"%d" % sent, partition=partition)
            metrics = producer.metrics()
        # On a busy machine a session may end before its renewal has its turn: that costs a connection, and no record.
        connections[mechanism] = metrics["connection_creation_total"]
        return sent + 1

    sent = await asyncio.gather(*(load(partition, mechanism) for partition, mechanism in enumerate(MECHANISMS)))
    found = await secured.stored(topic)
    for partition, count in enumerate(sent):
        assert [record.value for record in found if record.partition == partition] == [b"%d" % n for n in range(count)]
    figures.add(f"records by {len(MECHANISMS)} mechanisms whose sessions end after 3 s, {LOAD_S} s of load", sum(sent))
    for mechanism, seconds in longest_s.items():
        figures.add(f"ms for the slowest of them, {mechanism}", f"{seconds * 1000:.0f}")
        figures.add(f"connections made for that, {mechanism}", int(connections[mechanism]))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", [NEWEST, TRANSACTION_VERSION_1])
async def test_minutes_of_sessions_on_three_brokers(version: str, figures: Figures) -> None:
    """Sessions of five seconds, tokens of ten; each mechanism has a producer, and each producer all brokers."""
    security = Security(session_ms=5000)
    longest_s = dict.fromkeys(MECHANISMS, 0.0)
    sent: dict[tuple[str, int], int] = {}
    metrics: dict[str, dict[str, float]] = {}
    cluster = await KafkaCluster.start(3, version, "local", security=security)
    async with cluster:
        for mechanism in MECHANISMS:
            await cluster.create_topic(mechanism, PARTITIONS)
        ends = time.monotonic() + MINUTES_S

        async def send(producer: Producer, mechanism: str, partition: int) -> None:
            number = 0
            while time.monotonic() < ends:
                began = time.perf_counter()
                await producer.send(mechanism, b"%d" % number, partition=partition)
                longest_s[mechanism] = max(longest_s[mechanism], time.perf_counter() - began)
                number += 1
            sent[mechanism, partition] = number

        async def load(mechanism: str) -> None:
            options = security.client_options("alice", mechanism)
            if mechanism == "OAUTHBEARER":
                options["sasl_token_provider"] = partial(unsecured_token, "alice", 10.0)
            async with Producer(cluster.bootstrap_servers, linger_ms=0, **options) as producer:
                await asyncio.gather(*(send(producer, mechanism, partition) for partition in range(PARTITIONS)))
                metrics[mechanism] = producer.metrics()

        await asyncio.gather(*(load(mechanism) for mechanism in MECHANISMS))
        secured = Secured(cluster, security)
        for mechanism in MECHANISMS:
            found = await secured.stored(mechanism)
            for partition in range(PARTITIONS):
                values = [int(record.value or b"-1") for record in found if record.partition == partition]
                assert values == list(range(sent[mechanism, partition]))
    where = f"{MINUTES_S} s on three brokers of {version}"
    for mechanism, seconds in longest_s.items():
        known = metrics[mechanism]
        assert known["record_error_total"] == 0
        assert known["successful_reauthentication_total"] > 0
        figures.add(f"records by {mechanism}, {where}", sum(sent[mechanism, p] for p in range(PARTITIONS)))
        figures.add(f"log-ins that were renewed for {mechanism}", int(known["successful_reauthentication_total"]))
        figures.add(f"renewals that were refused for {mechanism}", int(known["failed_reauthentication_total"]))
        figures.add(f"connections made for {mechanism}", int(known["connection_creation_total"]))
        figures.add(f"ms for the slowest send by {mechanism}", f"{seconds * 1000:.0f}")


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_a_password_that_is_wrong_for_minutes_makes_no_storm_of_log_ins(
    secured: Secured, make_topic: MakeTopic, tmp_path: Path, figures: Figures
) -> None:
    """Sessions end after three seconds; then the broker is asked once in `reconnect.backoff.max.ms`, one second."""
    topic = await make_topic(secured.cluster)
    password = tmp_path / "password"
    options = secured.options("alice", "SCRAM-SHA-512")
    right = options["sasl_password"]
    password.write_text(right)
    options |= {"sasl_password": f"file:{password}", "delivery_timeout_ms": 5000, "request_timeout_ms": 2000}
    causes: Counter[str] = Counter()
    async with Producer(secured.servers, linger_ms=0, **options) as producer:
        await producer.send(topic, b"before")
        password.write_text("wrong-one")
        before = producer.metrics()
        began = time.monotonic()
        while time.monotonic() < began + WRONG_S:
            result = await producer.send_many(topic, [b"x"] * 10)
            causes.update(type(error.__cause__).__name__ for _, error in result.failures)
        took_s = time.monotonic() - began
        after = producer.metrics()
        password.write_text(right)
        while True:
            try:
                await producer.send(topic, b"after")
                break
            except NotSentError:
                continue
    refused = after["failed_authentication_total"] - before["failed_authentication_total"]
    assert causes["AuthenticationError"] > 0
    # Once in a second, and a few times for what was under way when the session ended.
    assert 0 < refused <= took_s + 5
    figures.add(f"refused log-ins a second, wrong password for {WRONG_S} s", f"{refused / took_s:.2f}")
    figures.add("what records failed with meanwhile", dict(causes))
