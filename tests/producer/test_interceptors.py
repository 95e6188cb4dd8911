"""Interceptors, partitioners and metric reporters: what they see, and in which order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from aioprod import ProducerConfig, ProducerRecord, RecordMetadata
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    ErrorCode,
    InvalidRecordError,
    RecordTooLargeError,
    RejectedError,
)
from aioprod.interceptors import ProducerInterceptor
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import Spy, new_producer, running, until

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False}


class Stamp:
    """Puts its name into the value."""

    def __init__(self, name: bytes) -> None:
        self.name = name

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        record.value += self.name
        record.headers = [*(record.headers or ()), ("stamp", self.name)]
        return record


async def test_interceptors_change_records_in_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(
        brokers, interceptors=[Stamp(b"1"), Stamp(b"2")], value_serializer=lambda v: v + b"!"
    ) as producer:
        await producer.send("t", b"v")
        await producer.submit(ProducerRecord("t", b"w"))
        producer.send_nowait("t", b"x")
        await producer.send_many("t", [b"y"])
    assert [record.value for record in topic.records()] == [b"v12!", b"w12!", b"x12!", b"y12!"]
    assert topic.records()[0].headers == (("stamp", b"1"), ("stamp", b"2"))


async def test_an_interceptor_may_send_a_record_elsewhere(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    other = brokers.create_topic("other", partitions=3)

    class Redirect:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("other", record.value, key=b"k", partition=2)

    async with running(brokers, interceptors=[Redirect()]) as producer:
        metadata = await producer.send("t", b"v")
    assert (metadata.topic, metadata.partition) == ("other", 2)
    assert other.partitions[2].records()[0].key == b"k"


async def test_every_accepted_record_is_acknowledged_once_before_its_sender_returns(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    heard: list[str] = []

    class Listener:
        def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
            heard.append(f"interceptor {metadata.offset}")

    async with running(brokers, interceptors=[Listener()], **LINGERING) as producer:
        await producer.partitions_for("t")
        producer.send_nowait("t", b"0", on_delivery=lambda metadata, error: heard.append("callback 0"))
        future = producer.submit("t", b"1")
        future.add_done_callback(lambda done: heard.append("future 1"))
        producer.send_nowait("t", b"2")
        many = asyncio.create_task(producer.send_many("t", [b"3", b"4"]))
        await until(lambda: producer.buffered.records == 5)
        await producer.flush()
        await future
        await many
    assert [line for line in heard if line != "future 1"] == [
        "interceptor 0",
        "callback 0",
        "interceptor 1",
        "interceptor 2",
        "interceptor 3",
        "interceptor 4",
    ]
    assert heard.index("future 1") > heard.index("interceptor 1")


async def test_a_failure_names_topic_and_partition(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    spy = Spy()
    async with running(brokers, interceptors=[spy]) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
        with pytest.raises(RejectedError) as raised:
            await producer.send("t", b"v", partition=1)
    ((metadata, error),) = spy.acknowledged
    assert error is raised.value
    assert (metadata.topic, metadata.partition, metadata.offset) == ("t", 1, -1)


async def test_rejected_records_are_reported(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    options: dict[str, Any] = {"buffer_memory": 2000, "batch_size": 2000, "max_request_size": 2000, **LINGERING}
    async with running(brokers, interceptors=[spy], **options) as producer:
        await producer.partitions_for("t")
        with pytest.raises(InvalidRecordError):
            producer.submit("t", b"v", partition=5)
        producer.send_nowait("t", b"x" * 1500)
        with pytest.raises(BufferFullError):
            producer.submit("t", b"x" * 1500)
        with pytest.raises(InvalidRecordError):
            await producer.send_many("t", [b"x"], partition=5)
        with pytest.raises(RecordTooLargeError):
            await producer.send_many("t", [b"x" * 3000])
    assert [(metadata.partition, type(error).__name__) for metadata, error in spy.acknowledged] == [
        (5, "InvalidRecordError"),
        (-1, "BufferFullError"),
        (-1, "RecordTooLargeError"),
        (0, "NoneType"),
    ]


async def test_a_send_that_waits_for_room_is_acknowledged_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    options: dict[str, Any] = {"buffer_memory": 2000, "batch_size": 2000, "max_request_size": 2000, **LINGERING}
    async with running(brokers, interceptors=[spy], **options) as producer:
        await producer.partitions_for("t")
        producer.send_nowait("t", b"x" * 1500)
        sending = asyncio.create_task(producer.send("t", b"x" * 1500))
        await until(lambda: len(spy.acknowledged) == 1)
        await producer.flush()
        await sending
    assert [error for _, error in spy.acknowledged] == [None, None]


async def test_an_interceptor_class_is_configured_and_closed(brokers: FakeCluster) -> None:
    seen: list[object] = []

    class Configured(ProducerInterceptor):
        def configure(self, config: ProducerConfig) -> None:
            seen.append(config.client_id)

        def close(self) -> None:
            seen.append("closed")

    async with running(brokers, interceptors=[Configured], client_id="me"):
        pass
    assert seen == ["me", "closed"]


class Fixed:
    """A partitioner that returns what it is told, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, bytes | None, bytes | None]] = []

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Any) -> int:
        self.asked.append((topic, key, value))
        if isinstance(self.answer, Exception):
            raise self.answer
        chosen: int = self.answer
        return chosen


