"""What each call of the producer for threads does, alone and in many threads."""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import pickle
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from aioprod import ProducerRecord, RecordMetadata, TopicPartition
from aioprod.errors import (
    AioprodError,
    ConfigError,
    InvalidRecordError,
    InvalidTopicError,
    MetadataTimeoutError,
    NotSentError,
    RecordTooLargeError,
    SendFailuresError,
    SerializationError,
    StillUnknownError,
    UnknownOutcomeError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import ProduceRequest
from aioprod.sync import Producer
from aioprod.testing.fixtures import running_fake_cluster
from tests.support.producers import PATIENCE_S, Outcomes, Spy
from tests.support.threads import in_threads, new_sync_producer, sync_producer

SERVERS = "localhost:9092"


def test_send_returns_where_the_record_is(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t", partitions=3)
    at = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    with sync_producer(fake_cluster.bootstrap) as producer:
        stored = producer.send("t", b"v", key=b"k", partition=2, headers=[("h", b"1")], timestamp=at)
        assert stored == RecordMetadata("t", 2, 0, round(at.timestamp() * 1000), 1, 1)
        assert producer.send(ProducerRecord("t", None, key=b"k", partition=2)).offset == 1
    first, second = fake_cluster.records("t", 2)
    assert (first.key, first.value, list(first.headers)) == (b"k", b"v", [("h", b"1")])
    assert (second.key, second.value) == (b"k", None)


def test_submit_returns_a_future_of_concurrent_futures(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        futures = [producer.submit("t", b"%d" % number) for number in range(20)]
        futures.append(producer.submit(ProducerRecord("t", b"20")))
        done, waiting = concurrent.futures.wait(futures, PATIENCE_S)
        assert (len(done), len(waiting)) == (21, 0)
        assert [future.result().offset for future in futures] == list(range(21))
        seen: list[int] = []
        futures[3].add_done_callback(lambda future: seen.append(future.result().offset))
        assert seen == [3]
    assert [record.value for record in fake_cluster.records("t")] == [b"%d" % number for number in range(21)]


def test_send_nowait_calls_back(fake_cluster: Any) -> None:
    outcomes = Outcomes()
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send_nowait("t", b"0", on_delivery=outcomes)
        producer.send_nowait(ProducerRecord("t", b"1"), on_delivery=outcomes)
        producer.send_nowait("t", bytearray(b"2"))
        producer.flush(PATIENCE_S)
        assert sorted(outcomes.offsets) == [0, 1]
    assert [record.value for record in fake_cluster.records("t")] == [b"0", b"1", b"2"]


def test_each_of_32_threads_has_its_own_order(fake_cluster: Any) -> None:
    count = 150
    fake_cluster.create_topic("t", partitions=4)
    outcomes = Outcomes()
    with sync_producer(fake_cluster.bootstrap, batch_size=1000) as producer:

        def work(thread: int) -> None:
            key = b"%d" % thread
            for number in range(count):
                if number % 50 == 49:
                    producer.send("t", b"%d" % number, key=key)
                elif number % 10 == 9:
                    producer.submit("t", b"%d" % number, key=key)
                else:
                    producer.send_nowait("t", b"%d" % number, key=key, on_delivery=outcomes)

        in_threads(partial(work, thread) for thread in range(32))
        producer.flush(PATIENCE_S)
        assert len(outcomes.offsets) == 32 * count * 9 // 10
        report = producer.close(PATIENCE_S)
    assert (report.delivered, report.undelivered) == (32 * count, ())
    by_key: dict[bytes | None, list[int]] = {}
    for partition in range(4):
        for record in fake_cluster.records("t", partition):
            by_key.setdefault(record.key, []).append(int(record.value))
    assert len(by_key) == 32
    assert all(numbers == list(range(count)) for numbers in by_key.values())


def test_a_burst_wakes_the_loop_once(fake_cluster: Any) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"0")
        is_held, go = threading.Event(), threading.Event()

        def hold(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
            is_held.set()
            go.wait(PATIENCE_S)

        producer.send_nowait("t", b"1", on_delivery=hold)
        assert is_held.wait(PATIENCE_S)
        assert producer._session is not None
        loop: Any = producer._session._loop
        wake_ups: list[object] = []
        call_soon_threadsafe = loop.call_soon_threadsafe

        def counted(callback: Any, *arguments: Any, **more: Any) -> Any:
            wake_ups.append(callback)
            return call_soon_threadsafe(callback, *arguments, **more)

        def send() -> None:
            for _ in range(100):
                producer.send_nowait("t", b"v")

        loop.call_soon_threadsafe = counted
        in_threads([send] * 8)
        producer.submit("t", b"v")
        assert len(wake_ups) <= 1
        go.set()
        producer.flush(PATIENCE_S)
    assert len(fake_cluster.records("t")) == 803


# --- many


def test_send_many_reads_a_generator_in_the_thread_of_its_caller(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t", partitions=1)
    threads: set[int] = set()

    def values() -> Iterator[bytes]:
        for number in range(1000):
            threads.add(threading.get_ident())
            yield b"%d" % number

    with sync_producer(fake_cluster.bootstrap) as producer:
        result = producer.send_many(
            "t", values(), keys=(b"%d" % number for number in range(1000)), headers=[("h", b"1")]
        )
        assert (result.count, result.offsets) == (1000, {TopicPartition("t", 0): (range(1000),)})
        assert threads == {threading.get_ident()}
        with pytest.raises(SendFailuresError, match="at index 1"):
            producer.send_many("t", [b"v", "text"]).raise_for_failures()
        with pytest.raises(InvalidRecordError, match="give an iterable of values"):
            producer.send_many("t", 5)  # type: ignore[arg-type]
        with pytest.raises(InvalidRecordError, match="give an iterable of values"):
            producer.send_many("t", b"bytes")
    assert [record.value for record in fake_cluster.records("t")][:1000] == [b"%d" % number for number in range(1000)]
    assert [record.key for record in fake_cluster.records("t")][:2] == [b"0", b"1"]


# --- what is wrong


WRONG: list[tuple[dict[str, Any], type[AioprodError], str]] = [
    ({"topic": 5, "value": b"v"}, InvalidTopicError, "A topic is of type int"),
    ({"topic": "no space", "value": b"v"}, InvalidTopicError, "no space"),
    ({"topic": "t"}, UsageError, "was given no value"),
    ({"topic": "t", "value": "text"}, SerializationError, "no serializer is set"),
    ({"topic": "t", "value": b"v", "key": 5}, SerializationError, "The key of a record"),
    ({"topic": "t", "value": b"v", "partition": -1}, InvalidRecordError, "not a partition"),
    ({"topic": "t", "value": b"v", "headers": [("h", 5)]}, SerializationError, "header"),
    ({"topic": "t", "value": b"v", "timestamp": -1}, InvalidRecordError, "timestamp"),
    ({"topic": "t", "value": bytes(2_000_000)}, RecordTooLargeError, "max.request.size"),
    ({"topic": ProducerRecord("t", b"v"), "value": b"w"}, InvalidRecordError, "says everything itself"),
]


@pytest.mark.parametrize("call", ["submit", "send_nowait"])
@pytest.mark.parametrize(("arguments", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_wrong_record_raises_in_its_thread_before_anything_starts(
    call: str, arguments: dict[str, Any], kind: type[AioprodError], text: str
) -> None:
    with sync_producer(SERVERS) as producer:
        with pytest.raises(kind, match=text):
            getattr(producer, call)(**arguments)
        assert producer.buffered == (0, 0)
        assert producer._session is not None
        assert producer._session._thread is None


@pytest.mark.parametrize(("arguments", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_wrong_record_raises_out_of_send(
    fake_cluster: Any, arguments: dict[str, Any], kind: type[AioprodError], text: str
) -> None:
    with sync_producer(fake_cluster.bootstrap) as producer, pytest.raises(kind, match=text):
        producer.send(**arguments)


def test_what_only_the_cluster_knows_comes_through_future_and_callback(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    outcomes = Outcomes()
    with sync_producer(fake_cluster.bootstrap) as producer:
        producer.send("t", b"v")
        future = producer.submit("t", b"v", partition=7)
        producer.send_nowait("t", b"v", partition=7, on_delivery=outcomes)
        assert isinstance(future.exception(PATIENCE_S), InvalidRecordError)
        producer.flush(PATIENCE_S)
        (error,) = outcomes.errors
        assert isinstance(error, InvalidRecordError)
        assert producer.buffered == (0, 0)


def test_an_unknown_topic_raises_as_in_asyncio() -> None:
    with (
        running_fake_cluster(1, auto_create_topics_enable=False) as cluster,
        sync_producer(cluster.bootstrap, max_block_ms=200) as producer,
    ):
        with pytest.raises((UnknownTopicError, MetadataTimeoutError)):
            producer.send("missing", b"v")
        error = producer.submit("missing", b"v").exception(PATIENCE_S)
        assert isinstance(error, NotSentError)
        assert isinstance(error.__cause__, (UnknownTopicError, MetadataTimeoutError))


@pytest.mark.parametrize("wrong", [5, lambda: None, lambda error, message: None])
def test_a_callback_that_can_not_be_called_so(wrong: Any) -> None:
    with sync_producer(SERVERS) as producer, pytest.raises(UsageError, match="on_delivery is"):
        producer.send_nowait("t", b"v", on_delivery=wrong)


def test_settings_are_checked_at_once() -> None:
    with pytest.raises(ConfigError, match=r"transactional\.id='x' is not a setting of aioprod\.sync\.Producer"):
        Producer(SERVERS, transactional_id="x")
    with pytest.raises(ConfigError, match="linger_msec"):
        Producer(SERVERS, linger_msec=1)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="serializer"):
        Producer(SERVERS, value_serializer=5)  # type: ignore[arg-type]


def test_it_can_not_be_pickled() -> None:
    with sync_producer(SERVERS) as producer, pytest.raises(UsageError, match="Producer can't be pickled"):
        pickle.dumps(producer)


# --- serializers and interceptors


def test_serializers_and_interceptors_run_in_the_thread_of_the_call(fake_cluster: Any) -> None:
    threads: set[int] = set()

    def as_bytes(value: str) -> bytes:
        threads.add(threading.get_ident())
        return value.encode()

    spy = Spy()
    with sync_producer(fake_cluster.bootstrap, value_serializer=as_bytes, interceptors=[spy]) as producer:
        values = ["a"]
        producer.submit("t", values[0])
        producer.send_nowait("t", "b")
        with pytest.raises(SerializationError, match="could not be serialized"):
            producer.submit("t", 5)
        with pytest.raises(SerializationError, match="could not be serialized"):
            producer.send_nowait("t", 5)
        assert threads == {threading.get_ident()}
        producer.send("t", "c")
        producer.flush(PATIENCE_S)
    assert [record.value for record in fake_cluster.records("t")] == [b"a", b"b", b"c"]
    assert len([error for _, error in spy.acknowledged if error is None]) == 3
    assert spy.closed == 1


def test_a_serializer_that_has_to_be_awaited(fake_cluster: Any) -> None:
    async def as_bytes(value: str) -> bytes:
        return value.encode()

    with sync_producer(fake_cluster.bootstrap, value_serializer=as_bytes) as producer:
        assert producer.send("t", "a").offset == 0
        assert producer.send_many("t", ["b"]).count == 1
        for call in (producer.submit, producer.send_nowait):
            with pytest.raises(UsageError, match="has to be awaited"):
                call("t", "c")


def test_an_interrupt_out_of_an_interceptor_is_that_of_its_thread(fake_cluster: Any) -> None:
    class Interrupted:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            raise KeyboardInterrupt

    with (
        sync_producer(fake_cluster.bootstrap, interceptors=[Interrupted()]) as producer,
        pytest.raises(KeyboardInterrupt),
    ):
        producer.submit("t", b"v")


def test_its_text(fake_cluster: Any) -> None:
    producer = new_sync_producer("a:1,b:2,c:3", client_id="shop")
    assert repr(producer) == "<aioprod.sync.Producer 'shop' at a:1, b:2 and 1 more: 0 records waiting>"
    producer.close()
    assert repr(producer) == "<aioprod.sync.Producer 'shop' at a:1, b:2 and 1 more: closed>"


def test_resolve_says_what_became_of_a_record(fake_cluster: Any) -> None:
    fake_cluster.create_topic("t")
    with sync_producer(
        fake_cluster.bootstrap, delivery_timeout_ms=500, request_timeout_ms=400, linger_ms=0
    ) as producer:
        fault = fake_cluster.fault(ProduceRequest, drop="before", times=None)
        with pytest.raises(UnknownOutcomeError) as raised:
            producer.send("t", b"lost")
        with pytest.raises(StillUnknownError, match="no later record"):
            producer.resolve(raised.value, timeout=0)
        with pytest.raises(UsageError, match="is not a time"):
            producer.resolve(raised.value, timeout=-1)
        fake_cluster.call(fault.end)
        while not fake_cluster.records("t"):
            with contextlib.suppress(UnknownOutcomeError):
                producer.send("t", b"later")
        assert producer.resolve(raised.value, PATIENCE_S) is None
    assert {record.value for record in fake_cluster.records("t")} == {b"later"}
