"""Invalid input raises one clear error before anything is sent, and no accepted record is lost."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer, ProducerConfig, ProducerRecord
from aioprod.errors import (
    AioprodError,
    ConfigError,
    InvalidRecordError,
    InvalidTopicError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    UsageError,
)
from aioprod.testing import KafkaCluster
from integration.support.reading import stored

ROOT = Path(__file__).parent.parent
FORKING = ROOT / "integration/support/forking.py"

# --- settings


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        (None, r"bootstrap\.servers"),
        ("", "names no server"),
        ([], "names no server"),
        ([None], "must be strings"),
        ("localhost", "'localhost' .*has no port"),
        ("localhost:", "'localhost:' .*has no port"),
        (":9092", "':9092' .*names no host"),
        ("localhost:0", "has port '0'"),
        ("localhost:65536", "has port '65536'"),
        ("localhost:kafka", "has port 'kafka'"),
        ("localhost:9092;other:9092", "more than one colon|has characters|has port"),
        ("http://localhost:9092", "starts with http://"),
        ("::1:9092", r"in brackets: \[::1\]:9092"),
        ("[nonsense]:9092", "no IPv6 address"),
        ("ho st:9092", "has characters that no host name has"),
        ("one:9092,one:9092", "twice"),
    ],
)
def test_bootstrap_servers(servers: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Producer(servers)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"linger": 5}, "linger[._]ms"),
        ({"lingerms": 5}, "linger[._]ms"),
        ({"compression": "gzip"}, "compression[._]type"),
        ({"frobnicate": 1}, "frobnicate"),
        ({"linger_ms": -1}, r"linger\.ms"),
        ({"linger_ms": "soon"}, r"linger\.ms"),
        ({"linger_ms": None}, r"linger\.ms"),
        ({"acks": 2}, "acks"),
        ({"compression_type": "brotli"}, "brotli"),
        ({"compression_gzip_level": 10}, r"compression\.gzip\.level"),
        ({"acks": 1, "enable_idempotence": True}, r"enable\.idempotence=true contradicts acks=1"),
        ({"retries": 0, "enable_idempotence": True}, "contradicts retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, r"max\.in\.flight"),
        ({"delivery_timeout_ms": 1000, "request_timeout_ms": 30_000}, r"delivery\.timeout\.ms=1000 is less than"),
        ({"batch_size": 10_000, "buffer_memory": 1000}, r"batch\.size=10000 is larger than buffer\.memory=1000"),
        ({"ssl_truststore_location": "ca.pem"}, r"security\.protocol=PLAINTEXT does not encrypt"),
        ({"security_protocol": "SASL_PLAINTEXT"}, r"needs sasl\.mechanism"),
        ({"partitioner": "murmur9"}, "murmur"),
        ({"partitioner": object()}, "partition"),
        ({"key_serializer": "no.such.module:Class"}, r"no\.such"),
        ({"value_serializer": "org.apache.kafka.common.serialization.NoSerializer"}, "NoSerializer"),
        ({"interceptors": [object()]}, "interceptor"),
    ],
)
def test_unknown_or_contradictory_settings(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Producer("localhost:9092", **options)


def test_java_names_get_the_nearest_known_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        ProducerConfig.from_dict({"bootstrap.servers": "localhost:9092", "linger.mss": 5})
    path = tmp_path / "producer.properties"
    path.write_text("bootstrap.servers=localhost:9092\nbuffer.memroy=1000\n")
    with pytest.raises(ConfigError, match=r"buffer\.memory"):
        ProducerConfig.from_properties(path)


# --- records

NAIVE = datetime.datetime(2024, 1, 1)
BAD_RECORDS: list[tuple[dict[str, Any], type[AioprodError], str]] = [
    ({"value": "text"}, SerializationError, "The value .* is of type str"),
    ({"value": 5}, SerializationError, "The value .* is of type int"),
    ({"key": "text"}, SerializationError, "The key .* is of type str"),
    ({"value": b"x" * 1_048_577}, RecordTooLargeError, r"max\.request\.size=1048576"),
    ({"key": b"x" * 1_048_577}, RecordTooLargeError, r"max\.request\.size"),
    ({"headers": [("h", b"x" * 1_048_577)]}, RecordTooLargeError, r"max\.request\.size"),
    ({"partition": -1}, InvalidRecordError, "-1 is not a partition"),
    ({"partition": 1}, InvalidRecordError, r"no partition 1: it has 1"),
    ({"partition": "0"}, InvalidRecordError, "'0' is not a partition"),
    ({"partition": True}, InvalidRecordError, "True is not a partition"),
    ({"timestamp": -1}, InvalidRecordError, "timestamp -1"),
    ({"timestamp": 2**63}, InvalidRecordError, "timestamp 9223372036854775808"),
    ({"timestamp": 1.5}, InvalidRecordError, "timestamp .* of type float"),
    ({"timestamp": NAIVE}, InvalidRecordError, "has no time zone"),
    ({"headers": [(b"name", b"value")]}, SerializationError, "name of header 0 is of type bytes"),
    ({"headers": [("ok", None), (7, b"value")]}, SerializationError, "name of header 1 is of type int"),
    ({"headers": [("name", "value")]}, SerializationError, "value of header 'name' is of type str"),
    ({"headers": [("\udc00", b"")]}, SerializationError, "no UTF-8 form"),
    ({"headers": ["name"]}, SerializationError, "Header 0"),
    ({"headers": {"name": b"value"}}, AioprodError, "[Hh]eader"),
    ({"headers": 5}, AioprodError, "[Hh]eader"),
]
BAD_TOPICS: list[tuple[Any, type[AioprodError], str]] = [
    ("", InvalidTopicError, "name"),
    (".", InvalidTopicError, "name"),
    ("..", InvalidTopicError, "name"),
    ("two words", InvalidTopicError, "two words"),
    ("Größe", InvalidTopicError, "Größe"),
    ("x" * 250, InvalidTopicError, "249"),
    (None, AioprodError, "NoneType"),
    (b"bytes", AioprodError, "bytes"),
    (["list"], AioprodError, "list"),
]


@pytest.mark.parametrize("way", ["send", "submit", "send_nowait", "ProducerRecord"])
async def test_records(kafka_cluster: KafkaCluster, kafka_topic: str, way: str) -> None:
    cases = [((kafka_topic, {"value": None} | options), kind, told) for options, kind, told in BAD_RECORDS]
    cases += [((topic, {"value": None}), kind, told) for topic, kind, told in BAD_TOPICS]
    good: list[asyncio.Future[Any]] = []
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        await producer.partitions_for(kafka_topic)
        for (topic, fields), kind, told in cases:
            good.append(producer.submit(kafka_topic, b"%d" % len(good)))
            with pytest.raises(kind, match=told) as failure:
                await give(producer, way, topic, fields)
            assert is_one_sentence(failure.value)
        good.append(producer.submit(kafka_topic, b"%d" % len(good)))
        await producer.flush()
        report = await producer.close()
    assert [future.result().offset for future in good] == list(range(len(cases) + 1))
    assert (report.delivered, report.not_sent, report.rejected) == (len(good), 0, 0)
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == [
        b"%d" % number for number in range(len(good))
    ]


async def give(producer: Producer, way: str, topic: Any, fields: dict[str, Any]) -> None:
    """Bring a record in, one of the ways."""
    if way == "send":
        await producer.send(topic, **fields)
    elif way == "submit":
        producer.submit(topic, **fields)
    elif way == "send_nowait":
        producer.send_nowait(topic, **fields)
    else:
        producer.send_nowait(ProducerRecord(topic, **fields))


def is_one_sentence(error: AioprodError) -> bool:
    return error.message[0] == error.message[0].upper() and error.message.endswith(".") and "\n" not in error.message


async def test_records_of_send_many(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    of_call = [fields for fields, _, _ in BAD_RECORDS if "partition" in fields]
    of_record = [(fields, kind, told) for fields, kind, told in BAD_RECORDS if "partition" not in fields]
    sent = 0
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        for topic, kind, _ in BAD_TOPICS:
            with pytest.raises(kind):
                await producer.send_many(topic, [b"lost"])
        for fields in of_call:
            with pytest.raises(InvalidRecordError, match=r"no partition|not a partition"):
                await producer.send_many(kafka_topic, [b"lost"], **fields)
        for values in (None, 5, b"bytes", "text"):
            with pytest.raises(InvalidRecordError, match="give an iterable"):
                await producer.send_many(kafka_topic, values)  # type: ignore[arg-type]
        for fields, kind, told in of_record:
            if "headers" in fields and not isinstance(fields["headers"], list):
                continue
            result = await producer.send_many(
                kafka_topic,
                [b"%d" % sent, fields.get("value"), b"%d" % (sent + 1)],
                keys=[None, fields.get("key"), None],
                headers=[None, fields.get("headers"), None],
                timestamps=[None, fields.get("timestamp"), None],
            )
            sent += 2
            [(index, error)] = result.failures
            assert (index, result.count) == (1, 3)
            assert isinstance(error, kind)
            assert re.search(told, str(error))
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == [
        b"%d" % number for number in range(sent)
    ]


# --- from elsewhere


def run_in_thread(call: Coroutine[Any, Any, Any]) -> BaseException | None:
    """What a coroutine raises in another loop, in another thread."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(call)
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught[0] if caught else None


