"""What waits and what doesn't: for memory, for the start, for outcomes; interrupts; calls out of callbacks."""

from __future__ import annotations

import concurrent.futures
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aioprod.errors import (
    AioprodError,
    BufferFullError,
    ErrorCode,
    FlushTimeoutError,
    MetadataTimeoutError,
    NotSentError,
    ProducerClosedError,
    UsageError,
)
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.sync import Producer
from aioprod.sync.loop_producer import LoopProducer
from aioprod.sync.session import Session
from aioprod.types import RecordMetadata, TopicPartition
from tests.support.dead_addresses import dead_address
from tests.support.producers import PATIENCE_S, ErrorLog, Outcomes
from tests.support.threads import in_threads, sent_until, sync_producer, until

MEMORY = 100_000
SMALL: dict[str, Any] = {"buffer_memory": MEMORY, "batch_size": 1000}
VALUE = bytes(1000)


def fill(producer: Producer, cluster: Any, fault: Any) -> int:
    """Send until there is no room; how many records were taken.

    They take less once they are encoded, and the topic is known: that is the case when a request is held.
    """
    producer.send_nowait("t", VALUE)
    cluster.call(fault.reached.wait)
    session = started(producer)
    count = 1
    while taken := sent_until(producer, BufferFullError, VALUE):
        count += taken
        until(lambda: producer.buffered.records == session._producer.buffered.records)
    return count


def started(producer: Producer) -> Session:
    """The session of a producer that has started."""
    session = producer._session
    assert session is not None
    until(lambda: session.was_started)
    return session


def waiting(producer: Producer) -> int:
    """How many callers wait for memory, also as their partition counts as stuck: a loaded machine makes it so."""
    budget = started(producer)._producer.budget
    return len(budget.waiting) + len(budget.stuck.waiting)


@pytest.fixture
def holding(fake_cluster: Any) -> Iterator[Any]:
    """A cluster that answers no Produce request before `release()` of the fault, which is beside it."""
    fake_cluster.create_topic("t")
    fault = fake_cluster.fault(ProduceRequest, hold=True, times=None)
    yield fake_cluster, fault
    fake_cluster.call(fault.end)
    fake_cluster.call(fault.release)


def release(cluster: Any, fault: Any) -> None:
    cluster.call(fault.end)
    cluster.call(fault.release)


# --- memory


def test_memory_is_bounded_and_send_nowait_never_waits(holding: Any) -> None:
    cluster, fault = holding
    with sync_producer(cluster.bootstrap, **SMALL) as producer:
        count = fill(producer, cluster, fault)
        assert producer.buffered.bytes <= MEMORY
        assert count > 90
        release(cluster, fault)
        producer.drain()
        producer.send_nowait("t", VALUE)
        producer.flush(PATIENCE_S)
    assert len(cluster.records("t")) == count + 1


def test_memory_is_bounded_before_the_start(fake_cluster: Any) -> None:
    fault = fake_cluster.fault(MetadataRequest, hold=True, times=None)
    with sync_producer(fake_cluster.bootstrap, **SMALL) as producer:
        count = sent_until(producer, BufferFullError, VALUE)
        assert count > 90
        release(fake_cluster, fault)
        producer.flush(PATIENCE_S)
    assert len(fake_cluster.records("t")) == count


def test_a_topic_that_backs_off_leaves_room_for_others(fake_cluster: Any) -> None:
    for name in ("moving", "stuck"):
        fake_cluster.create_topic(name)
    fault = fake_cluster.fault(
        ProduceRequest, times=None, partition=TopicPartition("stuck", 0), error=ErrorCode.NOT_ENOUGH_REPLICAS
    )
    with sync_producer(fake_cluster.bootstrap, **SMALL) as producer:
        producer.send("moving", VALUE)
        producer.submit("stuck", VALUE)
        until(lambda: producer.metrics()["record_retry_total"])
        refused = ""
        while "can't be delivered" not in refused:
            try:
                producer.send_nowait("stuck", VALUE)
            except BufferFullError as error:
                refused = str(error)
                producer.send("moving", VALUE)
        assert "stuck-0 holds" in refused
        pool = concurrent.futures.ThreadPoolExecutor(2)
        submitted = pool.submit(producer.submit, "stuck", VALUE)
        until(lambda: waiting(producer) == 1)
        producer.send("moving", VALUE)
        assert not submitted.done()
        fake_cluster.call(fault.end)
        assert submitted.result(PATIENCE_S).result(PATIENCE_S).topic == "stuck"
        pool.shutdown()


