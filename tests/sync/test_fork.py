"""A process that forks: the child begins empty, and the parent's records stay the parent's."""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from aioprod.errors import AioprodError, UsageError
from aioprod.messages import ProduceRequest
from aioprod.types import RecordMetadata
from tests.support.producers import PATIENCE_S, Outcomes
from tests.support.threads import new_sync_producer, sync_producer

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows does not fork"),
    # The child calls nothing but the producer, which is what these tests are about.
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def in_child(work: Callable[[], object]) -> Any:
    """Fork; what `work` returns in the child, as JSON knows it, or `{"raised": text}`."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            try:
                said = work()
            except BaseException as error:
                said = {"raised": f"{type(error).__name__}: {error}"}
            os.write(writing, json.dumps(said).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = json.loads(file.read())
    os.waitpid(child, 0)
    return said


def values(cluster: Any) -> list[bytes | None]:
    return sorted(record.value for record in cluster.records("t"))


def test_before_the_first_call(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:

        def work() -> object:
            offset = producer.send("t", b"child").offset
            return [offset, producer.close(PATIENCE_S).delivered]

        assert in_child(work) == [0, 1]
        assert producer.send("t", b"parent").offset == 1
    assert values(fake_cluster) == [b"child", b"parent"]


def test_after_the_first_call(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        assert producer.send("t", b"0").offset == 0

        def work() -> object:
            outcomes = Outcomes()
            producer.send_nowait("t", b"1", on_delivery=outcomes)
            stored = producer.submit("t", b"2").result(PATIENCE_S)
            report = producer.close(PATIENCE_S)
            return [outcomes.offsets, stored.offset, report.delivered]

        assert in_child(work) == [[1], 2, 2]
        assert producer.send("t", b"3").offset == 3
    assert values(fake_cluster) == [b"0", b"1", b"2", b"3"]


def test_what_waits_stays_the_parents(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    held = fake_cluster.fault(ProduceRequest, hold=True)
    outcomes = Outcomes()
    with sync_producer(fake_cluster.bootstrap) as producer:
        on_the_way = producer.submit("t", b"0")
        called: list[Future[RecordMetadata]] = []
        on_the_way.add_done_callback(called.append)
        fake_cluster.call(held.reached.wait)
        producer.send_nowait("t", b"1", on_delivery=outcomes)
        waiting = producer.submit("t", b"2")

        def work() -> object:
            said: list[Any] = [producer.buffered.records, on_the_way.done(), waiting.done()]
            for future in (on_the_way, waiting):
                try:
                    future.result()
                except UsageError as error:
                    said.append(error.message.partition(":")[0])
            producer.flush(PATIENCE_S)
            return [*said, len(outcomes.calls), len(called), producer.close(PATIENCE_S).delivered]

        text = "This record was sent before the process forked"
        assert in_child(work) == [0, True, True, text, text, 0, 0, 0]
        fake_cluster.call(held.release)
        assert on_the_way.result(PATIENCE_S).offset == 0
        assert waiting.result(PATIENCE_S).offset == 2
        assert (outcomes.offsets, called) == ([1], [on_the_way])
    assert values(fake_cluster) == [b"0", b"1", b"2"]


def test_a_done_future_keeps_its_outcome(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        future = producer.submit("t", b"0")
        assert future.result(PATIENCE_S).offset == 0
        assert in_child(lambda: future.result(0).offset) == 0


def test_with_ends_in_the_child_too(fake_cluster: Any) -> None:
    with new_sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"0")

        def work() -> object:
            producer.__exit__(None, None, None)
            producer.send("t", b"no")
            return None

        assert in_child(work) == {"raised": "ProducerClosedError: The producer is closed and takes no more records."}
        assert producer.send("t", b"1").offset == 1


def test_a_fork_while_other_threads_send(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    ends = threading.Event()
    taken = [0] * 4
    with sync_producer(fake_cluster.bootstrap) as producer:

        def send(thread: int) -> None:
            while not ends.is_set():
                producer.submit("t", b"parent")
                taken[thread] += 1
                ends.wait(0.0001)  # The brokers are a thread of this process, too.

        threads = [threading.Thread(target=send, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()

        def work() -> object:
            producer.send_nowait("t", b"child")
            return producer.close(PATIENCE_S).delivered

        try:
            assert [in_child(work) for _ in range(5)] == [1] * 5
        finally:
            ends.set()
            for thread in threads:
                thread.join()
    found = values(fake_cluster)
    assert found.count(b"child") == 5
    assert found.count(b"parent") == sum(taken)


def test_a_fork_in_a_callback(fake_cluster: Any) -> None:
    said: list[Any] = []
    with sync_producer(fake_cluster.bootstrap) as producer:

        def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            def work() -> object:
                offset = producer.send("t", b"1").offset
                return [offset, producer.close(PATIENCE_S).delivered]

            # The child's first thread is this one, and no loop runs in it any more, as far as asyncio is concerned.
            said.append(in_child(work))

        producer.send_nowait("t", b"0", on_delivery=on_delivery)
        producer.flush(PATIENCE_S)
    assert said == [[1, 1]]


def send_and_end(producer: Any) -> None:
    producer.send_nowait("t", b"child")


def test_a_child_of_multiprocessing_that_does_not_close(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"parent")
        process = multiprocessing.get_context("fork").Process(target=send_and_end, args=(producer,))
        process.start()
        process.join()
        assert process.exitcode == 0
    assert values(fake_cluster) == [b"child", b"parent"]
