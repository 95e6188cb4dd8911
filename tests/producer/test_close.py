"""close(): delivers what it can in time, fails the rest, leaves nothing behind, and its report adds up."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

from aioprod import DeliveryReport
from aioprod.errors import DeliveryError, ErrorCode, NotSentError, ProducerClosedError, UnknownOutcomeError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import (
    ErrorLog,
    Outcomes,
    ShiftedClock,
    Spy,
    left_over,
    new_producer,
    running,
    turns,
    until,
)

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False, "delivery_timeout_ms": 2_000_000}


def total(report: DeliveryReport) -> int:
    return report.delivered + report.not_sent + report.unknown + report.rejected


async def test_close_delivers_what_was_accepted(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        for n in range(10):
            producer.send_nowait("t", b"%d" % n)
        report = await producer.close()
    assert report == DeliveryReport(delivered=10)
    assert len(topic.records()) == 10


async def test_the_report_counts_every_accepted_record_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers, batch_size=0, retries=0, enable_idempotence=False) as producer:
        await producer.partitions_for("t")
        assert (await producer.send("t", b"delivered")).offset == 0
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
        with pytest.raises(DeliveryError):
            await producer.send("t", b"rejected")
        brokers.fault(ProduceRequest, drop="before")
        with pytest.raises(UnknownOutcomeError):
            await producer.send("t", b"unknown")
        await producer.send("t", b"delivered")
        withdrawn = producer.submit("t", b"withdrawn")
        withdrawn.cancel()
        silence = brokers.fault(ProduceRequest, hold=True)
        on_the_wire = producer.submit("t", b"on the wire", partition=0)
        await silence.reached.wait()
        metadata = brokers.fault(MetadataRequest, hold=True)
        parked = producer.submit("new", b"parked")
        report = await producer.close(0)
        silence.release()
        metadata.end()
    assert (report.delivered, report.rejected, report.unknown, report.not_sent) == (2, 1, 2, 1)
    assert {type(error) for error in report.undelivered} == {UnknownOutcomeError, NotSentError}
    assert len(report.undelivered) == 2, "those that failed before are not of this close"
    assert isinstance(on_the_wire.exception(), UnknownOutcomeError)
    assert isinstance(parked.exception(), NotSentError)


async def test_close_0_does_not_wait(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v")
        report = await producer.close(0)
        with pytest.raises(NotSentError, match="the producer was closed"):
            await future
    assert (report.delivered, report.not_sent, len(report.undelivered)) == (0, 1, 1)
    assert brokers.seen_of(ProduceRequest) == []


@pytest.mark.parametrize("known", [True, False])
async def test_close_with_a_dead_broker_keeps_its_timeout(brokers: FakeCluster, known: bool) -> None:
    brokers.create_topic("t")
    outcomes = Outcomes()
    async with running(brokers, **LINGERING) as producer:
        if known:
            await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        for _ in range(100):
            producer.send_nowait("t", b"v", on_delivery=outcomes)
        sending = asyncio.create_task(producer.send("t", b"v"))
        await turns()
        start = time.monotonic()
        report = await producer.close(0.2)
        assert time.monotonic() - start < 5.0
        with pytest.raises(NotSentError if known else ProducerClosedError):
            await sending
    assert len(outcomes.errors) == 100
    assert report.not_sent == len(report.undelivered) == (101 if known else 100)
    assert total(report) == report.not_sent
    if known:
        assert "close(timeout=0.2) ended first" in str(report.undelivered[0])


async def test_close_with_a_silent_broker(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy, errors = Spy(), ErrorLog()
    async with running(brokers, interceptors=[spy], on_error=errors) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"v")
        await silence.reached.wait()
        producer.send_nowait("t", b"w")
        report = await producer.close(0.05)
        silence.release()
    assert (report.unknown, report.not_sent) == (1, 1)
    assert errors.values == [b"v", b"w"]
    assert [error for _, error in spy.acknowledged] == errors.errors
    assert spy.closed == 1


async def test_close_twice_gives_the_same_report(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        producer.send_nowait("t", b"v")
        one, two = await asyncio.gather(producer.close(), producer.close(1.0))
        assert one is two
        assert await producer.close() is one
    assert one.delivered == 1


async def test_a_cancelled_close_fails_the_rest_at_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    before = asyncio.all_tasks()
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        await silence.reached.wait()
        closing = asyncio.create_task(producer.close())
        await turns()
        assert not future.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(UnknownOutcomeError):
            await future
        report = await producer.close()
        silence.release()
        assert report.unknown == 1
        assert left_over(before) == []


async def test_cancelling_one_of_two_closes_leaves_the_other_its_report(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        await silence.reached.wait()
        one = asyncio.create_task(producer.close())
        two = asyncio.create_task(producer.close())
        await turns()
        one.cancel()
        await asyncio.wait([one])
        report = await two
        silence.release()
        assert total(report) == 1
        await asyncio.wait([future])
        future.exception()


async def test_close_before_start(brokers: FakeCluster) -> None:
    producer = new_producer(brokers.bootstrap)
    assert await producer.close() == DeliveryReport()
    assert await producer.close() == DeliveryReport()
    assert brokers.seen == []


async def test_nothing_is_taken_while_it_closes(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        await hold.reached.wait()
        closing = asyncio.create_task(producer.close())
        await turns(2)
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(ProducerClosedError, match="is closing"):
                call("t", b"v")
        with pytest.raises(ProducerClosedError, match="is closing"):
            await producer.send("t", b"v")
        hold.release()
        assert (await closing).delivered == 1
        assert future.done()
        with pytest.raises(ProducerClosedError, match="is closed"):
            producer.submit("t", b"v")


async def test_close_fails_the_waiters_for_a_topic(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        silence = brokers.fault(MetadataRequest, hold=True)
        waiting = [
            asyncio.create_task(producer.partitions_for("t")),
            asyncio.create_task(producer.send("t", b"v")),
            asyncio.create_task(producer.send_many("t", [b"v"])),
        ]
        await silence.reached.wait()
        future = producer.submit("t", b"v")
        await producer.close(0.01)
        results = await asyncio.gather(*waiting, future, return_exceptions=True)
        silence.release()
    assert [type(result) for result in results] == [ProducerClosedError] * 3 + [NotSentError]
    refused = results[3]
    assert isinstance(refused, NotSentError)
    assert isinstance(refused.__cause__, ProducerClosedError)


async def test_close_in_the_midst_of_send_many(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    errors = ErrorLog()
    release = asyncio.Event()

    class Values:
        given = 0

        def __aiter__(self) -> Values:
            return self

        async def __anext__(self) -> bytes:
            if self.given:
                await release.wait()
            self.given += 1
            return b"v"

    async with running(brokers, on_error=errors) as producer:
        sending = asyncio.create_task(producer.send_many("t", Values()))
        await until(lambda: topic.records())
        await producer.close()
        release.set()
        with pytest.raises(ProducerClosedError):
            await sending
    assert errors.calls == []


async def test_flushes_end_with_the_close(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"v")
        flushing = asyncio.create_task(producer.flush())
        await silence.reached.wait()
        await producer.close(0)
        await flushing
        assert producer.buffered == (0, 0)
        silence.release()


async def test_a_send_whose_serializer_outlives_the_producer(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    release = asyncio.Event()

    async def serialize(value: str) -> bytes:
        await release.wait()
        return value.encode()

    async with running(brokers, value_serializer=serialize) as producer:
        await producer.partitions_for("t")
        sending = asyncio.create_task(producer.send("t", "v"))
        await turns()
        await producer.close()
        release.set()
        with pytest.raises(ProducerClosedError):
            async with asyncio.timeout(5):
                await sending


async def test_what_was_given_to_the_producer_is_closed(brokers: FakeCluster) -> None:
    closed: list[str] = []

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        def serialize(self, topic: str, headers: Any, value: Any) -> bytes:
            return bytes(value)

        def partition(self, topic: str, key: Any, value: Any, cluster: Any) -> int:
            return 0

        def on_send(self, record: Any) -> Any:
            return record

        def report(self, snapshot: Any) -> None:
            pass

        def close(self) -> None:
            closed.append(self.name)

    async with running(
        brokers,
        key_serializer=Part("key"),
        value_serializer=Part("value"),
        partitioner=Part("partitioner"),
        interceptors=[Part("interceptor")],
        metric_reporters=[Part("reporter")],
    ) as producer:
        await producer.send("t", b"v")
    assert sorted(closed) == ["interceptor", "key", "partitioner", "reporter", "value"]


async def test_no_task_and_no_pending_future_is_left(brokers: FakeCluster) -> None:
    brokers.create_topic("t")

    def pending() -> set[int]:
        gc.collect()
        return {id(held) for held in gc.get_objects() if isinstance(held, asyncio.Future) and not held.done()}

    before_tasks, before = asyncio.all_tasks(), pending()
    async with FakeCluster(2) as others:
        others.create_topic("t", partitions=2)
        producer = new_producer(others.bootstrap)
        await producer.start()
        await producer.send_many("t", [b"%d" % n for n in range(100)])
        silence = others.fault(ProduceRequest, hold=True, times=None)
        producer.send_nowait("t", b"v")
        producer.send_nowait("unknown", b"v")
        flushing = asyncio.create_task(producer.flush())
        await silence.reached.wait()
        await producer.close(0)
        await flushing
        assert left_over(before_tasks) == []
    assert asyncio.all_tasks() == before_tasks
    assert pending() <= before


async def test_a_closed_producer_still_has_metrics(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.send("t", b"v")
    assert producer.buffered == (0, 0)
    assert producer.metrics()["record_send_total"] == 1
    assert producer.metrics()["connection_count"] == 0
