"""The reader reads what confluent-kafka (all codecs, transactions) and aioprod wrote."""

from __future__ import annotations

import asyncio
import datetime
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError
from confluent_kafka.admin import AdminClient

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import (
    BrokerError,
    ConfigError,
    ErrorCode,
    InvalidTopicError,
    RequestTimedOutError,
    UnknownTopicError,
)
from aioprod.reader import Reader, read
from aioprod.testing import KafkaCluster
from aioprod.types import ConsumedRecord
from integration.support.clusters import MakeTopic, dead, frozen
from integration.support.figures import Figures
from integration.support.reading import Stored, stored

NOW_MS = int(time.time() * 1000)


async def collect(records: AsyncIterator[ConsumedRecord]) -> list[ConsumedRecord]:
    """All that an iterator gives; checks the order within each partition, and that no task is left."""
    before = asyncio.all_tasks()
    found = [record async for record in records]
    positions: dict[int, int] = {}
    for record in found:
        assert record.offset > positions.get(record.partition, -1)
        positions[record.partition] = record.offset
    assert asyncio.all_tasks() <= before
    return found


def comparable(records: Iterable[ConsumedRecord]) -> list[tuple[object, ...]]:
    """The same form as `comparable_stored`."""
    return sorted((r.partition, r.offset, r.key, r.value, tuple(r.headers), r.timestamp) for r in records)


def comparable_stored(records: Iterable[Stored]) -> list[tuple[object, ...]]:
    """Without the type of the timestamp."""
    return sorted(tuple(record[:-1]) for record in records)


