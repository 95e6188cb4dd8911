"""When the sender breaks, everybody who waits gets the cause at once, and nobody hangs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import BufferFullError, ErrorCode, NotSentError, ProducerClosedError, UnknownOutcomeError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import ErrorLog, Outcomes, left_over, new_producer, running, turns, until

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False, "delivery_timeout_ms": 2_000_000}


class BugError(Exception):
    """What no record is to blame for."""


def breaks(*_: object, **__: object) -> Any:
    raise BugError("on purpose")


async def all_closed(producer: Producer, cause: BaseException) -> None:
    """Every call says that the producer has failed, and why."""
    for call in (producer.submit, producer.send_nowait):
        with pytest.raises(ProducerClosedError, match=r"has failed.*on purpose") as raised:
            call("t", b"v")
        assert raised.value.__cause__ is cause
    for awaitable in (producer.send("t", b"v"), producer.flush(), producer.drain(), producer.partitions_for("t")):
        with pytest.raises(ProducerClosedError, match=r"has failed.*on purpose") as raised:
            await awaitable
        assert raised.value.__cause__ is cause


async def test_every_waiter_gets_the_cause(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t", partitions=2)
    outcomes, errors = Outcomes(), ErrorLog()
    options: dict[str, Any] = {"buffer_memory": 5000, "batch_size": 5000, "max_request_size": 5000, **LINGERING}
    options["max_in_flight_requests_per_connection"] = 1
    async with running(brokers, on_error=errors, **options) as producer:
        await producer.partitions_for("t")
        silence = brokers.fault(ProduceRequest, hold=True)
        in_flight = producer.submit("t", b"in flight", partition=0)
        flushing = asyncio.create_task(producer.flush())
        await silence.reached.wait()
        queued = producer.submit("t", b"queued", partition=0)
        open_batch = asyncio.create_task(producer.send("t", b"open", partition=1))
        producer.send_nowait("t", b"called back", partition=1, on_delivery=outcomes)
        producer.send_nowait("t", b"nobody waits", partition=1)
        many = asyncio.create_task(producer.send_many("t", [b"a", b"b"], partition=1))
        held = brokers.fault(MetadataRequest, hold=True, times=None)
        parked = asyncio.create_task(producer.send("new", b"parked"))
        parked_future = producer.submit("new", b"parked too")
        asking = asyncio.create_task(producer.partitions_for("new"))
        await until(lambda: producer.buffered.records == 9)
        with pytest.raises(BufferFullError):
            producer.submit("t", b"x" * 4900)
        no_room = asyncio.create_task(producer.send("t", b"x" * 4900))
        draining = asyncio.create_task(producer.drain())
        await turns(3)

        monkeypatch.setattr(producer._engine.parts.unknown_topics, "move_on", breaks)
        producer._engine.parts.wake()
        async with asyncio.timeout(5):
            waiting: list[Awaitable[object]] = [
                in_flight,
                queued,
                open_batch,
                parked,
                parked_future,
                asking,
                no_room,
                draining,
            ]
            results = await asyncio.gather(*waiting, return_exceptions=True)
            await flushing
            result = await many
        assert [type(one) for one in results] == [
            UnknownOutcomeError,
            NotSentError,
            NotSentError,
            ProducerClosedError,
            NotSentError,
            ProducerClosedError,
            ProducerClosedError,
            ProducerClosedError,
        ]
        cause = producer._engine.guard.cause
        assert isinstance(cause, BugError)
        for one in results[:3]:
            assert isinstance(one, BaseException)
            assert one.__cause__ is cause
            assert "on purpose" in str(one)
        assert [error.__cause__ for error in outcomes.errors] == [cause]
        assert errors.values == [b"nobody waits"]
        assert [index for index, _ in result.failures] == [0, 1]
        assert producer.buffered == (0, 0)
        await all_closed(producer, cause)
        report = await producer.close()
        silence.release()
        held.release()
    assert (report.delivered, report.unknown, report.not_sent) == (0, 1, 7)
    assert [record for record in caplog.records if record.levelno == logging.ERROR and "has failed" in record.message]


async def test_a_failure_in_the_drain(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        monkeypatch.setattr(producer._engine.parts.client, "link", breaks)
        with pytest.raises(NotSentError, match="on purpose"):
            await producer.send("t", b"v")
        assert isinstance(producer._engine.guard.cause, BugError)
        await all_closed(producer, producer._engine.guard.cause)


async def test_a_failure_while_a_request_is_made(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        monkeypatch.setattr("aioprod.wire.crc.function", lambda: breaks)
        with pytest.raises(NotSentError, match="on purpose"):
            await producer.send("t", b"v")
        assert producer.buffered == (0, 0)


async def test_an_answer_that_breaks_its_reader_is_a_lost_answer(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        # An error in the response is decoded by a function that can be replaced in both builds.
        monkeypatch.setattr("aioprod.producer.outcomes.decode", breaks)
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2)
        await producer.send("t", b"v")
        assert len(brokers.seen_of(ProduceRequest)) == 3
    assert caplog.text.count("BugError: on purpose") == 1


async def test_a_failure_while_an_answer_is_applied(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        monkeypatch.setattr("aioprod.producer.outcomes.judge", breaks)
        with pytest.raises(UnknownOutcomeError, match="on purpose"):
            async with asyncio.timeout(5):
                await producer.send("t", b"v")
        await all_closed(producer, producer._engine.guard.cause or BugError())


async def test_metadata_that_break_their_reader_are_requested_again(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.create_topic("t")
    brokers.create_topic("new")
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        monkeypatch.setattr(producer._engine.parts.client.metadata, "handle_response", breaks)
        sending = asyncio.create_task(producer.send("new", b"v"))
        await until(
            lambda: "on purpose" in repr(getattr(producer._engine.parts.client._refresh.error, "__cause__", None))
        )
        monkeypatch.undo()
        async with asyncio.timeout(5):
            await sending


async def test_only_the_first_failure_counts(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        first = BugError("first, on purpose")
        producer._engine.fail(first)
        producer._engine.fail(BugError("second"))
        assert producer._engine.guard.cause is first


async def test_the_task_of_the_sender_is_cancelled(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v")
        sending = producer._engine._sending
        assert sending is not None
        sending.cancel()
        with pytest.raises(NotSentError, match="was cancelled"):
            async with asyncio.timeout(5):
                await future
        with pytest.raises(ProducerClosedError):
            producer.submit("t", b"v")


def test_a_loop_that_ends_before_the_producer_was_closed(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = Outcomes()

    async def main() -> None:
        async with FakeCluster(1) as brokers:
            brokers.create_topic("t")
            producer = new_producer(brokers.bootstrap, **LINGERING)
            await producer.start()
            await producer.partitions_for("t")
            producer.send_nowait("t", b"v", on_delivery=outcomes)

    with pytest.warns(ResourceWarning, match="Unclosed Producer"):
        asyncio.run(main())
    assert [type(error) for error in outcomes.errors] == [NotSentError]
    assert "its event loop ended" in caplog.text


async def test_close_after_a_failure_leaves_nothing(brokers: FakeCluster) -> None:
    before = asyncio.all_tasks()
    async with running(brokers) as producer:
        producer._engine.fail(BugError("on purpose"))
        await until(lambda: producer._engine.guard.cause is not None)
    assert left_over(before) == []
