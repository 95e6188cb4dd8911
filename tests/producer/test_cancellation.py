"""Cancelling: before its batch is sent a record is taken back, after that it goes on and its outcome is reported."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, ErrorCode, RejectedError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import ErrorLog, Spy, produced, running, turns, until

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False}

Start = Callable[[Producer, bytes], "asyncio.Future[RecordMetadata]"]


def by_send(producer: Producer, value: bytes) -> asyncio.Future[RecordMetadata]:
    return asyncio.ensure_future(producer.send("t", value))


def by_submit(producer: Producer, value: bytes) -> asyncio.Future[RecordMetadata]:
    return producer.submit("t", value)


both_styles = pytest.mark.parametrize("start", [by_send, by_submit])


async def cancelled(future: asyncio.Future[RecordMetadata]) -> None:
    """Cancel it, and see that it ends so."""
    assert future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future


@both_styles
async def test_before_the_drain_the_record_is_gone_and_its_bytes_are_back(brokers: FakeCluster, start: Start) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, interceptors=[spy], **LINGERING) as producer:
        await producer.partitions_for("t")
        future = start(producer, b"a")
        await turns()
        assert producer.buffered.records == 1
        await cancelled(future)
        assert producer.buffered == (0, 0)
        await producer.flush()
        report = await producer.close()
    assert produced(brokers) == []
    assert spy.acknowledged == [], "a record that was withdrawn has no outcome"
    assert (report.delivered, report.not_sent) == (0, 0)


@both_styles
async def test_a_withdrawn_record_leaves_the_others_of_its_batch(brokers: FakeCluster, start: Start) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        futures = [start(producer, b"%d" % n) for n in range(7)]
        await turns()
        held = producer.buffered
        for n in (0, 3, 6):
            await cancelled(futures[n])
        assert producer.buffered.records == 4
        assert 0 < producer.buffered.bytes < held.bytes
        futures += [start(producer, b"7")]
        await turns()
        await producer.flush()
        offsets = [(await futures[n]).offset for n in (1, 2, 4, 5, 7)]
        report = await producer.close()
    assert offsets == [0, 1, 2, 3, 4]
    assert [record.value for record in topic.records()] == [b"1", b"2", b"4", b"5", b"7"]
    assert report.delivered == 5


async def test_all_kinds_of_waiters_share_a_batch_with_withdrawn_records(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    heard: list[int] = []

    def called_back(metadata: RecordMetadata | None, error: object) -> None:
        assert metadata is not None
        heard.append(metadata.offset)

    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        doomed = producer.submit("t", b"doomed")
        many = asyncio.create_task(producer.send_many("t", [b"0", b"1"]))
        await until(lambda: producer.buffered.records == 3)
        doomed_too = producer.submit("t", b"doomed too")
        producer.send_nowait("t", b"2", on_delivery=called_back)
        producer.send_nowait("t", b"3")
        last = producer.submit("t", b"4")
        doomed.cancel()
        doomed_too.cancel()
        await producer.flush()
        result = await many
        assert (await last).offset == 4
    assert list(result.offsets.values()) == [(range(2),)]
    assert heard == [2]
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(5)]


@both_styles
async def test_a_parked_record_is_taken_back(brokers: FakeCluster, start: Start) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        futures = [start(producer, b"%d" % n) for n in range(3)]
        await held.reached.wait()
        await cancelled(futures[1])
        assert producer.buffered.records == 2
        flushing = asyncio.create_task(producer.flush())
        await turns(2)
        await cancelled(futures[0])
        assert not flushing.done()
        held.release()
        assert (await futures[2]).offset == 0
        await flushing
    assert [record.value for record in topic.records()] == [b"2"]


@both_styles
async def test_a_record_that_was_parked_before_is_taken_back_too(brokers: FakeCluster, start: Start) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        future = start(producer, b"a")
        await turns(2)
        await producer.partitions_for("t")
        assert producer.buffered.records == 1
        await cancelled(future)
        assert producer.buffered == (0, 0)
    assert produced(brokers) == []


@both_styles
async def test_after_the_drain_the_record_is_delivered(brokers: FakeCluster, start: Start) -> None:
    topic = brokers.create_topic("t")
    spy, errors = Spy(), ErrorLog()
    async with running(brokers, interceptors=[spy], on_error=errors) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        future = start(producer, b"a")
        await hold.reached.wait()
        await cancelled(future)
        assert producer.buffered.records == 1
        hold.release()
        await producer.flush()
        report = await producer.close()
    assert [record.value for record in topic.records()] == [b"a"]
    assert [(metadata.offset, error) for metadata, error in spy.acknowledged] == [(0, None)]
    assert errors.calls == []
    assert report.delivered == 1


@both_styles
async def test_after_the_drain_a_failure_goes_to_on_error(brokers: FakeCluster, start: Start) -> None:
    brokers.create_topic("t")
    spy, errors = Spy(), ErrorLog()
    async with running(brokers, interceptors=[spy], on_error=errors) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True, error=ErrorCode.INVALID_REQUIRED_ACKS)
        future = start(producer, b"a")
        await hold.reached.wait()
        await cancelled(future)
        hold.release()
        await producer.flush()
    ((error, record),) = errors.calls
    assert isinstance(error, RejectedError)
    assert (record.topic, record.value, record.partition) == ("t", b"a", 0)
    assert [heard for _, heard in spy.acknowledged] == [error]


@both_styles
async def test_a_record_that_waits_for_its_retry_is_delivered(brokers: FakeCluster, start: Start) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, retry_backoff_ms=200, retry_backoff_max_ms=200) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        future = start(producer, b"a")
        await until(lambda: producer.metrics()["record_retry_total"] == 1)
        await cancelled(future)
        assert producer.buffered.records == 1, "it was sent once: nobody knows yet"
        await producer.flush()
    assert [record.value for record in topic.records()] == [b"a"]


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS])
async def test_cancelled_in_the_turn_in_which_the_outcome_came(brokers: FakeCluster, code: ErrorCode) -> None:
    brokers.create_topic("t")
    errors = ErrorLog()
    async with running(brokers, on_error=errors) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True, error=code)
        record = producer.send("t", b"a", key=b"k", headers=[("h", b"1")], timestamp=5)
        sending = asyncio.create_task(record)

        def cancel(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            sending.cancel()

        await turns(1)
        # The callback of the next record in the batch runs right after the outcome of the first was set.
        producer.send_nowait("t", b"b", on_delivery=cancel)
        await hold.reached.wait()
        hold.release()
        with pytest.raises(asyncio.CancelledError):
            await sending
    if code == ErrorCode.NONE:
        assert errors.calls == []
        return
    ((error, rebuilt),) = errors.calls
    assert isinstance(error, RejectedError)
    assert (rebuilt.topic, rebuilt.value, rebuilt.key, rebuilt.timestamp) == ("t", b"a", b"k", 5)
    assert rebuilt.partition == 0
    assert tuple(rebuilt.headers or ()) == (("h", b"1"),)


async def test_cancelling_a_finished_future_changes_nothing(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        future = producer.submit("t", b"a")
        await producer.flush()
        assert not future.cancel()
        assert (await future).offset == 0


async def test_a_timeout_around_send_takes_the_record_back(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await producer.send("t", b"a")
        assert producer.buffered == (0, 0)
    assert produced(brokers) == []


async def test_a_withdrawn_record_of_a_queued_batch(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0, linger_ms=0) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(4)]
        await hold.reached.wait()
        await cancelled(futures[2])
        assert producer.buffered.records == 3
        hold.release()
        assert [(await futures[n]).offset for n in (0, 1, 3)] == [0, 1, 2]
    assert [record.value for record in topic.records()] == [b"0", b"1", b"3"]


async def test_withdrawn_records_of_a_failed_batch_get_no_outcome(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy, errors = Spy(), ErrorLog()
    async with running(brokers, interceptors=[spy], on_error=errors, **LINGERING) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"%d" % n) for n in range(3)]
        await cancelled(futures[1])
        report = await producer.close(0)
        assert [future.exception() is not None for future in (futures[0], futures[2])] == [True, True]
    assert len(spy.acknowledged) == 2
    assert sorted(errors.values) == [b"0", b"2"], "nobody had looked at their futures before the end"
    assert (report.not_sent, len(report.undelivered)) == (2, 2)


async def test_a_parked_record_that_was_taken_back_keeps_nothing_alive(brokers: FakeCluster) -> None:
    value = b"x" * 1000
    async with running(brokers) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        before = sys.getrefcount(value)
        producer.send_nowait("t", b"stays")
        futures = [producer.submit("t", value) for _ in range(10)]
        await held.reached.wait()
        assert sys.getrefcount(value) >= before + 10
        for future in reversed(futures):
            future.cancel()
        futures.clear()
        assert sys.getrefcount(value) == before
        held.release()
