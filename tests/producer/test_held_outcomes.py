"""`resolve.unknown.outcomes`: records whose answer was lost get their outcome when it is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from aioprod import Producer, RecordMetadata
from aioprod.config import ProducerConfig
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    ConfigError,
    ErrorCode,
    FlushTimeoutError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from aioprod.messages import FetchRequest, ProduceRequest, ProduceResponse
from aioprod.producer import held_outcomes
from aioprod.producer.batching import unknown as kept
from aioprod.producer.closing import Remainder
from aioprod.sync import Producer as SyncProducer
from aioprod.testing import FakeCluster
from aioprod.testing.fake.faults import Fault
from tests.support import threads
from tests.support.changed_batches import at_broker_time, compacted
from tests.support.producers import PATIENCE_S, ErrorLog, Outcomes, ShiftedClock, Spy, pass_time, running, turns, until

DEADLINE_S = 121.0
"""Behind the `delivery.timeout.ms` of what was sent."""


class Scene:
    """A producer that resolves, some of whose requests are on their way when the deadline of their records passes."""

    def __init__(self, brokers: FakeCluster, producer: Producer, clock: ShiftedClock) -> None:
        self.brokers = brokers
        self.producer = producer
        self.clock = clock
        self.log = brokers.topics["t"].partitions[0]

    def lose(self) -> Fault:
        """From now on requests lurk, and arrive at a `release()`."""
        return self.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None)

    async def expire(self, fault: Fault) -> None:
        """The deadlines of the records that were sent pass, and later requests arrive again."""
        await fault.reached.wait()
        pass_time(self.producer, self.clock, DEADLINE_S)
        await until(lambda: not self.producer._engine.parts.accumulator.incomplete)
        fault.end()

    async def lost(self, value: bytes = b"lost") -> tuple[asyncio.Future[RecordMetadata], Fault]:
        """A record that is held, and the fault at whose `release()` it arrives."""
        fault = self.lose()
        future = self.producer.submit("t", value)
        await self.expire(fault)
        assert not future.done()
        return future, fault

    async def arrives(self, fault: Fault, value: bytes = b"lost") -> None:
        """The lost requests arrive."""
        fault.release()
        await until(lambda: value in self.values())

    async def decide(self) -> None:
        """A later record is acknowledged."""
        await self.producer.send("t", b"later")

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.brokers.records("t")]

    def in_flight(self) -> int:
        """How many batches of the first partition are on their way."""
        return self.producer._engine.parts.accumulator.topics["t"].partitions[0].in_flight

    def counted(self) -> tuple[float, float, float]:
        """How many records were found, are in no log, and stayed unknown."""
        metrics = self.producer.metrics()
        names = ("resolved_stored_total", "resolved_absent_total", "unresolved_total")
        return metrics[names[0]], metrics[names[1]], metrics[names[2]]


def answered_at_broker_time(response: ProduceResponse) -> ProduceResponse:
    """The answer of a topic with LogAppendTime."""
    (topic,) = response.responses
    (row,) = topic.partition_responses
    return replace(
        response, responses=(replace(topic, partition_responses=(replace(row, log_append_time_ms=123_456),)),)
    )


@asynccontextmanager
async def scene(partitions: int = 1, **options: Any) -> AsyncIterator[Scene]:
    clock = ShiftedClock()
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t", partitions=partitions)
        async with running(brokers, clock=clock, resolve_unknown_outcomes=True, **options) as producer:
            producer.submit("t", b"before", partition=0)
            await producer.flush()
            yield Scene(brokers, producer, clock)


# --- the three ways out


async def test_a_record_that_is_stored_is_delivered() -> None:
    async with scene() as played:
        future, fault = await played.lost()
        held = played.producer.buffered
        assert held.records == 1
        assert held.bytes > 0
        async with running(played.brokers) as other:
            await other.send("t", b"other")
        await played.arrives(fault)
        assert not future.done()
        await played.decide()
        place = await future
        assert (place.offset, place.serialized_key_size, place.serialized_value_size) == (2, -1, 4)
        assert place.timestamp == played.log.records()[2].timestamp
        assert played.producer.buffered == (0, 0)
        assert played.counted() == (1, 0, 0)
        assert played.producer.metrics()["record_error_total"] == 0
        report = await played.producer.close()
    assert (report.delivered, report.unknown, report.rejected, report.undelivered) == (3, 0, 0, ())


async def test_its_time_is_that_of_the_broker_where_the_topic_has_that() -> None:
    async with scene() as played:
        future, fault = await played.lost()
        await played.arrives(fault)
        played.log.log[1] = at_broker_time(played.log.log[1], 123_456)
        await played.decide()
        place = await future
        assert (place.offset, place.timestamp) == (1, 123_456)


async def test_a_record_that_is_in_no_log_is_rejected() -> None:
    async with scene() as played:
        future, fault = await played.lost()
        await played.decide()
        with pytest.raises(RejectedError, match="It was found out that it is in no log") as raised:
            await future
        assert not raised.value.may_be_stored
        assert raised.value.age_s >= DEADLINE_S - 1.0
        assert "can be sent again without making duplicates" in str(raised.value)
        fault.release()
        await turns(100)
        assert played.values() == [b"before", b"later"]
        assert played.counted() == (0, 1, 0)
        assert played.producer.metrics()["record_error_total"] == 1


@pytest.mark.parametrize("kept", [set(), {0}])
async def test_a_first_batch_that_compaction_has_removed_or_a_part_of_it(kept: set[int]) -> None:
    """Nothing else of the producer is in the partition, so that the search begins by time, and too late."""
    async with scene(partitions=2, linger_ms=50) as played:
        fault = played.lose()
        log = played.brokers.topics["t"].partitions[1]
        futures = [played.producer.submit("t", b"%d" % one, partition=1, timestamp=1000 + one) for one in range(2)]
        await played.expire(fault)
        fault.release()
        await until(lambda: bool(log.log))
        async with running(played.brokers) as other:
            await other.send("t", b"newer", partition=1)
        log.log[0:1] = [compacted(log.log[0], kept)] if kept else []
        await played.producer.send("t", b"later", partition=1)
        if kept:
            assert [place.offset for place in await asyncio.gather(*futures)] == [0, 1]
        else:
            for future in futures:
                with pytest.raises(UnknownOutcomeError, match="some of the offsets at which it may be are deleted"):
                    await future


async def test_a_record_of_an_idle_partition_stays_unknown_and_can_be_resolved() -> None:
    async with scene() as played:
        future, _ = await played.lost()
        pass_time(played.producer, played.clock, 59.0)
        await turns(50)
        assert not future.done()
        pass_time(played.producer, played.clock, 2.0)
        with pytest.raises(UnknownOutcomeError, match="no later record decided it within 60 s") as raised:
            await future
        assert played.producer.buffered == (0, 0)
        assert played.counted() == (0, 0, 1)
        assert raised.value.resolvable
        assert raised.value.age_s >= DEADLINE_S + 60.0
        await played.decide()
        assert await played.producer.resolve(raised.value, 20) is None


async def test_its_time_begins_when_its_last_attempt_has_failed() -> None:
    async with scene(retries=1, resolve_timeout_ms=20) as played:
        played.brokers.fault(ProduceRequest, error=ErrorCode.REQUEST_TIMED_OUT, times=2)
        with pytest.raises(UnknownOutcomeError, match=r"answered REQUEST_TIMED_OUT.*decided it within 0\.02 s"):
            async with asyncio.timeout(PATIENCE_S):
                await played.producer.send("t", b"lost")


async def test_a_partition_that_can_t_be_read_in_time() -> None:
    async with scene() as played:
        future, _ = await played.lost()
        hold = played.brokers.fault(FetchRequest, hold=True)
        await played.decide()
        await hold.reached.wait()
        pass_time(played.producer, played.clock, 61.0)
        with pytest.raises(UnknownOutcomeError, match="its partition could not be read within 60 s") as raised:
            await future
        hold.release()
        assert await played.producer.resolve(raised.value, 20) is None


async def test_no_right_to_read() -> None:
    async with scene() as played:
        future, _ = await played.lost()
        played.brokers.fault(FetchRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await played.decide()
        with pytest.raises(UnknownOutcomeError, match="this client may not read it") as raised:
            await future
        assert raised.value.resolvable


async def test_a_reading_that_fails_by_our_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("our own")

    async with scene() as played:
        future, _ = await played.lost()
        monkeypatch.setattr("aioprod.producer.stored_batches.read_for", broken)
        await played.decide()
        with pytest.raises(UnknownOutcomeError, match=r"could not be read: RuntimeError\('our own'\)"):
            await future


async def test_what_will_never_be_known_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_MAX", 1)
    async with scene(resolve_timeout_ms=600_000) as played:
        first, _ = await played.lost(b"first")
        second, _ = await played.lost(b"second")
        with pytest.raises(UnknownOutcomeError, match="1 batches became unknown after it") as raised:
            await first
        assert not raised.value.resolvable
        await played.decide()
        with pytest.raises(RejectedError):
            await second


async def test_a_late_answer_is_enough() -> None:
    """It says where the batch is: nothing is read, so that no right is needed."""
    options = {"linger_ms": 90_000, "adaptive_linger": False, "delivery_timeout_ms": 120_000}
    async with (
        scene() as played,
        running(played.brokers, clock=played.clock, resolve_unknown_outcomes=True, **options) as producer,
    ):
        hold = played.brokers.fault(ProduceRequest, hold=True, edit=answered_at_broker_time)
        future = producer.submit("t", b"lost")
        await producer.partitions_for("t")
        pass_time(producer, played.clock, 91.0)
        await hold.reached.wait()
        pass_time(producer, played.clock, 29.5)
        await until(lambda: not producer._engine.parts.accumulator.incomplete)
        assert not future.done()
        hold.release()
        place = await future
        assert (place.offset, place.timestamp) == (1, 123_456)
        assert producer.metrics()["resolved_stored_total"] == 1
        assert played.brokers.seen_of(FetchRequest) == []


async def test_what_was_never_sent_does_not_wait() -> None:
    async with scene() as played:
        await played.brokers.kill(1)
        future = played.producer.submit("t", b"kept")
        await turns()
        pass_time(played.producer, played.clock, DEADLINE_S)
        with pytest.raises(NotSentError):
            await future
        assert played.counted() == (0, 0, 0)


# --- calls


@pytest.mark.parametrize("is_stored", [True, False])
async def test_each_call_gets_it(is_stored: bool) -> None:
    unheard, spy = ErrorLog(), Spy()
    options: dict[str, Any] = {"linger_ms": 60_000, "adaptive_linger": False}
    async with scene(on_error=unheard, interceptor_classes=[spy], **options) as played:
        producer, called = played.producer, Outcomes()
        fault = played.lose()
        send = asyncio.create_task(producer.send("t", b"1"))
        many = asyncio.create_task(producer.send_many("t", [b"2", b"3"]))
        arrow = asyncio.create_task(producer.send_arrow(pa.record_batch({"value": [b"4", b"5"]}), topic="t"))
        submit = producer.submit("t", b"6")
        producer.send_nowait("t", b"7", on_delivery=called)
        producer.send_nowait("t", b"8")
        await until(lambda: producer.buffered.records == 8)
        flushing = asyncio.create_task(producer.flush())
        await played.expire(fault)
        assert producer.buffered.records == 8
        if is_stored:
            await played.arrives(fault, b"8")
        later = producer.submit("t", b"later")
        await producer.flush()
        assert later.done()
        assert flushing.done()
        values = played.values()
        ends = [*await asyncio.gather(send, submit, return_exceptions=True), *called.offsets, *called.errors]
        results = [await many, await arrow]
        spied = [(where.offset, error) for where, error in spy.acknowledged]
        assert len(spied) == 10
        if is_stored:
            assert sorted(value or b"" for value in values[1:-1]) == [b"%d" % number for number in range(1, 9)]
            places = [end.offset if isinstance(end, RecordMetadata) else end for end in ends]
            assert [value_at(values, place) for place in places] == [b"1", b"6", b"7"]
            found = [values[at] for result in results for run in result.offsets.values() for part in run for at in part]
            assert found == [b"2", b"3", b"4", b"5"]
            assert unheard.calls == []
            assert sorted(offset for offset, _ in spied) == list(range(10))
        else:
            assert values == [b"before", b"later"]
            failed = [error for result in results for _, error in result.failures]
            assert [type(end) for end in [*ends, *failed]] == [RejectedError] * 7
            assert unheard.values == [b"8"]
            assert [type(error) for _, error in spied].count(RejectedError) == 8
        assert producer.buffered == (0, 0)


def value_at(values: list[bytes | None], place: object) -> bytes | None:
    assert isinstance(place, int)
    return values[place]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_sender_that_is_cancelled_while_its_record_is_held(is_stored: bool) -> None:
    unheard = ErrorLog()
    async with scene(on_error=unheard) as played:
        fault = played.lose()
        sending = asyncio.create_task(played.producer.send("t", b"lost"))
        await played.expire(fault)
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        assert played.producer.buffered.records == 1, "it was sent, so that it can't be withdrawn"
        if is_stored:
            await played.arrives(fault)
        await played.decide()
        await played.producer.flush()
        assert unheard.values == ([] if is_stored else [b"lost"])
        report = await played.producer.close()
    assert (report.delivered, report.rejected, report.unknown) == ((3, 0, 0) if is_stored else (2, 1, 0))


async def test_the_parts_of_a_batch_that_was_too_large() -> None:
    async with scene(linger_ms=20, adaptive_linger=False) as played:
        played.brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
        fault = played.lose()
        futures = [played.producer.submit("t", b"%d" % number) for number in range(4)]
        await played.expire(fault)
        assert played.producer.metrics()["batch_split_total"] >= 1
        held = played.producer.buffered.records
        assert 0 < held < 4, "one part was sent, and those behind it were not"
        await played.arrives(fault, b"0")
        await played.decide()
        assert [(await future).offset for future in futures[:held]] == list(range(1, 1 + held))
        ends = await asyncio.gather(*futures[held:], return_exceptions=True)
        assert {isinstance(end, AioprodError) and end.may_be_stored for end in ends} == {False}


def test_the_producer_of_threads(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    options = {"request_timeout_ms": 200, "delivery_timeout_ms": 200, "linger_ms": 0}
    with threads.sync_producer(fake_cluster.bootstrap, resolve_unknown_outcomes=True, **options) as producer:
        until_one_is_stored(producer)
        fault = fake_cluster.fault(ProduceRequest, drop="lurking", hold=True, times=None)
        future = producer.submit("t", b"lost")
        fake_cluster.call(fault.reached.wait)
        threads.until(lambda: producer.metrics()["record_error_total"] or fault.hits > 1)
        session = producer._session
        assert session is not None
        threads.until(lambda: session.read(lambda loop: not loop._engine.parts.accumulator.incomplete))
        assert not future.done()
        fault.end()
        until_one_is_stored(producer)
        # A request that was on its way when the fault ended is stored on a slow machine.
        error, values = future.exception(20), [record.value for record in fake_cluster.records("t")]
        assert isinstance(error, RejectedError) != (b"lost" in values)


def until_one_is_stored(producer: SyncProducer) -> None:
    """Send records, which have little time, until one is stored."""
    while True:
        try:
            producer.send("t", b"other")
        except AioprodError:
            continue
        return


# --- flush, close, failure


async def test_flush_waits_for_it() -> None:
    async with scene() as played:
        _, fault = await played.lost()
        with pytest.raises(FlushTimeoutError, match="1 records have no outcome") as raised:
            await played.producer.flush(0.01)
        assert raised.value.remaining == 1
        flushing = asyncio.create_task(played.producer.flush())
        await played.arrives(fault)
        await turns()
        assert not flushing.done()
        await played.decide()
        await flushing
        assert played.producer.buffered == (0, 0)


async def test_close_waits_for_it() -> None:
    async with scene() as played:
        future, fault = await played.lost()
        await played.arrives(fault)
        hold = played.brokers.fault(FetchRequest, hold=True)
        await played.decide()
        closing = asyncio.create_task(played.producer.close(20))
        await hold.reached.wait()
        await turns()
        assert not closing.done()
        hold.release()
        assert (await closing).delivered == 3
        assert (await future).offset == 1


@pytest.mark.parametrize("timeout", [0, 0.01])
@pytest.mark.parametrize("is_read", [True, False])
async def test_close_ends_it_in_time(timeout: float, is_read: bool) -> None:
    async with scene() as played:
        future, _ = await played.lost()
        hold = played.brokers.fault(FetchRequest, hold=True)
        if is_read:
            await played.decide()
            await hold.reached.wait()
        report = await played.producer.close(timeout)
        hold.release()
        hold.end()
        assert (report.unknown, report.delivered) == (1, 1 + is_read)
        with pytest.raises(UnknownOutcomeError, match="the producer ended before"):
            await future
        assert played.counted() == (0, 0, 1)


async def test_close_says_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as played:
        await played.lost()
        parts = played.producer._engine.parts
        with caplog.at_level(logging.INFO, "aioprod.producer"):
            Remainder(parts.accumulator, parts.held, parts.outcomes.explainer, parts.clock, None).log()
        (line,) = caplog.messages
        assert line.startswith("Closing: waiting up to ")
        assert line.endswith("for 1 record, whose answers were lost: whether they are stored is being found out")
        assert "inf" not in line
        await played.decide()


async def test_a_producer_that_fails() -> None:
    async with scene() as played:
        fault = played.lose()
        held = played.producer.submit("t", b"lost")
        await played.expire(fault)
        fault = played.lose()
        in_flight = played.producer.submit("t", b"in flight")
        await fault.reached.wait()
        played.producer._engine.fail(RuntimeError("our own"))
        for future in (held, in_flight):
            with pytest.raises(UnknownOutcomeError):
                await future
        assert played.producer.buffered == (0, 0)
        assert played.counted() == (0, 0, 2)
        fault.end()


# --- bounds


async def test_what_is_held_leaves_memory_to_others() -> None:
    options: dict[str, Any] = {
        "resolve_timeout_ms": 600_000,
        "buffer_memory": 100_000,
        "buffer_memory_stuck_fraction": 0.1,
        "batch_size": 0,
    }
    async with scene(**options) as played:
        first, _ = await played.lost(b"1" * 6000)
        second, _ = await played.lost(b"2" * 6000)
        with pytest.raises(UnknownOutcomeError, match=r"takes more than 10000 bytes of buffer\.memory") as raised:
            await first
        assert raised.value.resolvable
        assert played.producer.buffered.records == 1
        await played.decide()
        with pytest.raises(RejectedError):
            await second
        third, _ = await played.lost(b"3" * 6000)
        await played.decide()
        with pytest.raises(RejectedError):
            await third


async def test_what_is_held_and_what_is_stuck_share_the_memory() -> None:
    async with FakeCluster(2) as brokers:
        clock = ShiftedClock()
        for name, leader in (("t", 1), ("moving", 2)):
            brokers.create_topic(name)
            brokers.move_leader(name, 0, leader)
        options: dict[str, Any] = {"resolve_unknown_outcomes": True, "resolve_timeout_ms": 600_000}
        async with running(brokers, clock=clock, buffer_memory=100_000, **options) as producer:
            await producer.send("moving", b"first")
            played = Scene(brokers, producer, clock)
            held, _ = await played.lost(b"x" * 45_000)
            silent = brokers.fault(ProduceRequest, node=1, hold=True, times=None)
            producer.send_nowait("t", b"x" * 20_000)
            await until(lambda: played.in_flight() == 1)
            pass_time(producer, clock, 10.0)
            await producer.send("moving", b"second")
            pass_time(producer, clock, 1.0)
            producer.send_nowait("t", b"x" * 20_000)
            with pytest.raises(BufferFullError, match="can't be delivered now hold"):
                producer.send_nowait("t", b"x" * 20_000)
            for _ in range(5):
                await producer.send("moving", b"y" * 15_000)
            assert not held.done()
            silent.end()
            silent.release()
            await until(held.done)
            with pytest.raises(RejectedError):
                await held


async def test_batches_are_completed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_outcomes, "_PER_TURN", 2)
    async with scene(batch_size=0, linger_ms=0) as played:
        for is_decided in (True, False):
            fault = played.brokers.fault(ProduceRequest, hold=True, times=None)
            futures = [played.producer.submit("t", b"%d" % number) for number in range(5)]
            await until(lambda: played.in_flight() == 5)
            await played.expire(fault)
            if is_decided:
                await played.decide()
            else:
                played.producer._engine.fail(RuntimeError("broken"))
            ends = await asyncio.gather(*futures, return_exceptions=True)
            assert {type(end) for end in ends} == {RejectedError if is_decided else UnknownOutcomeError}
            fault.release()


async def test_batches_that_one_record_decides_are_read_once() -> None:
    async with scene(batch_size=0, linger_ms=0) as played:
        fault = played.brokers.fault(ProduceRequest, hold=True, times=None)
        futures = [played.producer.submit("t", b"%d" % number) for number in range(5)]
        await until(lambda: played.in_flight() == 5)
        await played.expire(fault)
        assert len(played.producer._engine.parts.done.batches()) == 5
        await played.decide()
        ends = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(end) for end in ends] == [RejectedError] * 5
        assert len(played.brokers.seen_of(FetchRequest)) == 1
        fault.release()


async def test_so_many_partitions_are_read_at_a_time() -> None:
    async with scene(partitions=8, linger_ms=0) as played:
        fault = played.lose()
        futures = [played.producer.submit("t", b"lost", partition=number) for number in range(8)]
        await until(lambda: not played.producer._engine.parts.accumulator.queues[1].ready)
        await played.expire(fault)
        hold = played.brokers.fault(FetchRequest, hold=True, times=None)
        await asyncio.gather(*(played.producer.send("t", b"later", partition=number) for number in range(8)))
        await until(lambda: hold.hits == 5)
        await turns(200)
        assert hold.hits == 5
        hold.release()
        ends = await asyncio.gather(*futures, return_exceptions=True)
        assert {type(end) for end in ends} <= {RejectedError, NotSentError}
        assert hold.hits == sum(isinstance(end, RejectedError) for end in ends) > 5
        hold.end()


# --- what it says


async def test_the_log_says_what_became_of_them(caplog: pytest.LogCaptureFixture) -> None:
    async with scene(resolve_timeout_ms=600_000) as played:
        first, fault = await played.lost()
        await played.arrives(fault)
        second, _ = await played.lost(b"lost too")
        with caplog.at_level(logging.WARNING, "aioprod.producer"):
            await played.decide()
            await asyncio.wait([first, second])
        second.exception()
        said = "The answers for 2 records were lost: 1 are stored, 1 are in no log, and of 0 it is still unknown"
        assert caplog.messages == [said]


async def test_the_log_does_not_wait_for_the_last_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_outcomes, "_LOG_S", 60.0)
    async with scene(partitions=2) as played:
        futures = []
        with caplog.at_level(logging.WARNING, "aioprod.producer"):
            for _ in range(3):
                future, _ = await played.lost()
                futures.append(future)
            pass_time(played.producer, played.clock, 1.0)
            await asyncio.wait(futures[:2])
        assert [line for line in caplog.messages if line.startswith("The answers")] == [
            "The answers for 1 record were lost: 0 are stored, 0 are in no log, and of 1 it is still unknown"
        ] * 2
        for future in futures[:2]:
            future.exception()
        await played.decide()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"enable_idempotence": False}, "needs sequence numbers"),
        ({"acks": 1}, "needs sequence numbers"),
        ({"retries": 0}, "needs sequence numbers"),
        ({"transactional_id": "x"}, "is not for transactions"),
    ],
)
def test_settings_that_contradict_it(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"resolve.unknown.outcomes=true {said}"):
        ProducerConfig.from_options(bootstrap_servers="localhost:9092", resolve_unknown_outcomes=True, **options)