def write(cluster: KafkaCluster, topic: str, count: int, *, partition: int = 0) -> None:
    """Write records `0`, `1`, ... with their number as value and timestamp, in batches of ten."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 10, "enable.idempotence": True}
    )
    for index in range(count):
        producer.produce(topic, b"%d" % index, key=b"k", partition=partition, timestamp=NOW_MS + index)
    assert producer.flush(30) == 0


def values(records: Iterable[ConsumedRecord]) -> list[int]:
    return [int(record.value) for record in records]


# --- what is in the batches


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("writer", ["confluent", "aioprod"])
async def test_all_codecs(kafka_cluster: KafkaCluster, make_topic: MakeTopic, codec: str, writer: str) -> None:
    topic = await make_topic(kafka_cluster, partitions=3)
    dice = random.Random(codec)
    rows = [
        (
            dice.choice([None, b"", b"key-%d" % dice.randrange(50)]),
            dice.choice([None, b"", dice.randbytes(dice.randrange(300)), b"text " * dice.randrange(2000)]),
            [(f"h{index}", dice.choice([None, b"", b"x"])) for index in range(dice.randrange(3))],
        )
        for _ in range(2000)
    ]
    if writer == "confluent":
        client = confluent_kafka.Producer(
            {"bootstrap.servers": kafka_cluster.bootstrap_servers, "compression.type": codec, "linger.ms": 20}
        )
        for key, value, headers in rows:
            client.produce(topic, value, key=key, headers=[(name, data) for name, data in headers])
        assert client.flush(30) == 0
    else:
        settings = {"compression.type": codec, "linger.ms": 20}
        async with Producer(kafka_cluster.bootstrap_servers, config=settings) as producer:
            for key, value, headers in rows:
                producer.send_nowait(topic, value, key=key, headers=headers)
    found = await collect(read(topic, bootstrap_servers=kafka_cluster.bootstrap_servers))
    assert len(found) == len(rows)
    assert comparable(found) == comparable_stored(await stored(kafka_cluster, topic))


async def test_big_records_and_small_limits(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, partitions=5, max_message_bytes=20_000_000)
    sizes = [10, 3_000_000, 100, 5_000_000, 1, 2_000_000, 700_000, 50] * 5
    async with Producer(kafka_cluster.bootstrap_servers, max_request_size=20_000_000, batch_size=1) as producer:
        for index, size in enumerate(sizes):
            await producer.send(topic, bytes([index]) * size, partition=index % 5)
    servers = kafka_cluster.bootstrap_servers
    found = await collect(read(topic, bootstrap_servers=servers, max_partition_fetch_bytes=100, fetch_max_bytes=1000))
    assert Counter((record.value[0], len(record.value)) for record in found) == Counter(enumerate(sizes))


async def test_append_time_and_deserializers(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        await producer.send(topic, b'{"n": 7}', key="ключ".encode(), timestamp=NOW_MS)
    found = await collect(
        read(
            topic, bootstrap_servers=kafka_cluster.bootstrap_servers, key_deserializer="str", value_deserializer="json"
        )
    )
    assert [(record.key, record.value) for record in found] == [("ключ", {"n": 7})]
    assert before <= found[0].timestamp <= int(time.time() * 1000)


# --- from where to where


async def test_offsets_and_times(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, partitions=2, message_timestamp_before_max_ms=2**62)
    for partition in range(2):
        await asyncio.to_thread(write, kafka_cluster, topic, 100, partition=partition)
    async with Reader(kafka_cluster.bootstrap_servers) as reader:
        later = datetime.datetime.fromtimestamp(NOW_MS / 1000 + 0.090, datetime.UTC)
        found = await collect(reader.read(topic, start={0: 95, 1: 3}, end={TopicPartition(topic, 1): 5}))
        assert values(record for record in found if record.partition == 0) == [95, 96, 97, 98, 99]
        assert values(record for record in found if record.partition == 1) == [3, 4]
        found = await collect(reader.read(topic, start=later, end=NOW_MS + 93, partitions=[1]))
        assert [(record.partition, record.offset) for record in found] == [(1, 90), (1, 91), (1, 92)]
        assert await collect(reader.read(topic, start=NOW_MS + 100)) == []
        assert len(await collect(reader.read(topic, end=NOW_MS + 100))) == 200
        assert len(await collect(reader.read(topic, end={0: 10**9}))) == 200
        assert await reader.offsets(topic, later) == {TopicPartition(topic, 0): 90, TopicPartition(topic, 1): 90}
        with pytest.raises(BrokerError, match="it ends at 100") as failure:
            await collect(reader.read(topic, start={1: 101}))
        assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(ConfigError, match="names partition 2"):
            await collect(reader.read(topic, start={2: 0}))


async def test_the_end_is_taken_once(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    await asyncio.to_thread(write, kafka_cluster, kafka_topic, 10)
    records = read(kafka_topic, bootstrap_servers=kafka_cluster.bootstrap_servers)
    first = await anext(records)
    await asyncio.to_thread(write, kafka_cluster, kafka_topic, 10)
    assert values([first, *[record async for record in records]]) == list(range(10))


async def test_records_that_are_gone_are_told(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    await asyncio.to_thread(write, kafka_cluster, kafka_topic, 50)
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap_servers})
    (result,) = admin.delete_records([confluent_kafka.TopicPartition(kafka_topic, 0, 20)]).values()
    await asyncio.to_thread(result.result, 30)
    servers = kafka_cluster.bootstrap_servers
    assert values(await collect(read(kafka_topic, bootstrap_servers=servers))) == list(range(20, 50))
    with pytest.raises(BrokerError, match="can't be read from offset 5 on: its log goes from 20 to 50 now") as failure:
        await collect(read(kafka_topic, bootstrap_servers=servers, start={0: 5}))
    assert failure.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    (result,) = admin.delete_records([confluent_kafka.TopicPartition(kafka_topic, 0, 50)]).values()
    await asyncio.to_thread(result.result, 30)
    assert await collect(read(kafka_topic, bootstrap_servers=servers)) == []


async def test_topics_that_can_not_be_read(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    with pytest.raises(UnknownTopicError, match="does not exist"):
        await collect(read(unused_topic, bootstrap_servers=servers))
    with pytest.raises(InvalidTopicError):
        read("no topic!", bootstrap_servers=servers)
    async with Admin(servers) as admin:
        assert unused_topic not in await admin.topics()


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_a_compacted_topic(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(
        kafka_cluster, cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0
    )
    servers = kafka_cluster.bootstrap_servers
    async with Producer(servers, batch_size=500) as producer:
        for number in range(400):
            producer.send_nowait(topic, b"%d" % number, key=b"%d" % (number % 7 if number % 50 else number))
        await producer.flush()
        await asyncio.sleep(0.2)
        # The last segment is never compacted.
        await producer.send(topic, b"last", key=b"last")
    wanted = {b"%d" % number: b"%d" % number for number in range(0, 400, 50)} | {b"last": b"last"}
    wanted |= {b"%d" % rest: b"%d" % max(n for n in range(400) if n % 50 and n % 7 == rest) for rest in range(7)}
    found = await collect(read(topic, bootstrap_servers=servers))
    async with asyncio.timeout(90):
        while len(found) > len(wanted):
            await asyncio.sleep(0.5)
            found = await collect(read(topic, bootstrap_servers=servers))
    assert {record.key: record.value for record in found} == wanted
    assert comparable(found) == comparable_stored(await stored(kafka_cluster, topic))
    gap = found[3].offset + 1
    assert await collect(read(topic, bootstrap_servers=servers, start={0: gap})) == found[4:]


# --- transactions


def committed_values(cluster: KafkaCluster, topic: str) -> list[tuple[int, int, bytes | None]]:
    """Partition, offset and value of what confluent-kafka reads of two partitions under read_committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "integration",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(2)])
    found: list[tuple[int, int, bytes | None]] = []
    ended = 0
    while ended < 2:
        for message in consumer.consume(1000, timeout=0.2):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                ended += 1
                continue
            assert partition is not None
            assert offset is not None
            found.append((partition, offset, message.value()))
    consumer.close()
    return sorted(found)


