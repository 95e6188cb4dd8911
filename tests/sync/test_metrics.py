"""The metrics of a producer for threads can be read in any thread."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from aioprod.errors import UsageError
from aioprod.observability.prometheus import Collector
from aioprod.sync import Producer
from tests.support.producers import PATIENCE_S
from tests.support.threads import in_threads, new_sync_producer, sync_producer, until

SENT = "record_send_total"


def waits_for(thread: threading.Thread) -> bool:
    """Whether the thread waits for the outcome of a future."""
    frame = sys._current_frames().get(thread.ident or 0)
    return frame is not None and frame.f_code.co_name == "wait"


def test_before_the_first_call_nothing_is_started(fake_cluster: Any) -> None:
    before = threading.enumerate()
    producer = new_sync_producer(fake_cluster.bootstrap)
    assert producer.metrics()[SENT] == 0
    assert producer.event_loop is None
    assert threading.enumerate() == before
    producer.close(PATIENCE_S)


def test_any_thread_reads_while_others_send(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:

        def work() -> None:
            for number in range(20):
                producer.send("t", b"%d" % number)
                assert producer.metrics()[SENT] > number

        in_threads([work] * 4)
        assert producer.metrics()[SENT] == 80


def test_a_callback_reads_in_the_thread_of_the_producer(fake_cluster: Any) -> None:
    read: list[float] = []
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"x", on_delivery=lambda metadata, error: read.append(producer.metrics()[SENT]))
        producer.flush(PATIENCE_S)
    assert read == [1]


def test_after_the_close_the_last_values_stay(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"x")
    assert producer.metrics()[SENT] == 1


def test_an_error_is_that_of_the_caller(fake_cluster: Any) -> None:
    def fail(producer: object) -> None:
        raise UsageError("no")

    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"x")
        assert producer._session is not None
        with pytest.raises(UsageError, match="no"):
            producer._session.read(fail)


def test_prometheus_collects_it(fake_cluster: Any) -> None:
    registry = CollectorRegistry()
    with sync_producer(fake_cluster.bootstrap, client_id="shop") as producer:
        registry.register(Collector(producer))
        producer.send("t", b"x")
        assert registry.get_sample_value("aioprod_record_send_total", {"client_id": "shop"}) == 1
    assert Producer(fake_cluster.bootstrap).client_id == "aioprod"


def test_a_thread_that_can_not_be_started_holds_up_no_reader(
    fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = new_sync_producer(fake_cluster.bootstrap)
    read: list[float] = []
    reader = threading.Thread(target=lambda: read.append(producer.metrics()[SENT]))
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        start(reader)
        until(lambda: waits_for(reader))
        raise RuntimeError("no threads")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        with pytest.raises(UsageError, match="can't be started: no threads"):
            producer.send_nowait("t", b"x")
    reader.join(PATIENCE_S)
    assert read == [0]
    producer.close(PATIENCE_S)
