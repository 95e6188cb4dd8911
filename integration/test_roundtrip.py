"""A hundred thousand records of every shape, read back byte for byte by librdkafka and by Java."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from aioprod import Producer, ProducerRecord
from aioprod.errors import BufferFullError
from aioprod.testing import KafkaCluster
from integration.support.figures import Figures
from integration.support.java import JavaOracle, PartitionDigest
from integration.support.reading import CREATE_TIME, Stored, stored
from tests.support.length import by_length

pytestmark = pytest.mark.timeout(300)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS_PER_CODEC = by_length(2_000, 20_000)
PARTITIONS = 4
SIZE_MAX = 900 * 1024
NAMES = ("", "trace", "trace", "Größe", "名", "x" * 200)


@dataclass(frozen=True, slots=True)
class Sent:
    """The topic that a codec's records went to, and what has to be in it, by partition and offset."""

    codec: str
    topic: str
    records: list[Stored]


def size(source: random.Random) -> int:
    """0 B to 900 KB, most of them small: a round of 20,000 has some 25 MB."""
    kind = source.random()
    if kind < 0.001:
        return source.choice((SIZE_MAX, source.randint(50_000, SIZE_MAX)))
    return source.randint(0, 6000) if kind < 0.1 else source.randint(0, 120)


def payload(source: random.Random, length: int) -> bytes:
    """Bytes of which a codec can save much, little or nothing."""
    kind = source.random()
    if kind < 0.4:
        return source.randbytes(length)
    if kind < 0.7:
        return (b"%d," % source.randint(0, 10**9) * (length // 2 + 1))[:length]
    return (source.randbytes(length // 2 + 1) * 2)[:length]


def random_records(source: random.Random, topic: str) -> Iterator[ProducerRecord]:
    """Records with random keys, values, headers, nulls and timestamps."""
    for _ in range(RECORDS_PER_CODEC):
        headers: list[tuple[str, bytes | None]] = [
            (source.choice(NAMES), None if source.random() < 0.2 else source.randbytes(source.randint(0, 30)))
            for _ in range(source.choice((0, 0, 0, 1, 2, 9)))
        ]
        yield ProducerRecord(
            topic,
            None if source.random() < 0.05 else payload(source, size(source)),
            key=None if source.random() < 0.2 else source.randbytes(source.randint(0, 40)),
            headers=headers,
            timestamp=source.randint(1_600_000_000_000, 1_750_000_000_000),
        )


@pytest.fixture(scope="module", params=CODECS)
def sent(kafka_cluster: KafkaCluster, figures: Figures, request: pytest.FixtureRequest) -> Sent:
    """What was sent with one codec."""
    codec: str = request.param
    return asyncio.run(send_all(kafka_cluster, f"roundtrip-{codec}-{uuid.uuid4().hex[:8]}", codec, figures))


async def test_librdkafka_reads_equal_bytes(kafka_cluster: KafkaCluster, figures: Figures, sent: Sent) -> None:
    read = await stored(kafka_cluster, sent.topic)
    assert len(read) == RECORDS_PER_CODEC
    # Not one comparison of the lists: its message would take minutes.
    differing = [pair for pair in zip(read, sent.records, strict=True) if pair[0] != pair[1]]
    assert not differing, f"{len(differing)} differ, the first: {differing[0]!r:.1000}"
    figures.add(f"records read back equal by librdkafka, {sent.codec}", len(read))


@pytest.mark.java
async def test_java_reads_equal_bytes(
    kafka_cluster: KafkaCluster, oracle: JavaOracle, figures: Figures, sent: Sent
) -> None:
    digests = {partition: PartitionDigest() for partition in range(PARTITIONS)}
    for partition, offset, key, value, headers, timestamp, _ in sent.records:
        digests[partition].add(offset, timestamp, key, value, headers)
    read = oracle.consume(kafka_cluster.bootstrap_servers, sent.topic)
    assert read == {partition: digest.result() for partition, digest in digests.items()}
    figures.add(f"records read back equal by Java, {sent.codec}", sum(digest.count for digest in read.values()))


async def send_all(cluster: KafkaCluster, topic: str, codec: str, figures: Figures) -> Sent:
    """Send the random records of a codec by `submit`, keeping of each what must be stored."""
    await cluster.create_topic(topic, PARTITIONS)
    records = list(random_records(random.Random(codec), topic))
    started = time.perf_counter()
    async with Producer(cluster.bootstrap_servers, config={"compression.type": codec}) as producer:
        futures = []
        for record in records:
            while True:
                try:
                    futures.append(producer.submit(record))
                    break
                except BufferFullError:
                    await producer.drain()
        await producer.flush()
        elapsed_s = time.perf_counter() - started
        where = [future.result() for future in futures]
        assert producer.buffered == (0, 0)
    total = sum(len(record.key or b"") + len(record.value or b"") for record in records)
    figures.add(f"MB of keys and values sent, {codec}", f"{total / 1e6:.1f} in {elapsed_s:.1f} s")
    expected = [
        Stored(
            metadata.partition,
            metadata.offset,
            record.key,
            record.value,
            tuple(record.headers or ()),
            metadata.timestamp,
            CREATE_TIME,
        )
        for metadata, record in zip(where, records, strict=True)
    ]
    assert [metadata.timestamp for metadata in where] == [record.timestamp for record in records]
    return Sent(codec, topic, sorted(expected))