def transactional(cluster: KafkaCluster, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(30)
    return producer


def write_transactions(cluster: KafkaCluster, topic: str, seed: int) -> list[bytes]:
    """Transactions of three producers in one another, some aborted; the values that were committed, then one open."""
    dice = random.Random(seed)
    producers = [transactional(cluster, f"{topic}-{index}") for index in range(3)]
    begun: dict[int, list[bytes]] = {}
    committed: list[bytes] = []
    number = 0
    for _ in range(120):
        index = dice.randrange(3)
        producer = producers[index]
        if index not in begun:
            producer.begin_transaction()
            begun[index] = []
        for _ in range(dice.randrange(1, 20)):
            value = b"%d" % number
            number += 1
            producer.produce(topic, value, partition=dice.randrange(2))
            begun[index].append(value)
        producer.flush(30)
        if dice.random() < 0.5:
            if dice.random() < 0.5:
                producer.commit_transaction(30)
                committed += begun.pop(index)
            else:
                producer.abort_transaction(30)
                del begun[index]
    for index in begun:
        producers[index].abort_transaction(30)
    return committed


async def all_decided(cluster: KafkaCluster, topic: str) -> None:
    """Wait until the markers of ended transactions are in the log: a broker answers before it has written them."""
    async with (
        asyncio.timeout(30),
        Reader(cluster.bootstrap_servers) as log,
        Reader(cluster.bootstrap_servers, isolation_level="read_committed") as decided,
    ):
        while await log.offsets(topic, "latest") != await decided.offsets(topic, "latest"):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_transactions(kafka_cluster: KafkaCluster, make_topic: MakeTopic, seed: int) -> None:
    topic = await make_topic(kafka_cluster, partitions=2)
    servers = kafka_cluster.bootstrap_servers
    committed = await asyncio.to_thread(write_transactions, kafka_cluster, topic, seed)
    await all_decided(kafka_cluster, topic)
    all_of_it = await collect(read(topic, bootstrap_servers=servers))
    assert sorted(values(all_of_it)) == list(range(len(all_of_it)))
    found = await collect(read(topic, bootstrap_servers=servers, isolation_level="read_committed"))
    assert sorted(record.value for record in found) == sorted(committed)
    theirs = await asyncio.to_thread(committed_values, kafka_cluster, topic)
    assert sorted((record.partition, record.offset, record.value) for record in found) == theirs
    # The same in small answers, and from the middle of transactions on: aborted ones that began before are known.
    small = await collect(
        read(topic, bootstrap_servers=servers, isolation_level="read_committed", max_partition_fetch_bytes=1)
    )
    assert comparable(small) == comparable(found)
    middle = {0: found[len(found) // 2].offset + 1, 1: 40}
    rest = await collect(read(topic, bootstrap_servers=servers, isolation_level="read_committed", start=middle))
    assert comparable(rest) == comparable(record for record in found if record.offset >= middle[record.partition])


async def test_an_open_transaction_ends_what_is_committed(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    servers = kafka_cluster.bootstrap_servers
    await asyncio.to_thread(write, kafka_cluster, kafka_topic, 5)
    producer = await asyncio.to_thread(transactional, kafka_cluster, kafka_topic)
    producer.begin_transaction()
    producer.produce(kafka_topic, b"100")
    await asyncio.to_thread(producer.flush, 30)
    await asyncio.to_thread(write, kafka_cluster, kafka_topic, 5)
    async with Reader(servers, isolation_level="read_committed") as reader:
        assert values(await collect(reader.read(kafka_topic))) == [0, 1, 2, 3, 4]
        assert await reader.offsets(kafka_topic, "latest") == {TopicPartition(kafka_topic, 0): 5}
        assert await collect(reader.read(kafka_topic, start={0: 8})) == []
        with pytest.raises(BrokerError, match="it ends at 11"):
            await collect(reader.read(kafka_topic, start={0: 12}))
        await asyncio.to_thread(producer.abort_transaction, 30)
        await all_decided(kafka_cluster, kafka_topic)
        assert values(await collect(reader.read(kafka_topic))) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]


# --- brokers come and go


@pytest.mark.timeout(180)
async def test_the_broker_is_restarted_while_it_is_read(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(mortal_cluster, partitions=4)
    servers = mortal_cluster.bootstrap_servers
    for partition in range(4):
        await asyncio.to_thread(write, mortal_cluster, topic, 500, partition=partition)
    async with aclosing(read(topic, bootstrap_servers=servers, max_partition_fetch_bytes=500)) as records:
        found = [await anext(records) for _ in range(10)]
        async with dead(mortal_cluster, 1):
            waiting = asyncio.ensure_future(collect(records))
            await asyncio.sleep(0.5)
        found += await waiting
    for partition in range(4):
        assert values(record for record in found if record.partition == partition) == list(range(500))


@pytest.mark.timeout(120)
async def test_a_broker_that_stays_silent_is_given_up(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(mortal_cluster)
    await asyncio.to_thread(write, mortal_cluster, topic, 500)
    records = read(
        topic,
        bootstrap_servers=mortal_cluster.bootstrap_servers,
        default_api_timeout_ms=2000,
        request_timeout_ms=500,
        max_partition_fetch_bytes=500,
    )
    await anext(records)
    began = time.monotonic()
    async with frozen(mortal_cluster, 1):
        with pytest.raises(RequestTimedOutError, match=r"could not be read within 2 s .*-0: "):
            await collect(records)
        assert time.monotonic() - began < 10


@pytest.mark.cluster
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "gone",
    ["killed", pytest.param("frozen", marks=pytest.mark.long), pytest.param("elsewhere", marks=pytest.mark.long)],
)
async def test_leaders_move_while_a_topic_is_read(
    kafka_cluster_3: KafkaCluster, make_topic: MakeTopic, gone: str
) -> None:
    topic = await make_topic(kafka_cluster_3, partitions=12, min_insync_replicas=1)
    servers = kafka_cluster_3.bootstrap_servers
    for partition in range(12):
        await asyncio.to_thread(write, kafka_cluster_3, topic, 300, partition=partition)
    async with aclosing(read(topic, bootstrap_servers=servers, max_partition_fetch_bytes=500)) as records:
        found = [await anext(records) for _ in range(10)]
        if gone == "elsewhere":
            for broker_id in (1, 2, 3):
                found += [await anext(records) for _ in range(100)]
                await kafka_cluster_3.restart(broker_id)
            found += await collect(records)
        else:
            async with (dead if gone == "killed" else frozen)(kafka_cluster_3, 2):
                found += await collect(records)
    for partition in range(12):
        assert values(record for record in found if record.partition == partition) == list(range(300))


async def test_a_topic_that_is_replaced_while_it_is_read(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster)
    servers = kafka_cluster.bootstrap_servers
    await asyncio.to_thread(write, kafka_cluster, topic, 500)
    async with Admin(servers) as admin, Reader(servers, max_partition_fetch_bytes=500) as reader:
        async with aclosing(reader.read(topic)) as records:
            await anext(records)
            await admin.delete_topic(topic)
            await admin.create_topic(topic)
            with pytest.raises(BrokerError, match="deleted and created again"):
                await collect(records)
        await asyncio.to_thread(write, kafka_cluster, topic, 500)
        async with aclosing(reader.read(topic)) as records:
            await anext(records)
            await admin.delete_topic(topic)
            with pytest.raises(UnknownTopicError, match="does not exist"):
                await collect(records)


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_the_older_release() -> None:
    async with await KafkaCluster.start(version="3.9.1", backend="local") as cluster:
        async with Admin(cluster.bootstrap_servers) as admin:
            await admin.create_topic("orders", partitions=2)
        committed = await asyncio.to_thread(write_transactions, cluster, "orders", 4)
        await all_decided(cluster, "orders")
        servers = cluster.bootstrap_servers
        found = await collect(read("orders", bootstrap_servers=servers, isolation_level="read_committed"))
        assert sorted(record.value for record in found) == sorted(committed)


# --- how fast


async def test_how_fast(kafka_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures) -> None:
    topic = await make_topic(kafka_cluster, partitions=3)
    count = 200_000
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        await producer.send_many(topic, [b"v" * 100] * count)
    began = time.perf_counter()
    found = 0
    async for _ in read(topic, bootstrap_servers=kafka_cluster.bootstrap_servers):
        found += 1
    assert found == count
    figures.add("records of 100 bytes read per second, interpreted", round(count / (time.perf_counter() - began)))