async def test_a_partitioner_sees_serialized_keys_and_values(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=4)
    fixed = Fixed(3)
    async with running(brokers, partitioner=fixed, key_serializer="string", value_serializer="string") as producer:
        assert (await producer.send("t", "v", key="k")).partition == 3
        assert (await producer.send("t", "w")).partition == 3
        assert (await producer.send("t", "x", partition=1)).partition == 1, "who names a partition gets it"
    assert fixed.asked == [("t", b"k", b"v"), ("t", None, b"w")]


class UnshowableError(Exception):
    """Neither raised nor returned can it be shown."""

    def __repr__(self) -> str:
        raise LookupError("no repr")


@pytest.mark.parametrize("answer", [4, -1, "0", None, LookupError("no idea"), UnshowableError(), [UnshowableError()]])
async def test_a_partitioner_that_makes_no_sense(brokers: FakeCluster, answer: Any) -> None:
    brokers.create_topic("t", partitions=4)
    async with running(brokers, partitioner=Fixed(answer)) as producer:
        await producer.partitions_for("t")
        with pytest.raises(InvalidRecordError, match="The partitioner Fixed"):
            producer.submit("t", b"v")
        with pytest.raises(InvalidRecordError, match="The partitioner Fixed"):
            await producer.send("t", b"v")
        with pytest.raises(InvalidRecordError, match="The partitioner Fixed"):
            await producer.send_many("t", [b"v"] * 3)
        assert producer.buffered == (0, 0)


class FailsOnNewBatch(Fixed):
    def on_new_batch(self, topic: str, cluster: Any, previous: int) -> None:
        raise KeyError("on_new_batch")


@pytest.mark.parametrize("known", [True, False])
async def test_a_partitioner_that_fails_for_a_new_batch(brokers: FakeCluster, known: bool) -> None:
    brokers.create_topic("t")
    async with running(brokers, partitioner=FailsOnNewBatch(0)) as producer:
        if known:
            await producer.partitions_for("t")
        with pytest.raises(InvalidRecordError, match="The partitioner FailsOnNewBatch"):
            async with asyncio.timeout(10):
                await producer.send("t", b"v")
        assert producer._engine.guard.cause is None
        assert producer.buffered == (0, 0)


async def test_partitioners_by_name(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    async with running(brokers, partitioner="round_robin") as producer:
        partitions = [(await producer.send("t", b"v")).partition for _ in range(6)]
    assert sorted(partitions) == [0, 0, 1, 1, 2, 2]
    async with running(brokers) as producer:
        same = {(await producer.send("t", b"v", key=b"key")).partition for _ in range(5)}
    assert len(same) == 1


class Reporter:
    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken
        self.reports: list[Mapping[str, float]] = []

    def report(self, snapshot: Mapping[str, float]) -> None:
        self.reports.append(snapshot)
        if self.broken:
            raise RuntimeError("reporter is broken")


async def test_metric_reporters_get_all_metrics(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    broken, working = Reporter(broken=True), Reporter()
    options: dict[str, Any] = {"metric_reporters": [broken, working], "metrics_sample_window_ms": 1}
    async with running(brokers, **options) as producer:
        await until(lambda: len(working.reports) >= 3)
        assert working.reports[0].keys() == producer.metrics().keys()
    reported = len(working.reports)
    await asyncio.sleep(0.005)
    assert len(working.reports) == reported, "none after close"
    assert len(broken.reports) == reported
    assert any(record.levelno == logging.ERROR and "reporter" in record.message for record in caplog.records)


async def test_a_producer_that_could_not_start_closes_its_parts_too() -> None:
    spy = Spy()
    producer = new_producer("127.0.0.1:1", max_block_ms=10, interceptors=[spy])
    with pytest.raises(AioprodError):
        await producer.start()
    assert spy.closed == 1
    await producer.close()
    assert spy.closed == 1
