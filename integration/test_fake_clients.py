"""Clients of others at `aioprod fake`: confluent-kafka, aiokafka and Java's produce, consume and join groups."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from aioprod.testing.kafka.jars import compile_java, java, kafka_libs
from tests.support.programs import program

CLIENTS: Final = Path(__file__).parent / "java" / "Clients.java"
RECORDS: Final = 1000
LIMIT_S: Final = 60.0


@pytest.fixture(params=[1, 3])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """The addresses of the program's brokers; no request may be one that they can't handle."""
    arguments = ["--port", "0", "--brokers", str(request.param), "--topic", "orders:6", "--json"]
    with program("fake", *arguments) as running:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["bootstrap_servers"]
        running.terminate()
        _, said = running.communicate(timeout=50)
    assert said == b"aioprod fake: interrupted\n"


def test_confluent_kafka(servers: str) -> None:
    client: dict[str, Any] = {"bootstrap.servers": servers, "log_level": 0}
    failures: list[object] = []
    producer = confluent_kafka.Producer({**client, "enable.idempotence": True, "compression.type": "lz4"})
    for number in range(RECORDS):
        producer.produce(
            "orders", b"%d" % number, key=b"%d" % (number % 7), on_delivery=lambda error, _: failures.append(error)
        )
    assert producer.flush(LIMIT_S) == 0
    assert failures == [None] * RECORDS
    transactional = confluent_kafka.Producer({**client, "transactional.id": "till"})
    transactional.init_transactions(LIMIT_S)
    for value, end in ((b"committed", transactional.commit_transaction), (b"aborted", transactional.abort_transaction)):
        transactional.begin_transaction()
        transactional.produce("orders", value)
        transactional.flush(LIMIT_S)
        end(LIMIT_S)
    expected = {b"%d" % number for number in range(RECORDS)} | {b"committed"}
    for protocol in ("classic", "consumer"):
        assert read_as_group(client, protocol, len(expected)) == expected
    admin = AdminClient(client)
    admin.create_topics([NewTopic("meals", 3, 1)])["meals"].result(LIMIT_S)
    assert set(admin.list_topics(timeout=LIMIT_S).topics) == {"meals", "orders"}
    groups = admin.list_consumer_groups().result(LIMIT_S).valid
    assert {group.group_id for group in groups} == {"classic", "consumer"}


def read_as_group(client: dict[str, Any], protocol: str, count: int) -> set[bytes | None]:
    """The values of the first records, read as a group by this protocol, with their offsets committed."""
    consumer = confluent_kafka.Consumer(
        {**client, "group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    values: list[bytes | None] = []
    end = time.monotonic() + LIMIT_S
    while len(values) < count and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            values.append(message.value())
    committed = consumer.commit(asynchronous=False)
    assert committed is not None
    assert sum(max(0, one.offset) for one in committed) >= count
    consumer.close()
    assert len(values) == count
    return set(values)


async def test_aiokafka(servers: str) -> None:
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True) as producer:
        for number in range(100):
            await producer.send_and_wait("orders", b"%d" % number, key=b"%d" % number)
    consumer = aiokafka.AIOKafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="kitchen", auto_offset_reset="earliest"
    )
    async with consumer, asyncio.timeout(LIMIT_S):
        values = {(await consumer.getone()).value for _ in range(100)}
        await consumer.commit()
    assert values == {b"%d" % number for number in range(100)}


def test_java(servers: str) -> None:
    libs = kafka_libs()
    classes = compile_java([CLIENTS], libs)
    command = [str(java()), "-Xshare:auto", "-cp", f"{classes}:{libs}/*", "Clients", servers, "till"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "created 3",
        "acknowledged 1000",
        "committed 1",
        "read classic 1001 false true",
        "read consumer 1001 false true",
        "groups till-classic till-consumer",
    ]
