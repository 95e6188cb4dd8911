"""Topics that are new, unknown, limited in size, or deleted meanwhile; and metadata updates of the producer."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from aioprod import Producer, ProducerRecord
from aioprod.cluster import Cluster
from aioprod.errors import (
    AioprodError,
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    NotSentError,
    RecordTooLargeError,
    RejectedError,
    UnknownTopicError,
)
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.reading import APPEND_TIME, stored

# --- created by the broker


@pytest.mark.parametrize("way", ["send", "submit", "send_nowait", "send_many", "partitions_for"])
async def test_a_broker_creates_a_new_topic(kafka_cluster: KafkaCluster, unused_topic: str, way: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        if way == "partitions_for":
            assert [info.partition for info in await producer.partitions_for(unused_topic)] == [0]
        elif way == "send_many":
            assert (await producer.send_many(unused_topic, [b"value"] * 5)).failures == ()
        elif way == "send":
            assert (await producer.send(unused_topic, b"value")).offset == 0
        elif way == "submit":
            assert await producer.submit(unused_topic, b"value", timestamp=3) is not None
        else:
            for _ in range(10):
                producer.send_nowait(unused_topic, b"value")
    values = [record.value for record in await stored(kafka_cluster, unused_topic)]
    assert values == [b"value"] * {"send": 1, "submit": 1, "send_nowait": 10, "send_many": 5}.get(way, 0)


async def test_many_new_topics_at_once(kafka_cluster: KafkaCluster, unused_topic: str) -> None:
    topics = [f"{unused_topic}-{number}" for number in range(20)]
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        futures = {topic: [producer.submit(topic, b"%d" % n) for n in range(20)] for topic in topics}
        await asyncio.gather(*(producer.send(topic, b"20") for topic in topics))
        assert all([future.result().offset for future in of_topic] == list(range(20)) for of_topic in futures.values())
    read = await stored(kafka_cluster, topics[-1])
    assert [record.value for record in read] == [b"%d" % number for number in range(21)]


# --- not created


@pytest.mark.parametrize("way", ["send", "submit", "send_many", "partitions_for"])
async def test_an_unknown_topic_fails_fast_and_delays_nobody(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, unused_topic: str, figures: Figures, way: str
) -> None:
    known = await make_topic(proxied_cluster)
    async with Producer(proxied_cluster.bootstrap_servers) as producer:
        started = time.perf_counter()
        if way == "send":
            failing: Any = asyncio.create_task(producer.send(unused_topic, b"lost"))
        elif way == "submit":
            failing = producer.submit(unused_topic, b"lost")
        elif way == "send_many":
            failing = asyncio.create_task(producer.send_many(unused_topic, [b"lost"]))
        else:
            failing = asyncio.create_task(producer.partitions_for(unused_topic))
        sent = 0
        while not failing.done():
            await producer.send(known, b"%d" % sent)
            sent += 1
            await asyncio.sleep(0.02)
        elapsed_s = time.perf_counter() - started
        error = failing.exception()
        if way == "submit":
            assert isinstance(error, NotSentError)
            error = error.__cause__
        assert isinstance(error, UnknownTopicError)
        assert repr(unused_topic) in str(error)
        assert "does not exist" in str(error)
        report = await producer.close()
    figures.add(f"s until {way}() says that a topic does not exist", f"{elapsed_s:.1f}")
    assert elapsed_s < 10
    assert sent > 5
    assert len(await stored(proxied_cluster, known)) == sent
    assert (report.delivered, report.not_sent) == (sent, int(way == "submit"))


async def test_that_a_topic_does_not_exist_is_remembered(proxied_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Producer(proxied_cluster.bootstrap_servers) as producer:
        with pytest.raises(UnknownTopicError):
            await producer.send(unused_topic, b"too early")
        started = time.perf_counter()
        for _ in range(20):
            with pytest.raises(UnknownTopicError):
                await producer.send(unused_topic, b"still too early")
        # Asking anew would take 50 s.
        assert time.perf_counter() - started < 20


async def sent_in_the_end(producer: Producer, topic: str, value: bytes) -> int:
    """Its offset, once the topic is found."""
    async with asyncio.timeout(30):
        while True:
            try:
                return (await producer.send(topic, value)).offset
            except UnknownTopicError:
                await asyncio.sleep(0.1)


async def test_a_topic_that_is_created_later_is_found(proxied_cluster: KafkaCluster, unused_topic: str) -> None:
    async with Producer(proxied_cluster.bootstrap_servers) as producer:
        with pytest.raises(UnknownTopicError):
            await producer.send(unused_topic, b"too early")
        await proxied_cluster.create_topic(unused_topic)
        assert await sent_in_the_end(producer, unused_topic, b"first") == 0
        assert (await producer.send(unused_topic, b"second")).offset == 1
    assert [record.value for record in await stored(proxied_cluster, unused_topic)] == [b"first", b"second"]


async def test_a_topic_that_is_deleted_fails_its_records_soon_and_delays_nobody(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, unused_topic: str, figures: Figures
) -> None:
    known = await make_topic(proxied_cluster)
    async with Producer(proxied_cluster.bootstrap_servers) as producer:
        await proxied_cluster.create_topic(unused_topic)
        assert (await producer.send(unused_topic, b"stored")).offset == 0
        await proxied_cluster.delete_topic(unused_topic)
        started = time.perf_counter()
        failing = asyncio.create_task(producer.send(unused_topic, b"lost"))
        sent = 0
        while not failing.done():
            await producer.send(known, b"%d" % sent)
            sent += 1
            await asyncio.sleep(0.02)
        elapsed_s = time.perf_counter() - started
        error = failing.exception()
        assert isinstance(error, DeliveryError)
        assert isinstance(error.__cause__, UnknownTopicError)
        assert f"topic {unused_topic!r} was deleted" in str(error)
        with pytest.raises(UnknownTopicError):
            await producer.send(unused_topic, b"lost")
        await proxied_cluster.create_topic(unused_topic)
        assert await sent_in_the_end(producer, unused_topic, b"new") == 0
    figures.add("s until send() says that a topic was deleted", f"{elapsed_s:.1f}")
    # The record's own time is 120 s.
    assert elapsed_s < 30
    assert len(await stored(proxied_cluster, known)) == sent


async def test_a_topic_that_is_deleted_and_created_again(proxied_cluster: KafkaCluster, unused_topic: str) -> None:
    """Records may fail in between, each with its outcome; then they arrive in the new topic."""
    accepted = 0
    async with Producer(
        proxied_cluster.bootstrap_servers, delivery_timeout_ms=20_000, request_timeout_ms=5000, linger_ms=0
    ) as producer:
        await proxied_cluster.create_topic(unused_topic)
        assert (await producer.send(unused_topic, b"old")).offset == 0
        await proxied_cluster.delete_topic(unused_topic)
        await proxied_cluster.create_topic(unused_topic)
        accepted += 1
        delivered: list[bytes] = []
        async with asyncio.timeout(30):
            while len(delivered) < 3:
                value = b"new %d" % accepted
                try:
                    await producer.send(unused_topic, value)
                    delivered.append(value)
                    accepted += 1
                except RejectedError:
                    accepted += 1
                except UnknownTopicError:
                    pass
        report = await producer.close()
    assert report.delivered + report.not_sent + report.unknown + report.rejected == accepted
    assert report.delivered == 1 + len(delivered)
    assert [record.value for record in await stored(proxied_cluster, unused_topic)] == delivered


async def test_records_follow_to_a_topic_that_is_created_again(
    proxied_cluster: KafkaCluster, unused_topic: str
) -> None:
    """Those sent while the topic was gone arrive in the new one, once and in order."""
    async with Producer(
        proxied_cluster.bootstrap_servers, topic_recreation="follow", batch_size=100, linger_ms=0
    ) as producer:
        await proxied_cluster.create_topic(unused_topic)
        for number in range(5):
            assert (await producer.send(unused_topic, b"old")).offset == number
        await proxied_cluster.delete_topic(unused_topic)
        futures = [producer.submit(unused_topic, b"new %03d" % number) for number in range(100)]
        await asyncio.sleep(1.0)
        text = producer.explain(unused_topic, 0)
        assert text.startswith(f"100 records of {unused_topic}-0 in "), text
        await proxied_cluster.create_topic(unused_topic)
        async with asyncio.timeout(60):
            assert [(await future).offset for future in futures] == list(range(100))
        assert producer.explain(unused_topic, 0).startswith("Nothing is held for ")
    read = [record.value for record in await stored(proxied_cluster, unused_topic)]
    assert read == [b"new %03d" % number for number in range(100)]


# --- what topics ask for


async def test_log_append_time_is_the_brokers(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        metadata = await producer.send(topic, b"value", timestamp=12345)
    [record] = await stored(kafka_cluster, topic)
    assert record.timestamp_type == APPEND_TIME
    assert metadata.timestamp == record.timestamp >= before


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_a_batch_too_large_for_the_topic_is_split(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, codec: str
) -> None:
    topic = await make_topic(kafka_cluster, max_message_bytes=5000)
    source = random.Random(codec)
    values = [b"%04d" % number + source.randbytes(100) for number in range(3000)]
    heard: list[int] = []
    options = {"batch_size": 200_000, "linger_ms": 60_000, "adaptive_linger": False}
    async with Producer(kafka_cluster.bootstrap_servers, compression_type=codec, **options) as producer:  # type: ignore[arg-type]
        await producer.partitions_for(topic)
        futures = [producer.submit(topic, value) for value in values[:1000]]
        bulk = asyncio.create_task(producer.send_many(topic, values[1000:2000], partition=0))
        while producer.buffered.records < 2000:
            await asyncio.sleep(0)
        for value in values[2000:]:
            producer.send_nowait(
                topic, value, on_delivery=lambda metadata, _: heard.append(-1 if metadata is None else metadata.offset)
            )
        await producer.flush()
        metrics = producer.metrics()
        assert [future.result().offset for future in futures] == list(range(1000))
        result = await bulk
        report = await producer.close()
    assert (result.failures, [list(ranges) for ranges in result.offsets.values()]) == ((), [[range(1000, 2000)]])
    assert heard == list(range(2000, 3000))
    assert [record.value for record in await stored(kafka_cluster, topic)] == values
    assert 0 < metrics["batch_split_total"] < 30, "the limit that was met is remembered"
    assert (report.delivered, report.rejected) == (3000, 0)


async def test_a_record_too_large_for_the_topic_is_rejected_alone(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(kafka_cluster, max_message_bytes=5000)
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        futures = [producer.submit(topic, b"x" * (10_000 if number == 50 else 100)) for number in range(100)]
        await producer.flush()
        error = futures.pop(50).exception()
        assert isinstance(error, RejectedError)
        assert error.code == ErrorCode.MESSAGE_TOO_LARGE
        assert isinstance(error.__cause__, RecordTooLargeError)
        assert "max.message.bytes" in str(error)
        assert [future.result().offset for future in futures] == list(range(99))
        assert producer.buffered == (0, 0)
        report = await producer.close()
    assert (report.delivered, report.rejected, report.undelivered) == (99, 1, ())
    assert [record.value for record in await stored(kafka_cluster, topic)] == [b"x" * 100] * 99


async def test_a_record_that_the_broker_refuses_is_named_and_its_neighbours_arrive(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    """A compacted topic takes no record without a key, and says which of a batch it means (KIP-467)."""
    topic = await make_topic(kafka_cluster, cleanup_policy="compact")
    async with Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, adaptive_linger=False) as producer:
        await producer.partitions_for(topic)
        futures = [producer.submit(topic, b"%d" % n, key=None if n == 3 else b"%d" % n) for n in range(6)]
        await producer.flush()
        error = futures.pop(3).exception()
        assert isinstance(error, RejectedError)
        assert error.code == ErrorCode.INVALID_RECORD
        assert [future.exception() for future in futures] == [None] * 5
    assert [record.key for record in await stored(kafka_cluster, topic)] == [b"0", b"1", b"2", b"4", b"5"]


# --- what is known of the cluster


async def test_partitions_and_listeners(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 4)
    heard: list[Cluster] = []
    producer = Producer(kafka_cluster.bootstrap_servers)
    producer.add_metadata_listener(heard.append)

    def broken(cluster: Cluster) -> None:
        raise ValueError(cluster)

    producer.add_metadata_listener(broken)
    async with producer:
        partitions = await producer.partitions_for(topic)
        with pytest.raises(InvalidRecordError, match="no partition 4"):
            await producer.send(topic, b"", partition=4)
    assert [info.partition for info in partitions] == [0, 1, 2, 3]
    for info in partitions:
        assert info.topic == topic
        assert info.leader is not None
        assert f"{info.leader.host}:{info.leader.port}" in kafka_cluster.bootstrap_servers
        assert info.replicas == info.in_sync_replicas == (info.leader,)
        assert info.offline_replicas == ()
    assert heard[-1].partition_count(topic) == 4
    assert heard[-1].cluster_id


async def test_a_bad_partition_of_a_topic_that_is_not_known_yet(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    heard: list[AioprodError | None] = []
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        good = [producer.submit(kafka_topic, b"before")]
        bad = producer.submit(kafka_topic, b"bad", partition=7)
        producer.send_nowait(
            ProducerRecord(kafka_topic, b"bad", partition=8), on_delivery=lambda _, error: heard.append(error)
        )
        with pytest.raises(InvalidRecordError, match="no partition 9"):
            await producer.send(kafka_topic, b"bad", partition=9)
        good.append(producer.submit(kafka_topic, b"after"))
        await producer.flush()
        assert [future.result().offset for future in good] == [0, 1]
        assert isinstance(bad.exception(), NotSentError)
        assert isinstance(bad.exception().__cause__, InvalidRecordError)  # type: ignore[union-attr]
    assert [type(error) for error in heard] == [NotSentError]
    assert [record.value for record in await stored(kafka_cluster, kafka_topic)] == [b"before", b"after"]
