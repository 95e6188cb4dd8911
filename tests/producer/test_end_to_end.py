"""Every call style from the call to the broker's log and back, on both event loops."""

from __future__ import annotations

import asyncio
import datetime
from functools import partial
from typing import Any

import pytest

from aioprod import Producer, ProducerRecord, RecordMetadata, TopicPartition
from aioprod.errors import AioprodError
from aioprod.testing import FakeCluster
from tests.support.producers import Outcomes, left_over, new_producer, running


async def test_send_returns_where_the_record_is(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders", partitions=3)
    async with running(brokers) as producer:
        first = await producer.send("orders", b"value", key=b"42", partition=2, timestamp=1234)
        second = await producer.send("orders", None, partition=2, headers=[("a", b"1"), ("b", None)], timestamp=1235)
    assert first == RecordMetadata("orders", 2, 0, 1234, 2, 5)
    assert second == RecordMetadata("orders", 2, 1, 1235, -1, -1)
    stored = topic.partitions[2].records()
    assert [(record.key, record.value, record.timestamp) for record in stored] == [
        (b"42", b"value", 1234),
        (None, None, 1235),
    ]
    assert stored[1].headers == (("a", b"1"), ("b", None))


async def test_submit_gives_a_future_for_each_record(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    async with running(brokers) as producer:
        futures = [producer.submit("orders", b"%d" % n) for n in range(5)]
        assert producer.buffered.records == 5
        assert all(isinstance(future, asyncio.Future) for future in futures)
        await producer.flush()
        assert [(await future).offset for future in futures] == [0, 1, 2, 3, 4]
    assert [record.value for record in topic.records()] == [b"0", b"1", b"2", b"3", b"4"]


async def test_send_nowait_calls_back(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    outcomes = Outcomes()
    async with running(brokers) as producer:
        producer.send_nowait("orders", b"a", on_delivery=outcomes)
        producer.send_nowait("orders", b"b")
        producer.send_nowait("orders", b"c", on_delivery=outcomes)
    assert outcomes.errors == []
    assert outcomes.offsets == [0, 2]
    assert [record.value for record in topic.records()] == [b"a", b"b", b"c"]


class Desk:
    """Something with a method."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def hear(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        assert error is None
        assert metadata is not None
        self.heard.append(metadata.offset)


async def test_a_callback_may_be_anything_that_can_be_called(brokers: FakeCluster) -> None:
    brokers.create_topic("orders")
    desk, outcomes = Desk(), Outcomes()
    async with running(brokers) as producer:
        producer.send_nowait("orders", b"0", on_delivery=desk.hear)
        producer.send_nowait("orders", b"1", on_delivery=partial(Desk.hear, desk))
        producer.send_nowait("orders", b"2", on_delivery=lambda metadata, error: desk.hear(metadata, error))
        producer.send_nowait("orders", b"3", on_delivery=outcomes)
    assert desk.heard == [0, 1, 2]
    assert outcomes.offsets == [3]


async def test_a_future_that_the_user_has_completed_does_no_harm(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    own = RecordMetadata("orders", 0, 99, 5, 1, 1)
    async with running(brokers) as producer:
        futures = [producer.submit("orders", b"%d" % n) for n in range(3)]
        futures[1].set_result(own)
        await producer.flush()
    assert [(await future).offset for future in futures] == [0, 99, 2]
    assert [record.value for record in topic.records()] == [b"0", b"1", b"2"]


async def test_send_many_has_one_result(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    async with running(brokers) as producer:
        result = await producer.send_many("orders", (b"%d" % n for n in range(1200)))
    assert result.count == 1200
    assert result.failures == ()
    assert result.offsets == {TopicPartition("orders", 0): (range(1200),)}
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(1200)]


@pytest.mark.parametrize("style", ["send", "submit", "send_nowait"])
async def test_a_producer_record_can_be_given_instead(brokers: FakeCluster, style: str) -> None:
    topic = brokers.create_topic("orders", partitions=2)
    record = ProducerRecord("orders", b"v", key=b"k", partition=1, headers=[("h", b"x")], timestamp=77)
    async with running(brokers) as producer:
        sent: Any = getattr(producer, style)(record)
        if sent is not None:
            assert (await sent).partition == 1
    (stored,) = topic.partitions[1].records()
    assert (stored.key, stored.value, stored.headers, stored.timestamp) == (b"k", b"v", (("h", b"x"),), 77)


async def test_bytes_like_values_and_aware_datetimes_are_taken(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    when = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.UTC)
    value = bytearray(b"value")
    async with running(brokers) as producer:
        future = producer.submit("orders", value, key=memoryview(b"key"), timestamp=when)
        value[:] = b"XXXXX"
        metadata = await future
    (stored,) = topic.records()
    assert (stored.key, stored.value) == (b"key", b"value")
    assert metadata.timestamp == stored.timestamp == round(when.timestamp() * 1000)


async def test_concurrent_senders_share_requests(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    async with running(brokers) as producer:
        results = await asyncio.gather(*(producer.send("orders", b"%d" % n) for n in range(200)))
    assert [metadata.offset for metadata in results] == list(range(200))
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(200)]
    assert len(topic.partitions[0].log) < 10


async def test_the_context_manager_delivers_what_was_accepted(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    before = asyncio.all_tasks()

    async def work() -> None:
        async with new_producer(brokers.bootstrap, linger_ms=60_000, adaptive_linger=False) as producer:
            producer.send_nowait("orders", b"a")
            raise LookupError("the user's own")

    with pytest.raises(LookupError, match="the user's own"):
        await work()
    assert [record.value for record in topic.records()] == [b"a"]
    assert left_over(before) == []


async def test_several_producers_live_side_by_side(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("orders")
    async with running(brokers) as one, running(brokers, client_id="two") as two:
        assert (await one.send("orders", b"1")).offset == 0
        assert (await two.send("orders", b"2")).offset == 1
    assert len(topic.records()) == 2
    assert {seen.header.client_id for seen in brokers.seen} == {"aioprod", "two"}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_arrives(brokers: FakeCluster, codec: str) -> None:
    topic = brokers.create_topic("orders")
    async with running(brokers, compression_type=codec) as producer:
        await producer.send_many("orders", [b"much the same " * 20] * 50)
        assert (producer.metrics()["compression_rate_avg"] < 0.5) == (codec != "none")
    assert [record.value for record in topic.records()] == [b"much the same " * 20] * 50


async def test_the_future_of_a_submit_can_be_awaited_by_many(brokers: FakeCluster) -> None:
    brokers.create_topic("orders")
    async with running(brokers) as producer:
        future = producer.submit("orders", b"a")

        async def look() -> int:
            return (await future).offset

        assert list(await asyncio.gather(look(), look(), look())) == [0, 0, 0]


async def test_a_producer_can_be_made_outside_a_loop() -> None:
    def make() -> Producer:
        return Producer("127.0.0.1:9")

    producer = await asyncio.to_thread(make)
    assert producer.buffered == (0, 0)
    assert producer.metrics()["record_send_total"] == 0
