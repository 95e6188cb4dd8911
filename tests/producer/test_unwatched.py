"""Failures that nobody waits for go to on_error, each once; what users' callbacks do wrong breaks nothing."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from dataclasses import replace
from typing import Any

import pytest

from aioprod import ProducerRecord, RecordMetadata
from aioprod.errors import AioprodError, DeliveryError, ErrorCode, RejectedError, UnknownTopicError
from aioprod.messages import ProduceRequest, ProduceResponse
from aioprod.messages.produce import BatchIndexAndErrorMessage
from aioprod.producer.logs.unread_failures import KINDS_MAX, UnreadFailures
from aioprod.testing import FakeCluster
from tests.support.producers import ErrorLog, Outcomes, ShiftedClock, Spy, pass_time, running, turns, until

pytestmark = pytest.mark.usefixtures("patient")

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False}
REFUSED: dict[str, Any] = {"error": ErrorCode.INVALID_REQUIRED_ACKS}


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("aioprod")]


async def test_send_nowait_without_callback(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    errors = ErrorLog()
    async with running(brokers, on_error=errors, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        producer.send_nowait("t", b"a", key=b"k", partition=1, headers=[("h", b"1"), ("h", None)], timestamp=5)
        producer.send_nowait("t", None, partition=1, timestamp=6)
        await producer.flush()
    assert [type(error) for error in errors.errors] == [RejectedError, RejectedError]
    assert errors.errors[0] is not errors.errors[1]
    first, second = (record for _, record in errors.calls)
    assert (first.topic, first.value, first.key, first.partition, first.timestamp) == ("t", b"a", b"k", 1, 5)
    assert tuple(first.headers or ()) == (("h", b"1"), ("h", None))
    assert (second.value, second.key, second.timestamp) == (None, None, 6)


async def test_records_with_a_waiter_do_not_go_to_on_error(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors, outcomes = ErrorLog(), Outcomes()
    async with running(brokers, on_error=errors, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        sending = asyncio.create_task(producer.send("t", b"a"))
        many = asyncio.create_task(producer.send_many("t", [b"b"]))
        await until(lambda: producer.buffered.records == 2)
        future = producer.submit("t", b"c")
        producer.send_nowait("t", b"d", on_delivery=outcomes)
        await producer.flush()
        for waiting in (sending, future):
            with pytest.raises(RejectedError):
                await waiting
        assert len((await many).failures) == 1
        assert len(outcomes.errors) == 1
    assert errors.calls == []


async def test_a_dropped_submit_future_is_reported_soon(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = ErrorLog()
    clock = ShiftedClock()
    async with running(brokers, on_error=errors, clock=clock) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        producer.submit("t", b"dropped", key=b"k", headers=[("h", b"1")])
        await producer.flush()
        # Its age is looked at about once a second, without anything else happening.
        async with asyncio.timeout(5):
            await until(lambda: errors.calls)
    ((error, record),) = errors.calls
    assert isinstance(error, RejectedError)
    assert (record.value, record.key, tuple(record.headers or ())) == (b"dropped", b"k", (("h", b"1"),))


async def test_a_future_that_is_held_is_not_reported_before_the_end(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = ErrorLog()
    clock = ShiftedClock()
    async with running(brokers, on_error=errors, clock=clock) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        held = producer.submit("t", b"held")
        seen = producer.submit("t", b"seen")
        await producer.flush()
        with pytest.raises(RejectedError):
            await seen
        for _ in range(3):
            pass_time(producer, clock, 2.0)
            await turns()
        assert errors.calls == []
    assert errors.values == [b"held"], "nobody had looked at it when the producer closed"
    assert isinstance(held.exception(), RejectedError)


async def test_a_future_that_is_dropped_late_is_reported_too(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = ErrorLog()
    clock = ShiftedClock()
    async with running(brokers, on_error=errors, clock=clock) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        futures = [producer.submit("t", b"late")]
        await producer.flush()
        pass_time(producer, clock, 2.0)
        await turns()
        assert errors.calls == []
        futures.clear()
        pass_time(producer, clock, 2.0)
        await until(lambda: errors.calls)
        pass_time(producer, clock, 2.0)
        await turns()
    assert errors.values == [b"late"]


async def test_asyncio_has_nothing_to_complain_of(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with running(brokers, on_error=ErrorLog()) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        producer.submit("t", b"dropped")
        await producer.flush()
    gc.collect()
    await turns()
    assert complaints == []
    assert warnings_of(caplog) == []


async def test_a_cancelled_send_many_has_its_failures_reported(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors, spy = ErrorLog(), Spy()
    async with running(brokers, on_error=errors, interceptors=[spy], **LINGERING) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True, **REFUSED)
        many = asyncio.create_task(producer.send_many("t", [b"a", b"b"]))
        await until(lambda: producer.buffered.records == 2)
        flushing = asyncio.create_task(producer.flush())
        await hold.reached.wait()
        many.cancel()
        with pytest.raises(asyncio.CancelledError):
            await many
        hold.release()
        await flushing
    assert errors.values == [b"a", b"b"]
    assert [error for _, error in spy.acknowledged] == errors.errors


async def test_the_default_is_one_warning_per_failed_batch(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        for n in range(10):
            producer.send_nowait("t", b"v", partition=n % 2)
        await producer.flush()
    messages = warnings_of(caplog)
    assert len(messages) == 2
    assert all("INVALID_REQUIRED_ACKS" in message for message in messages)
    assert sorted(message.split(":")[0] for message in messages) == [
        f"5 records of t-{index} were not delivered, without on_delivery or future" for index in range(2)
    ]
    assert {record.levelno for record in caplog.records if record.name.startswith("aioprod")} == {logging.WARNING}


async def test_the_warning_says_how_many_of_a_batch_have_no_waiter(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        for on_delivery in (None, Outcomes(), None, Outcomes()):
            producer.send_nowait("t", b"v", on_delivery=on_delivery)
        await producer.flush()
    (message,) = warnings_of(caplog)
    assert message.startswith("4 records of t-0 were not delivered, 2 of them without on_delivery or future: ")


@pytest.mark.parametrize(
    ("count", "start"), [(1, "1 future of a failed record was"), (4, "4 futures of failed records were")]
)
async def test_by_default_dropped_futures_are_counted_in_one_warning(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture, count: int, start: str
) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        for _ in range(count):
            producer.submit("t", b"v")
        await producer.flush()
    (message,) = warnings_of(caplog)
    assert message.startswith(f"{start} never looked at: ")


async def test_a_cancelled_send_that_fails_is_logged_by_default(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True, **REFUSED)
        sending = asyncio.create_task(producer.send("t", b"v"))

        def cancel(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            sending.cancel()

        await turns(1)
        producer.send_nowait("t", b"w", on_delivery=cancel)
        await hold.reached.wait()
        hold.release()
        with pytest.raises(asyncio.CancelledError):
            await sending
    (message,) = warnings_of(caplog)
    assert "without a waiting call" in message


async def test_a_cancelled_send_that_was_not_accepted_yet_is_withdrawn(brokers: FakeCluster) -> None:
    """Its topic turns out to be missing in the turn of the loop in which its caller is cancelled."""
    brokers.state.auto_create = False
    errors = ErrorLog()

    class Canceller(Spy):
        def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
            super().on_acknowledgement(metadata, error)
            if len(self.acknowledged) == 2:
                first.cancel()

    async with running(brokers, on_error=errors, interceptors=[Canceller()]) as producer:
        first = asyncio.create_task(producer.send("missing", b"first"))
        second = asyncio.create_task(producer.send("missing", b"second"))
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert isinstance(second.exception(), UnknownTopicError)
    assert not errors.calls


def counts_of_more(messages: list[str], place: str) -> list[int]:
    """How many records more failed, as each of these lines says."""
    found = [re.match(rf"(\d+) more records? of {place} failed in the same way within ", text) for text in messages]
    return [int(match.group(1)) if match else -1 for match in found]


async def test_failures_like_the_first_are_counted(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, times=None, **REFUSED)
        for _ in range(5):
            producer.send_nowait("t", b"v")
            await producer.flush()
    first, *rest = warnings_of(caplog)
    assert first.startswith("1 record of t-0 was not delivered, without on_delivery or future: ")
    assert sum(counts_of_more(rest, "t-0")) == 4
    assert rest[-1].endswith(first)


async def test_records_that_never_got_a_partition_are_counted(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(brokers) as producer:
        for _ in range(50):
            producer.send_nowait("t", b"v")
        await producer.close(0)
    first, *rest = warnings_of(caplog)
    assert first.startswith("A record failed without a waiting call: A record for topic 't' was not sent: ")
    assert sum(counts_of_more(rest, "topic 't'")) == 49


def test_counted_failures_are_logged_every_ten_seconds_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    unheard = UnreadFailures(lambda: now_s)
    for now_s in (0.0, 4.0, 10.0, 11.0):
        unheard.log_failure("t-0", None, logging.WARNING, 2, f"at {now_s:g}")
    unheard.log_failure("t-0", KeyError(), logging.WARNING, 1, "for another reason")
    unheard.log_failure("t-1", None, logging.WARNING, 1, "elsewhere")
    now_s = 13.0
    unheard.close()
    assert warnings_of(caplog) == [
        "at 0",
        "4 more records of t-0 failed in the same way within 10.0 s, the last: at 10",
        "for another reason",
        "elsewhere",
        "2 more records of t-0 failed in the same way within 3.0 s, the last: at 11",
    ]


def test_so_many_kinds_of_failures_are_counted_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    unheard = UnreadFailures(lambda: 0.0)
    for number in range(KINDS_MAX + 1):
        for _ in range(2):
            unheard.log_failure(f"t-{number}", None, logging.WARNING, 1, "failed")
    unheard.close()
    assert len(warnings_of(caplog)) == 2 * (KINDS_MAX + 1)


class Broken:
    """A callback, on_error, interceptor and metadata listener that always fails."""

    def __init__(self) -> None:
        self.calls = 0

    def _fail(self) -> None:
        self.calls += 1
        raise RuntimeError("broken on purpose")

    def __call__(self, first: Any, second: Any = None) -> None:
        self._fail()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self._fail()
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        self._fail()

    def close(self) -> None:
        self._fail()


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS])
async def test_failing_callbacks_are_logged_and_break_nothing(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    brokers.create_topic("t")
    callback, on_error, interceptor = Broken(), Broken(), Broken()
    outcomes = Outcomes()
    async with running(brokers, on_error=on_error, interceptors=[interceptor], **LINGERING) as producer:
        await producer.partitions_for("t")
        if code != ErrorCode.NONE:
            brokers.fault(ProduceRequest, error=code)
        producer.send_nowait("t", b"a", on_delivery=callback)
        producer.send_nowait("t", b"b")
        producer.send_nowait("t", b"c", on_delivery=outcomes)
        await producer.flush()
        assert producer.metrics()["interceptor_failures"] >= 6
        assert producer._engine.guard.cause is None
    assert callback.calls == 1
    assert on_error.calls == (code != ErrorCode.NONE)
    assert len(outcomes.calls) == 1
    messages = warnings_of(caplog)
    assert any("on_delivery" in message for message in messages)
    assert not any(" object at 0x" in message for message in messages), messages
    assert any("on_error" in message for message in messages) == (code != ErrorCode.NONE)


class Cancelling(Broken):
    """Lets through that something else was cancelled."""

    def _fail(self) -> None:
        self.calls += 1
        raise asyncio.CancelledError


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS])
async def test_a_callback_that_lets_a_cancellation_through_breaks_nothing_either(
    brokers: FakeCluster, code: ErrorCode
) -> None:
    brokers.create_topic("t")
    callback, on_error, interceptor = Cancelling(), Cancelling(), Cancelling()
    outcomes = Outcomes()
    async with running(brokers, on_error=on_error, interceptors=[interceptor], **LINGERING) as producer:
        producer.add_metadata_listener(callback)
        await producer.partitions_for("t")
        if code != ErrorCode.NONE:
            brokers.fault(ProduceRequest, error=code)
        producer.send_nowait("t", b"a", on_delivery=callback)
        producer.send_nowait("t", b"b")
        producer.send_nowait("t", b"c", on_delivery=outcomes)
        await producer.flush()
        assert producer._engine.guard.cause is None
    assert callback.calls >= 2
    assert len(outcomes.calls) == 1


async def test_record_errors_of_records_without_waiters(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = brokers.create_topic("t")

    def blame(answer: ProduceResponse) -> ProduceResponse:
        (of_topic,) = answer.responses
        (part,) = of_topic.partition_responses
        part = replace(part, record_errors=(BatchIndexAndErrorMessage(batch_index=1),))
        return replace(answer, responses=(replace(of_topic, partition_responses=(part,)),))

    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, edit=blame)
        for n in range(3):
            producer.send_nowait("t", b"%d" % n)
        await producer.flush()
        assert producer._engine.guard.cause is None
    assert [record.value for record in topic.records()] == [b"0", b"2"]
    (message,) = warnings_of(caplog)
    assert "INVALID_RECORD" in message


async def test_on_error_may_use_the_producer(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    heard: list[AioprodError] = []

    def send_again(error: AioprodError, record: ProducerRecord) -> None:
        heard.append(error)
        producer.send_nowait(record)

    async with running(brokers, on_error=send_again) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        producer.send_nowait("t", b"a", key=b"k")
        await until(lambda: topic.records())
    assert len(heard) == 1
    assert [(record.key, record.value) for record in topic.records()] == [(b"k", b"a")]


async def test_every_record_gets_its_own_exception(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    outcomes = Outcomes()
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, **REFUSED)
        futures = [producer.submit("t", b"v") for _ in range(3)]
        for _ in range(3):
            producer.send_nowait("t", b"v", on_delivery=outcomes)
        many = asyncio.create_task(producer.send_many("t", [b"v"] * 3))
        await until(lambda: producer.buffered.records == 9)
        await producer.flush()
        errors = [future.exception() for future in futures] + outcomes.errors
        errors += [error for _, error in (await many).failures]
    assert len(errors) == 9
    assert all(isinstance(error, DeliveryError) for error in errors)
    assert len({id(error) for error in errors}) == 9
