"""The producer's settings with one real broker: serializers, interceptors, partitioners, acks, codecs."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from aioprod import Producer, ProducerConfig, ProducerRecord, RecordMetadata
from aioprod.cluster import Cluster
from aioprod.errors import AioprodError, NotSentError, SerializationError, UsageError
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.reading import stored

# --- serializers

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


async def double_later(value: int) -> bytes:
    await asyncio.sleep(0.001)
    return b"%d" % (2 * value)


def with_header(topic: str, headers: list[tuple[str, bytes | None]], value: str) -> bytes:
    headers.append(("type", topic[:4].encode()))
    return value.encode()


SERIALIZERS: list[tuple[Any, Any, bytes]] = [
    ("str", "Grüße", "Grüße".encode()),
    ("org.apache.kafka.common.serialization.LongSerializer", 258, b"\0\0\0\0\0\0\1\2"),
    ("json", {"a": [1, None]}, json.dumps({"a": [1, None]}, separators=(",", ":")).encode()),
    ("uuid", UUID, b"12345678-1234-5678-1234-567812345678"),
    (str.encode, "called", b"called"),
    (double_later, 21, b"42"),
]


@pytest.mark.parametrize(("serializer", "given", "expected"), SERIALIZERS)
async def test_serializers(
    kafka_cluster: KafkaCluster, kafka_topic: str, serializer: Any, given: Any, expected: bytes
) -> None:
    servers = kafka_cluster.bootstrap_servers
    async with Producer(servers, key_serializer=serializer, value_serializer=serializer) as producer:
        metadata = await producer.send(kafka_topic, given, key=given)
        await producer.send(kafka_topic, None, key=None)
        result = await producer.send_many(kafka_topic, [given] * 3)
        if serializer is double_later:
            with pytest.raises(UsageError, match="awaited"):
                producer.submit(kafka_topic, given)
        else:
            producer.send_nowait(kafka_topic, given)
    assert result.failures == ()
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (len(expected), len(expected))
    pairs = [(record.key, record.value) for record in await stored(kafka_cluster, kafka_topic)]
    assert pairs[:5] == [(expected, expected), (None, None), *[(None, expected)] * 3]
    assert len(pairs) == (5 if serializer is double_later else 6)


async def test_a_serializer_may_add_headers_and_may_fail(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers, value_serializer=with_header) as producer:
        await producer.send(kafka_topic, "value", headers=[("own", b"1")])
        with pytest.raises(SerializationError, match="value"):
            await producer.send(kafka_topic, b"bytes have no encode")
        await producer.send(kafka_topic, "value", headers=[("own", b"2")])
    headers = [record.headers for record in await stored(kafka_cluster, kafka_topic)]
    assert headers == [(("own", b"1"), ("type", b"test")), (("own", b"2"), ("type", b"test"))]


async def test_a_properties_file_of_a_java_producer(
    kafka_cluster: KafkaCluster, kafka_topic: str, tmp_path: Path
) -> None:
    path = tmp_path / "producer.properties"
    path.write_text(
        f"bootstrap.servers = {kafka_cluster.bootstrap_servers}\n"
        "key.serializer=org.apache.kafka.common.serialization.IntegerSerializer\n"
        "value.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
        "compression.type=zstd\nlinger.ms=0\nacks=all\n"
    )
    async with Producer(config=ProducerConfig.from_properties(path)) as producer:
        await producer.send(kafka_topic, "text", key=1)
    assert [(r.key, r.value) for r in await stored(kafka_cluster, kafka_topic)] == [(b"\0\0\0\1", b"text")]


# --- interceptors


class Upper:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return ProducerRecord(record.topic, record.value.upper(), key=record.key, headers=[("seen", b"1")])


class Broken:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise ValueError("on_send is broken")

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        raise ValueError("on_acknowledgement is broken")


class Witness:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int, bool]] = []
        self.closed = 0

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        self.heard.append((metadata.topic, metadata.partition, metadata.offset, error is None))

    def close(self) -> None:
        self.closed += 1


async def test_interceptors_see_each_record_once_before_its_sender(
    kafka_cluster: KafkaCluster, kafka_topic: str
) -> None:
    witness = Witness()
    heard_when_called: list[int] = []
    servers = kafka_cluster.bootstrap_servers
    async with Producer(servers, interceptors=[Upper, Broken(), witness]) as producer:
        for _record in range(3):
            producer.send_nowait(
                kafka_topic, b"nowait", on_delivery=lambda _, __: heard_when_called.append(len(witness.heard))
            )
        producer.submit(kafka_topic, b"submit")
        await producer.send(kafka_topic, b"send")
        await producer.send_many(kafka_topic, [b"many"] * 3)
        with pytest.raises(SerializationError):
            producer.submit(kafka_topic, "text", key=1)
        failures = producer.metrics()["interceptor_failures"]
    assert witness.heard == [*((kafka_topic, 0, number, True) for number in range(8)), (kafka_topic, -1, -1, False)]
    assert heard_when_called == [1, 2, 3]
    assert witness.closed == 1
    assert failures == 9 + 9
    read = await stored(kafka_cluster, kafka_topic)
    assert [record.value for record in read] == [*[b"NOWAIT"] * 3, b"SUBMIT", b"SEND", *[b"MANY"] * 3]
    assert {record.headers for record in read} == {(("seen", b"1"),)}


# --- partitioners

KEYS = [random.Random(7).randbytes(size % 40 + 1) for size in range(300)]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("murmur2_random", "murmur2_random"), ("consistent_random", "consistent_random"), ("fnv1a", "fnv1a_random")],
)
async def test_keys_go_where_librdkafka_puts_them(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, ours: str, theirs: str
) -> None:
    topics = [await make_topic(kafka_cluster, 7) for _ in range(2)]
    async with Producer(kafka_cluster.bootstrap_servers, partitioner=ours) as producer:
        await producer.send_many(topics[0], KEYS, keys=KEYS)
    other = confluent_kafka.Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "partitioner": theirs})
    for key in KEYS:
        other.produce(topics[1], key, key)
    assert await asyncio.to_thread(other.flush, 30) == 0
    mine, others = [{r.key: r.partition for r in await stored(kafka_cluster, topic)} for topic in topics]
    assert mine == others
    assert len(mine) == len(set(KEYS))


@pytest.mark.parametrize(
    "partitioner",
    [None, "default", "sticky", "round_robin", "classic", "murmur2", "crc32", "murmur3", "RoundRobinPartitioner"],
)
async def test_partitioners_deliver_all_records(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, partitioner: str | None
) -> None:
    topic = await make_topic(kafka_cluster, 5)
    async with Producer(kafka_cluster.bootstrap_servers, partitioner=partitioner, batch_size=2000) as producer:
        await producer.send_many(topic, [b"v" * 100] * 2000)
        await producer.send_many(topic, KEYS, keys=KEYS)
    read = await stored(kafka_cluster, topic)
    without_key = Counter(record.partition for record in read if record.key is None)
    assert without_key.total() == 2000
    if partitioner in ("murmur2", "crc32"):
        assert len(without_key) == 1
    elif partitioner in ("round_robin", "classic", "RoundRobinPartitioner"):
        assert without_key == dict.fromkeys(range(5), 400)
    else:
        assert len(without_key) == 5
    assert sorted(record.value or b"" for record in read if record.key is not None) == sorted(KEYS)


class ByLength:
    def __init__(self) -> None:
        self.new_batches = 0

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        assert cluster.partition_count(topic) == 4
        return len(value or b"") % 4

    def on_new_batch(self, topic: str, cluster: Cluster, previous: int) -> None:
        self.new_batches += 1


async def test_a_partitioner_of_ones_own_and_partitions_by_name(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(kafka_cluster, 4)
    partitioner = ByLength()
    async with Producer(kafka_cluster.bootstrap_servers, partitioner=partitioner) as producer:
        metadatas = [await producer.send(topic, b"v" * size) for size in range(8)]
        named = await producer.send(topic, b"v", partition=3)
    assert [metadata.partition for metadata in metadatas] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert named.partition == 3
    assert partitioner.new_batches == 8
    assert all(
        record.partition == len(record.value or b"") % 4
        for record in await stored(kafka_cluster, topic)
        if record.value != b"v" or record.partition == 1
    )


# --- promises and bytes


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_acks(kafka_cluster: KafkaCluster, kafka_topic: str, acks: int | str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers, config={"acks": acks}) as producer:
        metadata = await producer.send(kafka_topic, b"first")
        futures = [producer.submit(kafka_topic, b"%d" % number) for number in range(1000)]
        result = await producer.send_many(kafka_topic, [b"many"] * 1000)
        report = await producer.close()
    assert metadata.offset == (-1 if acks == 0 else 0)
    assert [future.result().offset for future in futures] == ([-1] * 1000 if acks == 0 else list(range(1, 1001)))
    assert (result.count, result.failures, report.delivered) == (1000, (), 2001)
    values = [record.value for record in await stored_at_last(kafka_cluster, kafka_topic, 2001)]
    assert values == [b"first", *(b"%d" % number for number in range(1000)), *[b"many"] * 1000]


async def stored_at_last(cluster: KafkaCluster, topic: str, count: int) -> list[Any]:
    """What is in the topic once it has `count` records: with acks=0 they may still be on their way."""
    async with asyncio.timeout(30):
        while len(read := await stored(cluster, topic)) < count:
            await asyncio.sleep(0.1)
    return read


VALUES: dict[str, Callable[[random.Random], bytes]] = {
    "compressible": lambda source: b"%d" % source.randrange(10) * source.randrange(1, 300),
    "random": lambda source: source.randbytes(source.randrange(1, 300)),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("options", [
    {"compression_type": "none"},
    {"compression_type": "gzip", "compression_gzip_level": 9},
    {"compression_type": "snappy"},
    {"compression_type": "lz4", "compression_lz4_level": 12},
    {"compression_type": "zstd", "compression_zstd_level": -3},
])  # fmt: skip
async def test_codecs(kafka_cluster: KafkaCluster, kafka_topic: str, options: dict[str, Any], kind: str) -> None:
    source = random.Random(kind)
    values = [VALUES[kind](source) for _ in range(3000)]
    async with Producer(kafka_cluster.bootstrap_servers, **options, batch_size=50_000) as producer:
        result = await producer.send_many(kafka_topic, values)
        metrics = producer.metrics()
    assert result.failures == ()
    assert (metrics["compression_rate_avg"] < 0.7) == (kind == "compressible" and options["compression_type"] != "none")
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == values


@pytest.mark.parametrize("options", [
    {"batch_size": 0},
    {"batch_size": 1_000_000, "linger_ms": 100, "adaptive_linger": False},
    {"max_in_flight_requests_per_connection": 1},
    {"enable_idempotence": False, "max_in_flight_requests_per_connection": 20},
    {"max_request_size": 5000},
    {"buffer_memory": 3000},
    {"client_id": "integration", "metadata_max_age_ms": 5, "linger_ms": 0},
    {"receive_buffer_bytes": 1024, "send_buffer_bytes": 1024},
])  # fmt: skip
async def test_odd_settings_keep_order_and_lose_nothing(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, options: dict[str, Any]
) -> None:
    topic = await make_topic(kafka_cluster, 3)
    values = [b"%05d" % number * 20 for number in range(2000)]
    async with Producer(kafka_cluster.bootstrap_servers, **options) as producer:
        # Until its leaders are at work, a new topic makes the first batches come again; without idempotence they then
        # come after those that were on the wire too.
        await asyncio.gather(*(producer.send(topic, b"", partition=partition) for partition in range(3)))
        result = await producer.send_many(topic, values, keys=[b"%d" % (number % 10) for number in range(2000)])
        report = await producer.close()
    assert (result.count, result.failures, report.delivered) == (2000, (), 2003)
    read = [record for record in await stored(kafka_cluster, topic) if record.value]
    assert sorted(record.value or b"" for record in read) == values
    for partition in range(3):
        of_partition = [record.value or b"" for record in read if record.partition == partition]
        assert of_partition == sorted(of_partition)
        assert of_partition


async def test_on_error_hears_of_failures_that_nobody_awaits(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    heard: list[tuple[AioprodError, ProducerRecord]] = []
    servers = kafka_cluster.bootstrap_servers
    producer = Producer(
        servers, linger_ms=60_000, adaptive_linger=False, on_error=lambda error, record: heard.append((error, record))
    )
    await producer.start()
    await producer.partitions_for(kafka_topic)
    producer.send_nowait(kafka_topic, b"nobody", key=b"1", headers=[("h", None)], timestamp=5)
    producer.send_nowait(kafka_topic, b"callback", on_delivery=lambda _, __: None)
    dropped = producer.submit(kafka_topic, b"dropped", key=b"2")
    looked_at = producer.submit(kafka_topic, b"looked at")
    del dropped
    looked_at.add_done_callback(lambda future: future.exception())
    await producer.close(0)
    assert isinstance(looked_at.exception(), NotSentError)
    assert [type(error) for error, _ in heard] == [NotSentError] * 2
    assert [record for _, record in heard] == [
        ProducerRecord(kafka_topic, b"nobody", key=b"1", partition=0, headers=(("h", None),), timestamp=5),
        ProducerRecord(kafka_topic, b"dropped", key=b"2", partition=0, headers=(), timestamp=heard[1][1].timestamp),
    ]
