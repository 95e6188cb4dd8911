"""Every call of a producer with one real broker; confluent-kafka reads back what was sent."""

from __future__ import annotations

import asyncio
import datetime
import random
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import uvloop

from aioprod import DeliveryReport, Producer, ProducerRecord, RecordMetadata, TopicPartition
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    InvalidRecordError,
    ProducerClosedError,
    SerializationError,
    UsageError,
)
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.reading import CREATE_TIME, stored

NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
NOON_MS = 1_709_200_800_123


async def values_in(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in await stored(cluster, topic)]


# --- one record


async def test_send_returns_where_the_record_is(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    before = int(time.time() * 1000)
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        first = await producer.send(kafka_topic, b"value", key=b"key", headers=[("a", b"1"), ("b", None)])
        second = await producer.send(kafka_topic, None, timestamp=NOON)
    assert before <= first.timestamp <= int(time.time() * 1000)
    assert first == RecordMetadata(kafka_topic, 0, 0, first.timestamp, 3, 5)
    assert second == RecordMetadata(kafka_topic, 0, 1, NOON_MS, -1, -1)
    one, two = await stored(kafka_cluster, kafka_topic)
    assert one == (0, 0, b"key", b"value", (("a", b"1"), ("b", None)), first.timestamp, CREATE_TIME)
    assert two == (0, 1, None, None, (), NOON_MS, CREATE_TIME)


RECORDS = [
    ProducerRecord("", b"", key=b""),
    ProducerRecord("", None, key=None),
    ProducerRecord("", None, key=b"tombstone"),
    ProducerRecord("", b"no key"),
    ProducerRecord("", bytearray(b"array"), key=memoryview(b"view")),
    ProducerRecord("", b"h", headers=[]),
    ProducerRecord("", b"h", headers=[("", b""), ("twice", b"1"), ("twice", None), ("Grüße 🙂", bytes(range(256)))]),
    ProducerRecord("", b"h", headers=[(f"name{index}", b"%d" % index) for index in range(300)]),
    ProducerRecord("", b"t", timestamp=0),
    ProducerRecord("", b"t", timestamp=253_402_300_799_999),
    ProducerRecord("", b"t", timestamp=NOON),
    ProducerRecord("", b"t", timestamp=1),
    ProducerRecord("", random.Random(1).randbytes(700_000), key=b"k" * 100_000),
]
"""Records of every shape, for a topic to be filled in."""


@pytest.mark.parametrize("way", ["send", "submit", "send_nowait"])
async def test_every_shape_of_record(kafka_cluster: KafkaCluster, make_topic: MakeTopic, way: str) -> None:
    # Ancient and future timestamps are refused by default.
    topic = await make_topic(kafka_cluster, message_timestamp_after_max_ms=2**62)
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        for shape in RECORDS:
            record = ProducerRecord(topic, shape.value, key=shape.key, headers=shape.headers, timestamp=shape.timestamp)
            if way == "send":
                await producer.send(record)
            elif way == "submit":
                producer.submit(record)
            else:
                producer.send_nowait(record)
        await producer.flush()
    read = await stored(kafka_cluster, topic)
    assert len(read) == len(RECORDS)
    for shape, record_read in zip(RECORDS, read, strict=True):
        assert record_read.value == (None if shape.value is None else bytes(shape.value))
        assert record_read.key == (None if shape.key is None else bytes(shape.key))
        assert record_read.headers == tuple(shape.headers or ())
        if shape.timestamp is not None:
            assert record_read.timestamp == (NOON_MS if shape.timestamp is NOON else shape.timestamp)


async def test_submit_gives_a_future_for_each_record(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        futures = [producer.submit(kafka_topic, b"%d" % number) for number in range(5000)]
        assert producer.buffered.records == 5000
        await producer.flush()
        assert all(future.done() for future in futures)
        assert [future.result().offset for future in futures] == list(range(5000))
        assert producer.buffered == (0, 0)
    assert await values_in(kafka_cluster, kafka_topic) == [b"%d" % number for number in range(5000)]


async def test_send_nowait_calls_back_once_per_record_in_order(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    heard: list[tuple[int, AioprodError | None]] = []

    def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        heard.append((-1 if metadata is None else metadata.offset, error))

    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        for number in range(3000):
            producer.send_nowait(kafka_topic, b"%d" % number, on_delivery=on_delivery if number % 3 else None)
        await producer.flush()
        assert heard == [(number, None) for number in range(3000) if number % 3]
    assert await values_in(kafka_cluster, kafka_topic) == [b"%d" % number for number in range(3000)]


async def test_a_thousand_tasks_await_their_sends(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 6)
    async with Producer(kafka_cluster.bootstrap_servers) as producer, asyncio.TaskGroup() as group:
        tasks = [group.create_task(producer.send(topic, b"%d" % n, key=b"%d" % (n % 97))) for n in range(1000)]
    where = {(task.result().partition, task.result().offset): b"%d" % n for n, task in enumerate(tasks)}
    assert where == {(record.partition, record.offset): record.value for record in await stored(kafka_cluster, topic)}


# --- many records


async def test_send_many_takes_keys_headers_and_timestamps(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 5)
    values = [b"%d" % number if number % 7 else None for number in range(10_000)]
    keys = [b"k%d" % (number % 100) if number % 11 else None for number in range(10_000)]
    headers = [[("n", b"%d" % number)] if number % 2 else None for number in range(10_000)]
    timestamps = [NOON_MS + number for number in range(10_000)]
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        result = await producer.send_many(topic, iter(values), keys=iter(keys), headers=headers, timestamps=timestamps)
    assert (result.count, result.failures) == (10_000, ())
    read = await stored(kafka_cluster, topic)
    ends = {TopicPartition(topic, partition): 0 for partition in range(5)}
    for record in read:
        ends[TopicPartition(topic, record.partition)] += 1
    assert dict(result.offsets) == {where: (range(end),) for where, end in ends.items()}
    expected = sorted(
        (timestamp, key, value, tuple(names or ()))
        for timestamp, key, value, names in zip(timestamps, keys, values, headers, strict=True)
    )
    assert sorted((r.timestamp, r.key, r.value, r.headers) for r in read) == expected


async def test_send_many_takes_any_iterable_and_one_for_all(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async def values() -> AsyncIterator[bytes]:
        for number in range(50):
            yield b"async %d" % number
            await asyncio.sleep(0)

    def generated() -> Iterator[bytes]:
        yield from (b"sync %d" % number for number in range(50))

    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        for many in (values(), generated(), (), {b"in a set"}):
            result = await producer.send_many(
                kafka_topic, many, partition=0, headers=[("all", b"same")], timestamps=NOON
            )
            assert result.failures == ()
    read = await stored(kafka_cluster, kafka_topic)
    expected = [*(b"async %d" % n for n in range(50)), *(b"sync %d" % n for n in range(50)), b"in a set"]
    assert [record.value for record in read] == expected
    assert {(record.headers, record.timestamp) for record in read} == {((("all", b"same"),), NOON_MS)}


async def test_send_many_reports_each_bad_record_by_its_index(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    values = [b"0", "not bytes", b"2", b"x" * 2_000_000, b"4"]
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        result = await producer.send_many(kafka_topic, values, timestamps=[1, 2, 3, 4, -5])
        with pytest.raises(InvalidRecordError, match="values of type bytes"):
            await producer.send_many(kafka_topic, b"values")
        with pytest.raises(InvalidRecordError, match="3 keys for 2 values"):
            await producer.send_many(kafka_topic, [b"a", b"b"], keys=[b"1", b"2", b"3"])
    assert result.count == 5
    assert [index for index, _ in result.failures] == [1, 3, 4]
    assert dict(result.offsets) == {TopicPartition(kafka_topic, 0): (range(2),)}
    assert await values_in(kafka_cluster, kafka_topic) == [b"0", b"2"]


# --- waiting


async def test_drain_waits_for_room(kafka_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(kafka_cluster, 3)
    full = 0
    async with Producer(kafka_cluster.bootstrap_servers, buffer_memory=100_000, batch_size=10_000) as producer:
        for number in range(5000):
            while True:
                try:
                    producer.send_nowait(topic, b"%d" % number * 50)
                    break
                except BufferFullError:
                    full += 1
                    await producer.drain()
    assert 5 < full < 500, "a drain makes room for many records"
    assert sorted(await values_in(kafka_cluster, topic), key=str) == sorted(
        (b"%d" % number * 50 for number in range(5000)), key=str
    )


async def test_sends_wait_for_room_in_their_order(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers, buffer_memory=20_000, batch_size=4000) as producer:
        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(producer.send(kafka_topic, b"%d" % number + b"." * 200))
            group.create_task(producer.flush())
        result = await producer.send_many(kafka_topic, (b"many %d" % number * 20 for number in range(1000)))
    assert result.failures == ()
    numbers = [b"%d" % number + b"." * 200 for number in range(1000)]
    assert await values_in(kafka_cluster, kafka_topic) == numbers + [b"many %d" % number * 20 for number in range(1000)]


@pytest.mark.parametrize("way", ["send", "submit"])
async def test_a_cancelled_record_is_not_sent(kafka_cluster: KafkaCluster, kafka_topic: str, way: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, adaptive_linger=False) as producer:
        await producer.partitions_for(kafka_topic)
        kept = [producer.submit(kafka_topic, b"first")]
        if way == "send":
            task = asyncio.create_task(producer.send(kafka_topic, b"cancelled"))
            await asyncio.sleep(0)
            assert producer.buffered.records == 2
            task.cancel()
            await asyncio.wait([task])
        else:
            assert producer.submit(kafka_topic, b"cancelled").cancel()
        assert producer.buffered.records == 1
        kept.append(producer.submit(kafka_topic, b"last"))
        await producer.flush()
        assert [future.result().offset for future in kept] == [0, 1]
        report = await producer.close()
    assert report == DeliveryReport(delivered=2)
    assert await values_in(kafka_cluster, kafka_topic) == [b"first", b"last"]


# --- the end


async def test_close_delivers_and_reports(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, adaptive_linger=False)
    assert await Producer(kafka_cluster.bootstrap_servers).close() == DeliveryReport()
    await producer.start()
    with pytest.raises(SerializationError):
        producer.submit(kafka_topic, "not bytes")
    futures = [producer.submit(kafka_topic, b"%d" % number) for number in range(100)]
    result = asyncio.create_task(producer.send_many(kafka_topic, [b"many"] * 100, partition=0))
    while producer.buffered.records < 200:
        await asyncio.sleep(0)
    report = await producer.close()
    assert report == DeliveryReport(delivered=200)
    assert await producer.close() == report
    assert [future.result().offset for future in futures] == list(range(100))
    assert (await result).failures == ()
    with pytest.raises(ProducerClosedError):
        await producer.send(kafka_topic, b"late")
    with pytest.raises(UsageError):
        await producer.start()
    assert len(await stored(kafka_cluster, kafka_topic)) == 200


async def test_close_at_once_reports_what_was_not_sent(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    producer = Producer(kafka_cluster.bootstrap_servers, linger_ms=60_000, adaptive_linger=False)
    await producer.start()
    for _ in range(3):
        producer.submit(kafka_topic, b"delivered")
    await producer.flush()
    futures = [producer.submit(kafka_topic, b"%d" % number) for number in range(10)]
    report = await producer.close(0)
    assert (report.delivered, report.not_sent, report.unknown, report.rejected) == (3, 10, 0, 0)
    assert {future.exception() for future in futures} == set(report.undelivered)
    assert await values_in(kafka_cluster, kafka_topic) == [b"delivered"] * 3


def test_on_uvloop(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async def main() -> list[bytes | None]:
        async with Producer(kafka_cluster.bootstrap_servers, compression_type="lz4") as producer:
            await producer.send(kafka_topic, b"send")
            futures = [producer.submit(kafka_topic, b"%d" % number) for number in range(2000)]
            await producer.flush()
            assert [future.result().offset for future in futures] == list(range(1, 2001))
            assert (await producer.send_many(kafka_topic, [b"many"] * 2000)).failures == ()
        return await values_in(kafka_cluster, kafka_topic)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        values = runner.run(main())
    assert values == [b"send", *(b"%d" % number for number in range(2000)), *[b"many"] * 2000]


async def test_metrics_count_what_was_sent(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers) as producer:
        await producer.send_many(kafka_topic, [b"value"] * 1000)
        metrics = producer.metrics()
    assert metrics["record_send_total"] == 1000
    assert metrics["record_error_total"] == metrics["record_retry_total"] == 0
    assert metrics["connection_count"] >= 1
    assert metrics["buffer_available_bytes"] == metrics["buffer_total_bytes"]
