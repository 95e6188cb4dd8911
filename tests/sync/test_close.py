"""The end of a producer for threads: closed, closed twice, dropped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from aioprod import DeliveryReport
from aioprod.errors import DeliveryError, NotSentError, ProducerClosedError, UnknownOutcomeError, UsageError
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.sync import Producer
from aioprod.sync import session as sessions
from aioprod.types import RecordMetadata
from tests.support.producers import PATIENCE_S, Outcomes
from tests.support.threads import in_threads, leaves_no_thread, new_sync_producer, sent_until, sync_producer, until

CALLS: dict[str, Callable[[Producer], object]] = {
    "send": lambda producer: producer.send("t", b"v"),
    "submit": lambda producer: producer.submit("t", b"v"),
    "send_nowait": lambda producer: producer.send_nowait("t", b"v"),
    "send_many": lambda producer: producer.send_many("t", [b"v"]),
    "flush": lambda producer: producer.flush(),
    "drain": lambda producer: producer.drain(),
    "with": lambda producer: producer.__enter__(),
}


def refused(producer: Producer) -> set[str]:
    """What each call raises."""
    said = set()
    for call in CALLS.values():
        with pytest.raises(ProducerClosedError) as raised:
            call(producer)
        said.add(str(raised.value))
    return said


def test_close_delivers_what_was_accepted_and_reports(fake_cluster: Any) -> None:
    with leaves_no_thread():
        producer = new_sync_producer(fake_cluster.bootstrap, linger_ms=60_000, adaptive_linger=False)
        for _ in range(100):
            producer.send_nowait("t", b"v")
        future = producer.submit("t", b"v")
        report = producer.close(PATIENCE_S)
        assert (report.delivered, report.undelivered) == (101, ())
        assert future.result(0).offset >= 0
        assert producer.close() == producer.close(5) == report
        assert refused(producer) == {"The producer is closed and takes no more records."}
    assert len(fake_cluster.records("t")) == 101


def test_a_producer_that_was_never_used() -> None:
    producer = new_sync_producer("localhost:9092")
    assert producer.close() == DeliveryReport()
    assert refused(producer) == {"The producer is closed and takes no more records."}


def test_with_closes(fake_cluster: Any) -> None:
    with leaves_no_thread(), new_sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"v")
    assert len(fake_cluster.records("t")) == 1


def test_close_fails_what_it_can_not_deliver_in_time(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    outcomes = Outcomes()
    held = fake_cluster.fault(ProduceRequest, hold=True)
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0", on_delivery=outcomes)
        fake_cluster.call(held.reached.wait)
        future = producer.submit("t", b"1")
        raised: list[DeliveryError] = []

        def send() -> None:
            with pytest.raises(DeliveryError) as caught:
                producer.send("t", b"2")
            raised.append(caught.value)

        waiting = threading.Thread(target=send)
        waiting.start()
        until(lambda: producer.buffered.records == 3)
        report = producer.close(0.1)
        waiting.join()
        assert (report.delivered, len(raised)) == (0, 1)
        assert len(report.undelivered) == report.unknown + report.not_sent == 3
        assert isinstance(outcomes.errors[0], UnknownOutcomeError)
        assert isinstance(future.exception(0), DeliveryError)
    fake_cluster.call(held.release)


def test_close_ends_a_start(fake_cluster: Any) -> None:
    outcomes = Outcomes()
    held = fake_cluster.fault(MetadataRequest, hold=True, times=None)
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0", on_delivery=outcomes)
        fake_cluster.call(held.reached.wait)
        raised: list[BaseException] = []

        has_come = threading.Event()

        def send() -> None:
            has_come.set()
            with pytest.raises(ProducerClosedError) as caught:
                producer.send("t", b"1")
            raised.append(caught.value)

        thread = threading.Thread(target=send)
        thread.start()
        has_come.wait(PATIENCE_S)
        report = producer.close(0.05)
        thread.join()
        assert len(raised) == 1
        (error,) = outcomes.errors
        assert isinstance(error, NotSentError)
        assert report == DeliveryReport(not_sent=1, undelivered=(error,))
    fake_cluster.call(held.end)
    fake_cluster.call(held.release)


def test_many_threads_close(fake_cluster: Any) -> None:
    reports: list[DeliveryReport] = []
    producer = new_sync_producer(fake_cluster.bootstrap)
    producer.send_nowait("t", b"v")
    in_threads([lambda: reports.append(producer.close(PATIENCE_S)) for _ in range(8)])
    assert reports == [DeliveryReport(delivered=1)] * 8


def test_threads_that_send_while_another_closes_lose_nothing(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    taken = [0] * 8
    outcomes = Outcomes()
    producer = new_sync_producer(fake_cluster.bootstrap)
    producer.send("t", b"first")
    running = threading.Barrier(9)

    def send(thread: int) -> None:
        running.wait()
        taken[thread] = sent_until(producer, ProducerClosedError, b"v", on_delivery=outcomes)

    def close() -> None:
        running.wait()
        producer.close()

    in_threads([*(partial(send, thread) for thread in range(8)), close])
    assert len(outcomes.calls) == len(outcomes.offsets) == sum(taken)
    assert len(fake_cluster.records("t")) == sum(taken) + 1


def test_a_callback_that_blocks_keeps_close_no_longer(fake_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_GRACE_S", 0.05)
    is_here, go = threading.Event(), threading.Event()

    def blocks(metadata: RecordMetadata | None, error: Exception | None) -> None:
        is_here.set()
        go.wait(PATIENCE_S)

    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"v", on_delivery=blocks)
        assert is_here.wait(PATIENCE_S)
        with pytest.raises(UsageError, match=r"is not closed after 0\.05 s: a callback blocks its thread"):
            producer.close(0.05)
        monkeypatch.undo()
        go.set()


def test_a_producer_that_is_dropped_delivers_and_warns(fake_cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    fake_cluster.create_topic("t")
    with leaves_no_thread():
        producer = new_sync_producer(fake_cluster.bootstrap, client_id="shop", linger_ms=60_000, adaptive_linger=False)
        for _ in range(10):
            producer.send_nowait("t", b"v")
        with pytest.warns(ResourceWarning, match=r"Unclosed aioprod\.sync\.Producer 'shop': use `with`"):
            del producer
    assert len(fake_cluster.records("t")) == 10
    assert "aioprod.sync.Producer 'shop' was dropped without being closed, and is closed when 10 records" in caplog.text


@pytest.mark.parametrize("timeout", [-1, "5", True])
def test_a_timeout_that_is_none(timeout: Any) -> None:
    with sync_producer("localhost:9092") as producer:
        for call in (producer.close, producer.flush):
            with pytest.raises(UsageError, match="is not a time"):
                call(timeout)
