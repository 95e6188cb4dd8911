"""What the log is told of partitions: few lines whatever happens, and why something does not move."""

from __future__ import annotations

import logging
import re
from random import Random
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod._log_rate_limit import LINES_MAX, WINDOW_S
from aioprod.errors import ErrorCode, ProducerFencedError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.logs.event_log import PARTITIONS_MAX, PAUSE_S, EventLog
from aioprod.records.builder import RecordBatchBuilder
from aioprod.routing.sticky import StickyChoice
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, pass_time, running, turns, until

pytestmark = pytest.mark.usefixtures("patient")

LOGGER = "aioprod.producer"
PATIENT: dict[str, Any] = {"delivery_timeout_ms": 400_000, "request_timeout_ms": 300_000, "max_block_ms": 300_000}
STUCK_S = 100.0


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def lines(caplog: pytest.LogCaptureFixture, level: int, part: str) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.levelno == level]
    return [text for text in texts if part in text]


async def test_a_partition_that_does_not_move_is_warned_of_with_the_reason(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:
        await producer.partitions_for("t")
        futures = [producer.submit("t", b"v", partition=1) for _ in range(50)]
        for seconds in (STUCK_S + 1, STUCK_S - 10):
            pass_time(producer, clock, seconds)
            await turns()
        assert warnings(caplog) == [], "it may just have begun to wait"
        for count in (1, 2):
            pass_time(producer, clock, STUCK_S / 2)
            await until(lambda: len(warnings(caplog)) == count)  # noqa: B023 - awaited at once
            pass_time(producer, clock, STUCK_S / 2)
            await turns()
            assert len(warnings(caplog)) == count
        assert "t-1 has not moved for 2" in warnings(caplog)[0]
        assert "The partition has no leader" in warnings(caplog)[0]
        brokers.state.move_leader(TopicPartition("t", 1), 1)
        for future in futures:
            await future


async def test_a_partition_that_moves_is_not_warned_of(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:
        held = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"0")
        await held.reached.wait()
        for turn in range(1, 5):
            pass_time(producer, clock, STUCK_S + 1)
            await turns()
            held.release()
            held = brokers.fault(ProduceRequest, hold=True)
            await future
            future = producer.submit("t", b"%d" % turn)
            await held.reached.wait()
        held.release()
        await future
    assert warnings(caplog) == []


async def test_of_many_that_do_not_move_some_are_named(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t", partitions=30)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True, times=None)
        futures = [producer.submit("t", b"v", partition=index) for index in range(30)]
        await held.reached.wait()
        for _ in range(2):
            pass_time(producer, clock, STUCK_S + 1)
            await turns()
        assert len(lines(caplog, logging.WARNING, "on the way to broker 1")) == LINES_MAX
        assert warnings(caplog)[-1] == "20 partitions more: nothing has moved there either"
        held.release()
        for future in futures:
            await future


async def test_records_whose_topic_stays_unknown_are_warned_of(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:
        held = brokers.fault(MetadataRequest, hold=True, times=None)
        future = producer.submit("t", b"v")
        await held.reached.wait()
        for _ in range(2):
            pass_time(producer, clock, STUCK_S + 1)
            await turns()
        (text,) = warnings(caplog)
        assert "Records for topic 't' have waited for 202" in text
        assert "The metadata of topic 't' was requested 1 time" in text
        brokers.create_topic("t")
        held.release()
        await future


async def test_the_same_cause_of_retries_is_logged_ever_more_rarely(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    caplog.set_level(logging.DEBUG, LOGGER)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:

        async def attempts_told(code: ErrorCode, times: int) -> list[int]:
            """Which attempts the log is told of."""
            caplog.clear()
            refused = brokers.fault(ProduceRequest, error=code, times=times)
            await producer.send("t", b"v")
            assert refused.hits == times
            told = lines(caplog, logging.DEBUG, "A batch of t-0 with 1 record goes again in ")
            assert all(f": Broker 1 answered {code.name} for t-0" in line for line in told)
            return [int(line.split("as attempt ")[1].split(":")[0]) for line in told]

        assert await attempts_told(ErrorCode.NOT_ENOUGH_REPLICAS, 20) == [2, 3, 5, 9, 17]
        assert await attempts_told(ErrorCode.REQUEST_TIMED_OUT, 2) == [2, 3], "another cause is news"
        pass_time(producer, clock, PAUSE_S)
        assert await attempts_told(ErrorCode.REQUEST_TIMED_OUT, 1) == [2], "and so is the same one after a while"
        assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


def test_the_causes_of_so_many_partitions_are_remembered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    journal = EventLog()
    sticky = StickyChoice(Random(1), batch_size=1, adaptive=False)
    for index in range(PARTITIONS_MAX + 5):
        batch = Batch(Partition(Topic("t", sticky), index, 5), RecordBatchBuilder(bytearray(100)), 0, 0.0, 1.0)
        journal.retried(batch, 0.0, 0.0)
    assert len(journal._causes) == PARTITIONS_MAX


async def test_leaders_that_move_are_logged(three_brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=20)
    caplog.set_level(logging.DEBUG, LOGGER)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, metadata_max_age_ms=1000) as producer:
        await producer.send("t", b"v", partition=0)
        assert lines(caplog, logging.INFO, "is led by") == [], "those that are new have not moved"
        for leader in (2, None):
            caplog.clear()
            brokers.state.move_leader(TopicPartition("t", 0), leader)
            pass_time(producer, clock, 2.0 + WINDOW_S)
            await until(lambda: lines(caplog, logging.INFO, "is led by"))
            now_by, before_by = ("broker 2", "broker 1") if leader else ("no broker", "broker 2")
            epoch = brokers.state.topics["t"].partitions[0].leader_epoch
            (text,) = lines(caplog, logging.INFO, "is led by")
            assert text == f"t-0 is led by {now_by} now, was by {before_by} (leader epoch {epoch})"
        caplog.clear()
        for index in range(20):
            brokers.state.move_leader(TopicPartition("t", index), 3)
        pass_time(producer, clock, 2.0 + WINDOW_S)
        await until(lambda: lines(caplog, logging.INFO, "is led by"))
        told = [len(lines(caplog, level, "is led by broker 3")) for level in (logging.INFO, logging.DEBUG)]
        moved = sum(told)
        assert told == [LINES_MAX, moved - LINES_MAX]
        assert moved >= 13


async def test_new_epochs_are_logged(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    caplog.set_level(logging.INFO, LOGGER)
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        brokers.fault(ProduceRequest, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await producer.send("t", b"v")
        (text,) = lines(caplog, logging.INFO, "new producer epoch")
        assert text == "t-0: new producer epoch 1 after a batch was lost or rejected (no duplicates, order kept)"


async def test_nothing_is_formatted_for_a_disabled_log(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    caplog.set_level(logging.WARNING, LOGGER)
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        brokers.fault(ProduceRequest, error=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        await producer.send("t", b"v")
        brokers.state.move_leader(TopicPartition("t", 0), 1)
        assert producer._engine.outcomes.event_log.limit._windows == {}


async def test_a_broker_that_throttles_is_warned_of(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, throttle_ms=1)
        await producer.send("t", b"v")
        await producer.send("t", b"v")
    (told,) = warnings(caplog)
    assert re.fullmatch(r"Broker 1 at \S+ throttles this client for 1 ms: it is over its quota", told)


async def test_a_fenced_producer_is_an_error_line(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    async with running(brokers, transactional_id="t") as old, running(brokers, transactional_id="t"):
        with pytest.raises(ProducerFencedError):
            async with old.transaction():
                await old.send("t", b"v")
    (told,) = lines(caplog, logging.ERROR, "has failed")
    assert told.startswith("The producer has failed and takes no more records: ")