def test_submit_waits_for_room(holding: Any) -> None:
    cluster, fault = holding
    with sync_producer(cluster.bootstrap, **SMALL) as producer:
        count = fill(producer, cluster, fault)
        futures: list[concurrent.futures.Future[RecordMetadata]] = []
        threads = [threading.Thread(target=lambda: futures.append(producer.submit("t", VALUE))) for _ in range(5)]
        for thread in threads:
            thread.start()
        until(lambda: waiting(producer) == 5)
        assert futures == []
        with pytest.raises(BufferFullError):
            producer.send_nowait("t", b"may not overtake")
        release(cluster, fault)
        for thread in threads:
            thread.join()
        offsets = sorted(future.result(PATIENCE_S).offset for future in futures)
        assert offsets == list(range(count, count + 5))


def test_a_thread_that_waited_keeps_its_order(holding: Any) -> None:
    cluster, fault = holding
    with sync_producer(cluster.bootstrap, **SMALL) as producer:

        def work(thread: int) -> None:
            for number in range(250):
                producer.submit("t", b"%d" % number, key=b"%d" % thread, headers=[("h", bytes(500))])

        workers = threading.Thread(target=in_threads, args=([lambda at=at: work(at) for at in range(4)],))
        workers.start()
        # Not all four are among those that wait in the loop: one record that came behind may hold up the next calls.
        until(lambda: waiting(producer))
        release(cluster, fault)
        workers.join()
    for thread in range(4):
        values = [int(record.value) for record in cluster.records("t") if record.key == b"%d" % thread]
        assert values == list(range(250))


def test_submit_raises_after_max_block_ms(holding: Any) -> None:
    cluster, fault = holding
    with sync_producer(cluster.bootstrap, **SMALL) as producer:
        count = fill(producer, cluster, fault)
        session = started(producer)
        session._config = session._config.replace(max_block_ms=100)
        with pytest.raises(BufferFullError, match=f"buffer.memory={MEMORY} stayed full for 0.1 s"):
            producer.submit("t", VALUE)
        release(cluster, fault)
        producer.flush(PATIENCE_S)
        assert len(cluster.records("t")) == count


def test_a_record_that_waits_behind_send_many_goes_its_way(holding: Any) -> None:
    """A bulk call takes memory without regard to what threads have queued: what finds no room then waits in line."""
    cluster, fault = holding
    with sync_producer(cluster.bootstrap, **SMALL) as producer:
        bulk = threading.Thread(target=lambda: producer.send_many("t", [VALUE] * 300).raise_for_failures())
        bulk.start()
        until(lambda: waiting(producer) == 1)
        last = threading.Thread(target=lambda: producer.submit("t", b"last"))
        last.start()
        until(lambda: waiting(producer) == 2)
        release(cluster, fault)
        bulk.join()
        last.join()
        producer.flush(PATIENCE_S)
    assert len(cluster.records("t")) == 301


# --- the start


def test_a_start_that_fails_fails_what_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    host, port = dead_address()
    outcomes, errors = Outcomes(), ErrorLog()
    with sync_producer(f"{host}:{port}", max_block_ms=300, on_error=errors) as producer:
        producer.send_nowait("t", b"0", on_delivery=outcomes)
        producer.send_nowait("t", b"1", key=b"k")
        future = producer.submit("t", b"2")
        with pytest.raises(MetadataTimeoutError, match=str(port)):
            producer.send("t", b"3")
        (error,) = outcomes.errors
        assert isinstance(error, NotSentError)
        assert isinstance(error.__cause__, MetadataTimeoutError)
        assert (error.topic, error.partition, error.attempts) == ("t", -1, 0)
        assert isinstance(future.exception(PATIENCE_S), NotSentError)
        assert [(record.topic, record.key, record.value) for _, record in errors.calls] == [("t", b"k", b"1")]


def test_with_raises_what_the_start_raises() -> None:
    host, port = dead_address()
    with (
        sync_producer(f"{host}:{port}", max_block_ms=100) as producer,
        pytest.raises(MetadataTimeoutError),
        producer,
    ):
        pytest.fail("the start did not fail")


