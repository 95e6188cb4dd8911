"""A batch that is too large for the topic goes on in smaller ones, in order and with the same waiters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import DeliveryError, ErrorCode, RejectedError
from aioprod.messages import ProduceRequest
from aioprod.records.compression import Compression
from aioprod.testing import FakeCluster
from tests.support.producers import ErrorLog, Outcomes, produced, running, turns, until

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False}


async def test_all_kinds_of_waiters_keep_their_records(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    brokers.state.message_max_bytes = 400
    outcomes = Outcomes()
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"%d " % n + b"x" * 50) for n in range(10)]
        many = asyncio.create_task(producer.send_many("t", [b"%d " % n + b"x" * 50 for n in range(10, 30)]))
        await until(lambda: producer.buffered.records == 30)
        for n in range(30, 40):
            producer.send_nowait("t", b"%d " % n + b"x" * 50, on_delivery=outcomes if n % 2 else None)
        assert producer.buffered.records == 40
        await producer.flush()
        assert [(await future).offset for future in futures] == list(range(10))
        result = await many
        assert producer.metrics()["batch_split_total"] >= 3
        report = await producer.close()
    assert result.offsets == {TopicPartition("t", 0): (range(10, 30),)}
    assert outcomes.offsets == [31, 33, 35, 37, 39]
    assert [int((record.value or b"").split()[0]) for record in topic.records()] == list(range(40))
    assert report.delivered == 40


async def test_flush_waits_for_the_parts(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        hold = brokers.fault(ProduceRequest, hold=True)
        for n in range(10):
            producer.send_nowait("t", b"%d" % n)
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        await turns()
        assert not flushing.done()
        hold.release()
        await flushing
        assert producer.buffered == (0, 0)
    assert [record.value for record in topic.records()] == [b"%d" % n for n in range(10)]


async def test_later_batches_do_not_overtake_the_parts(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=300, linger_ms=0) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(6)]
        await held.reached.wait()
        futures += [producer.submit("t", b"%d" % n + b" " * 50) for n in range(6, 30)]
        held.release()
        assert [(await future).offset for future in futures] == list(range(30))
    assert [int(record.value or b"") for record in topic.records()] == list(range(30))


async def test_one_record_that_is_too_large_fails_alone(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    brokers.state.message_max_bytes = 500
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"x" * (600 if n == 3 else 20)) for n in range(8)]
        await producer.flush()
        failed = [n for n, future in enumerate(futures) if future.exception() is not None]
        error = futures[3].exception()
    assert failed == [3]
    assert isinstance(error, RejectedError)
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len(topic.records()) == 7


async def test_a_split_run_that_fails_in_part_names_the_right_records(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    brokers.state.message_max_bytes = 500
    values = [b"x" * (600 if n in (3, 8) else 20) for n in range(12)]
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        many = asyncio.create_task(producer.send_many("t", values, partition=1))
        await until(lambda: producer.buffered.records == 12)
        await producer.flush()
        result = await many
    assert [index for index, _ in result.failures] == [3, 8]
    assert all(isinstance(error, RejectedError) for _, error in result.failures)
    assert result.count == 12
    assert sum(len(offsets) for offsets in result.offsets[TopicPartition("t", 1)]) == 10
    assert len(topic.partitions[1].records()) == 10


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
async def test_parts_of_a_compressed_batch(brokers: FakeCluster, codec: str) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, compression_type=codec, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE, times=2)
        values = [b"much the same %d" % n for n in range(40)]
        for value in values:
            producer.send_nowait("t", value)
        await producer.flush()
    assert [record.value for record in topic.records()] == values
    assert {batch.codec for batch in topic.partitions[0].batches()} == {int(Compression.of(codec))}


async def test_a_withdrawn_record_stays_away_from_the_parts(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        futures = [producer.submit("t", b"%d" % n) for n in range(6)]
        futures[2].cancel()
        await producer.flush()
        assert [(await futures[n]).offset for n in (0, 1, 3, 4, 5)] == [0, 1, 2, 3, 4]
    assert [record.value for record in topic.records()] == [b"0", b"1", b"3", b"4", b"5"]
    assert len(produced(brokers)[0][0][2]) == 5


async def test_a_cancelled_waiter_of_a_part(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    errors = ErrorLog()
    async with running(brokers, on_error=errors, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        hold = brokers.fault(ProduceRequest, hold=True, error=ErrorCode.POLICY_VIOLATION)
        futures = [producer.submit("t", b"%d" % n) for n in range(4)]
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        futures[0].cancel()
        futures[3].cancel()
        hold.release()
        await flushing
        failed = [n for n in (1, 2) if isinstance(futures[n].exception(), DeliveryError)]
    assert len(failed) + len(topic.records()) - 1 == 2
    assert errors.values == [b"0"]
    assert (topic.records()[-1].value) == b"3", "it was sent once before, so it went on"


async def test_close_while_the_parts_are_on_their_way(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(10)]
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        report = await producer.close(0)
        await flushing
        assert all(isinstance(future.exception(), DeliveryError) for future in futures)
        hold.release()
    assert (report.delivered, report.unknown + report.not_sent + report.rejected) == (0, 10)