async def test_another_loop_and_another_thread(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        before = producer.submit(kafka_topic, b"before")

        async def submit() -> None:
            producer.submit(kafka_topic, b"lost")

        async def send_nowait() -> None:
            producer.send_nowait(kafka_topic, b"lost")

        for call in (
            producer.send(kafka_topic, b"lost"),
            producer.send_many(kafka_topic, [b"lost"]),
            submit(),
            send_nowait(),
            producer.flush(),
            producer.drain(),
            producer.partitions_for(kafka_topic),
            producer.start(),
            producer.close(),
        ):
            error = run_in_thread(call)
            assert isinstance(error, UsageError), call
        with pytest.raises(UsageError, match="no event loop runs here"):
            await asyncio.to_thread(producer.submit, kafka_topic, b"lost")
        loop = asyncio.get_running_loop()
        bridged = await asyncio.to_thread(
            lambda: asyncio.run_coroutine_threadsafe(producer.send(kafka_topic, b"bridged"), loop).result()
        )
        assert ((await before).offset, bridged.offset) == (0, 1)
        assert (await producer.close()).delivered == 2
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == [b"before", b"bridged"]


def run_forking(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program that forks; newer Pythons warn of forking beside threads, which is what it is for."""
    return subprocess.run(
        [sys.executable, "-Wignore::DeprecationWarning", FORKING, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


async def test_a_forked_process(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    ran = await asyncio.to_thread(run_forking, kafka_cluster.bootstrap_servers, kafka_topic)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert len(told["errors"]) == 7
    for call, error in told["errors"].items():
        assert error.startswith("UsageError: "), call
        assert "forked" in error, call
    assert (told["status"], told["held"], told["delivered"]) == (0, True, 3)
    values = [record.value for record in await stored(kafka_cluster, kafka_topic)]
    assert sorted(values, key=str) == [b"after", b"before", b"child", b"held"]
    assert ran.stderr == ""


async def test_before_start_and_after_close(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers)
    for expected in (UsageError, ProducerClosedError):
        for call in (
            lambda: producer.send(kafka_topic, b"lost"),
            lambda: producer.send_many(kafka_topic, [b"lost"]),
            producer.flush,
            producer.drain,
            lambda: producer.partitions_for(kafka_topic),
        ):
            with pytest.raises(expected):
                await call()
        with pytest.raises(expected):
            producer.submit(kafka_topic, b"lost")
        with pytest.raises(expected):
            producer.send_nowait(kafka_topic, b"lost")
        assert producer.buffered == (0, 0)
        assert producer.metrics()["record_send_total"] == (0 if expected is UsageError else 1)
        if expected is UsageError:
            await producer.start()
            producer.send_nowait(kafka_topic, b"kept")
            assert (await producer.close()).delivered == 1
    with pytest.raises(UsageError, match="started before"):
        await producer.start()
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == [b"kept"]