def test_a_later_call_starts_again(fake_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[object] = []
    start = LoopProducer.start

    async def fails_once(self: LoopProducer) -> None:
        starts.append(self)
        if len(starts) == 1:
            raise MetadataTimeoutError("No server answers.")
        await start(self)

    monkeypatch.setattr(LoopProducer, "start", fails_once)
    with sync_producer(fake_cluster.bootstrap) as producer:
        with pytest.raises(MetadataTimeoutError, match="No server answers"):
            producer.send("t", b"0")
        assert producer.send("t", b"1").offset == 0
        producer.send_nowait("t", b"2")
    assert [record.value for record in fake_cluster.records("t")] == [b"1", b"2"]
    assert len(starts) == 2


def test_a_future_can_be_cancelled_until_the_loop_has_its_record(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    fault = fake_cluster.fault(MetadataRequest, hold=True, times=None)
    with sync_producer(fake_cluster.bootstrap) as producer:
        first, second = producer.submit("t", b"0"), producer.submit("t", b"1")
        assert first.cancel()
        release(fake_cluster, fault)
        assert second.result(PATIENCE_S).offset == 0
        assert not second.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            first.result(0)
    assert [record.value for record in fake_cluster.records("t")] == [b"1"]


# --- flush


def test_flush_before_the_first_call_starts_nothing() -> None:
    with sync_producer("localhost:9092") as producer:
        producer.flush(0)
        assert producer._session is not None
        assert producer._session._thread is None


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_flush_says_how_many_have_no_outcome(holding: Any, timeout: float) -> None:
    cluster, fault = holding
    with sync_producer(cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0")
        cluster.call(fault.reached.wait)
        producer.send_nowait("t", b"1")
        with pytest.raises(FlushTimeoutError, match="2 records have no outcome") as raised:
            producer.flush(timeout)
        assert raised.value.remaining == 2
        release(cluster, fault)
        producer.flush(PATIENCE_S)
    assert len(cluster.records("t")) == 2


def test_flush_may_time_out_while_the_producer_starts(fake_cluster: Any) -> None:
    fault = fake_cluster.fault(MetadataRequest, hold=True, times=None)
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0")
        with pytest.raises(FlushTimeoutError) as raised:
            producer.flush(0.01)
        assert raised.value.remaining >= 1
        release(fake_cluster, fault)
        producer.flush(PATIENCE_S)
        assert len(fake_cluster.records("t")) == 1


# --- interrupts


def waits() -> bool:
    """Whether the main thread waits for the end of a call."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    names = [each.f_code.co_name for each, _ in traceback.walk_stack(frame)]
    return names[0] == "wait" and "ended_within" in names


def interrupted(call: Callable[[], object], when: Callable[[], object]) -> None:
    """Run `call` in this, the main thread, and interrupt it as Ctrl-C does once `when()` has returned and it waits."""

    def interrupt() -> None:
        when()
        until(waits)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    # It is ignored in what runs in the background of a shell.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_leaves_the_producer_usable(holding: Any) -> None:
    cluster, fault = holding
    outcomes = Outcomes()
    with sync_producer(cluster.bootstrap, **SMALL) as producer:
        interrupted(lambda: producer.send("t", b"0"), lambda: cluster.call(fault.reached.wait))
        session = started(producer)
        until(lambda: not session._tasks)
        interrupted(lambda: producer.flush(), lambda: until(lambda: session._tasks))
        until(lambda: not session._tasks)
        count = fill(producer, cluster, fault)
        interrupted(lambda: producer.submit("t", VALUE), lambda: until(lambda: waiting(producer) == 1))
        until(lambda: waiting(producer) == 0)
        release(cluster, fault)
        producer.drain()
        producer.send_nowait("t", b"1", on_delivery=outcomes)
        producer.flush(PATIENCE_S)
        assert outcomes.errors == []
        assert len(outcomes.offsets) == 1
    assert len(cluster.records("t")) == count + 2


# --- callbacks


def test_calls_out_of_a_callback(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    said: list[str] = []
    inner = Outcomes()
    futures: list[concurrent.futures.Future[RecordMetadata]] = []
    with sync_producer(fake_cluster.bootstrap) as producer:
        waiting: list[Callable[[], object]] = [
            lambda: producer.send("t", b"x"),
            lambda: producer.send_many("t", [b"x"]),
            lambda: producer.flush(),
            lambda: producer.drain(),
            lambda: producer.close(),
        ]

        def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            for call in waiting:
                try:
                    call()
                except UsageError as raised:
                    said.append(raised.message.partition("(")[0])
            producer.send_nowait("t", b"1", on_delivery=inner)
            futures.append(producer.submit("t", b"2"))

        producer.send_nowait("t", b"0", on_delivery=on_delivery)
        until(lambda: futures)
        assert futures[0].result(PATIENCE_S).offset == 2
        assert said == ["send", "send_many", "flush", "drain", "close"]
        assert inner.offsets == [1]


def test_submit_in_a_callback_does_not_wait_for_room(holding: Any) -> None:
    cluster, fault = holding
    raised: list[BaseException] = []
    with sync_producer(cluster.bootstrap, **SMALL) as producer:

        def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            try:
                for _ in range(2 * MEMORY // len(VALUE)):
                    producer.submit("t", VALUE)
            except BufferFullError as full:
                raised.append(full)

        producer.send_nowait("t", b"0", on_delivery=on_delivery)
        release(cluster, fault)
        producer.flush(PATIENCE_S)
        until(lambda: raised)
        assert [type(error) for error in raised] == [BufferFullError]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()])
def test_an_exception_in_a_callback_costs_nothing_else(
    fake_cluster: Any, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    outcomes = Outcomes()

    def on_delivery(metadata: RecordMetadata | None, failed: AioprodError | None) -> None:
        raise error

    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0", on_delivery=outcomes)
        producer.send_nowait("t", b"1", on_delivery=on_delivery)
        producer.send_nowait("t", b"2", on_delivery=outcomes)
        producer.flush(PATIENCE_S)
        assert producer.send("t", b"3").offset == 3
        assert len(outcomes.offsets) == 2
    assert f"on_delivery raised {type(error).__name__}" in caplog.text.replace("callback on_delivery", "on_delivery")


# --- records that no call waits for


def test_a_future_that_is_dropped_is_reported(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    errors = ErrorLog()
    with sync_producer(fake_cluster.bootstrap, on_error=errors) as producer:
        producer.send("t", b"v")
        producer.submit("t", b"dropped", key=b"k", partition=7)
        looked_at = producer.submit("t", b"w", partition=7)
        assert looked_at.exception(PATIENCE_S) is not None
        producer.flush(PATIENCE_S)
        del looked_at
        until(lambda: errors.calls)
    ((_, record),) = errors.calls
    assert (record.topic, record.key, record.value) == ("t", b"k", b"dropped")


def test_without_on_error_it_is_logged(fake_cluster: Any, caplog: pytest.LogCaptureFixture) -> None:
    fake_cluster.create_topic("t")
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"v")
        producer.submit("t", b"v", partition=7)
        producer.send_nowait("t", b"v", partition=8)
        producer.flush(PATIENCE_S)
    assert "has no partition 7" in caplog.text
    assert "has no partition 8" in caplog.text


def test_a_thread_that_can_not_be_started(monkeypatch: pytest.MonkeyPatch, fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", lambda self: (_ for _ in ()).throw(RuntimeError("no threads")))
            with pytest.raises(UsageError, match="can't be started: no threads"):
                producer.send_nowait("t", b"0")
        assert producer.buffered == (0, 0)
        producer.send_nowait("t", b"1")
        producer.flush(PATIENCE_S)
    assert [record.value for record in fake_cluster.records("t")] == [b"1"]


def test_a_producer_that_has_failed_says_so(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"v")
        session = producer._session
        assert isinstance(session, Session)
        session._loop.call_soon_threadsafe(session._producer._engine.fail, ValueError("a bug"))
        outcomes = Outcomes()

        def sends() -> bool:
            try:
                producer.send_nowait("t", b"v", on_delivery=outcomes)
            except ProducerClosedError as error:
                return "The producer has failed" in error.message
            return False

        until(sends)
        with pytest.raises(ProducerClosedError, match=r"has failed.*a bug"):
            producer.send("t", b"v")
        with pytest.raises(ProducerClosedError, match="has failed"):
            producer.flush()
