"""delivery.timeout.ms holds for every record in every state, and the error says why it could not be delivered."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import (
    BrokerConnectionError,
    BrokerError,
    DeliveryError,
    ErrorCode,
    MetadataTimeoutError,
    NotSentError,
    RejectedError,
    UnknownOutcomeError,
)
from aioprod.messages import ApiVersionsRequest, MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.codec_gate import codec_gate
from tests.support.producers import ErrorLog, ShiftedClock, Spy, pass_time, running, turns, until

OPTIONS: dict[str, Any] = {"delivery_timeout_ms": 60_000, "request_timeout_ms": 50_000, "linger_ms": 0}


async def expire(future: asyncio.Future[Any], after_s: int = 60) -> DeliveryError:
    with pytest.raises(DeliveryError, match=rf"delivery\.timeout\.ms={after_s}000 has passed") as raised:
        await future
    assert raised.value.age_s >= after_s
    return raised.value


async def test_while_it_lingers(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options = {**OPTIONS, "adaptive_linger": False, "linger_ms": 10_000}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        future = producer.submit("t", b"v")
        pass_time(producer, clock, 61.0)
        error = await expire(future)
        await brokers[1].start()
    assert type(error) is NotSentError
    assert error.attempts == 0


async def test_while_the_broker_can_not_be_reached(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    errors, spy = ErrorLog(), Spy()
    async with running(brokers, clock=clock, on_error=errors, interceptors=[spy], **OPTIONS) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        future = producer.submit("t", b"v")
        producer.send_nowait("t", b"w")
        await turns()
        pass_time(producer, clock, 59.0)
        await turns()
        assert not future.done()
        pass_time(producer, clock, 2.0)
        error = await expire(future)
        assert producer.buffered == (0, 0)
        await brokers[1].start()
        assert (await producer.send("t", b"x")).offset == 0
    assert type(error) is NotSentError
    assert re.search(r"Broker 1 at .* (is not|could not be|is being) connected.*(refused|closed)", str(error))
    assert isinstance(error.__cause__, BrokerConnectionError)
    assert errors.values == [b"w"]
    assert len(spy.acknowledged) == 3


async def test_while_the_partition_has_no_leader(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **OPTIONS) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v", partition=1)
        await turns()
        pass_time(producer, clock, 61.0)
        error = await expire(future)
    assert type(error) is NotSentError
    assert "The partition has no leader, said an answer" in str(error)
    assert error.partition == 1


async def test_while_it_is_in_flight(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **OPTIONS) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        future = producer.submit("t", b"v")
        await turns()
        pass_time(producer, clock, 30.0)
        hold = brokers.fault(ProduceRequest, hold=True)
        await brokers[1].start()
        await hold.reached.wait()
        pass_time(producer, clock, 31.0)
        error = await expire(future)
        hold.release()
    assert type(error) is UnknownOutcomeError
    assert "Broker 1 has not answered." in str(error)
    assert error.attempts == 1


async def test_an_answer_that_comes_after_the_deadline_is_too_late(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **OPTIONS) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        hold = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        await until(lambda: producer.metrics()["record_retry_total"] == 1 or hold.reached.is_set())
        pass_time(producer, clock, 30.0)
        await hold.reached.wait()
        later = producer.submit("t", b"w")
        pass_time(producer, clock, 31.0)
        error = await expire(future)
        assert not later.done()
        assert producer.buffered.records == 1
        hold.release()
        await later
        report = await producer.close()
    assert type(error) is UnknownOutcomeError
    assert (error.attempts, error.broker) == (2, 1)
    assert isinstance(error.__cause__, BrokerError)
    assert [record.value for record in topic.records()] == [b"v", b"w"]
    assert (report.delivered, report.unknown) == (1, 1)


async def test_while_it_waits_behind_others(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    clock = ShiftedClock()
    options = {**OPTIONS, "max_in_flight_requests_per_connection": 1}
    async with running(brokers, clock=clock, batch_size=0, **options) as producer:
        await producer.partitions_for("t")
        first = brokers.fault(ProduceRequest, hold=True)
        second = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n, partition=0) for n in range(3)]
        await first.reached.wait()
        pass_time(producer, clock, 30.0)
        first.release()
        await second.reached.wait()
        pass_time(producer, clock, 31.0)
        assert (await futures[0]).offset == 0
        assert type(await expire(futures[1])) is UnknownOutcomeError
        error = await expire(futures[2])
        second.release()
    assert type(error) is NotSentError
    assert "It waited behind earlier records. 1 batch is on the way to broker 1, which has owed an answer" in str(error)


async def test_while_it_backs_off(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options = {**OPTIONS, "retry_backoff_ms": 40_000, "retry_backoff_max_ms": 40_000}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        future = producer.submit("t", b"v")
        await until(lambda: producer.metrics()["record_retry_total"] == 1)
        pass_time(producer, clock, 61.0)
        error = await expire(future)
    assert type(error) is RejectedError
    assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "Last: Broker 1 answered NOT_ENOUGH_REPLICAS" in str(error)


async def test_while_its_topic_is_not_known(brokers: FakeCluster) -> None:
    clock = ShiftedClock()
    errors = ErrorLog()
    async with running(brokers, clock=clock, max_block_ms=500_000, on_error=errors, **OPTIONS) as producer:
        silence = brokers.fault(MetadataRequest, hold=True, times=None)
        future = producer.submit("t", b"v")
        producer.send_nowait("t", b"w")
        await silence.reached.wait()
        pass_time(producer, clock, 61.0)
        with pytest.raises(NotSentError) as raised:
            async with asyncio.timeout(5):
                await future
        silence.release()
        assert producer.buffered == (0, 0)
    assert raised.value.age_s >= 60.0
    assert isinstance(raised.value.__cause__, MetadataTimeoutError)
    assert "could not be learned within delivery.timeout.ms=60000: Broker 1 at" in str(raised.value.__cause__)
    assert errors.values == [b"w"]


async def test_the_time_in_which_it_was_parked_counts(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, max_block_ms=500_000, **OPTIONS) as producer:
        held = brokers.fault(MetadataRequest, hold=True)
        future = producer.submit("t", b"v")
        await held.reached.wait()
        pass_time(producer, clock, 40.0)
        held.release()
        silence = brokers.fault(ProduceRequest, hold=True)
        await silence.reached.wait()
        pass_time(producer, clock, 21.0)
        with pytest.raises(UnknownOutcomeError) as raised:
            async with asyncio.timeout(5):
                await future
        silence.release()
    assert raised.value.age_s >= 60.0


async def test_while_the_broker_is_being_connected_to(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **OPTIONS) as producer:
        await producer.partitions_for("t")
        await brokers[1].cut()
        silence = brokers.fault(ApiVersionsRequest, hold=True)
        future = producer.submit("t", b"v")
        await silence.reached.wait()
        pass_time(producer, clock, 61.0)
        error = await expire(future)
        silence.release()
    assert type(error) is NotSentError
    assert re.search(
        r"Broker 1 at .* is being connected to for \d+\.\d s, attempt 2: .* closed the connection", str(error)
    )
    assert isinstance(error.__cause__, BrokerConnectionError)


async def test_while_the_broker_throttles(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options = {**OPTIONS, "delivery_timeout_ms": 20_000, "request_timeout_ms": 10_000}
    async with running(brokers, clock=clock, **options) as producer:
        brokers.fault(ProduceRequest, throttle_ms=60_000)
        await producer.send("t", b"v")
        future = producer.submit("t", b"w")
        pass_time(producer, clock, 21.0)
        error = await expire(future, 20)
        pass_time(producer, clock, 40.0)
        assert (await producer.send("t", b"x")).offset == 1
    assert (type(error), error.attempts) == (NotSentError, 0)
    assert re.search(r"Broker 1 at .* throttles this client for another (38|39)\.\d s\.", str(error))


async def test_while_it_is_being_compressed(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {**OPTIONS, "compression_type": "gzip", "batch_size": 10**6, "buffer_memory": 10**8}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        with codec_gate(monkeypatch) as gate:
            future = producer.submit("t", bytes(900_000))
            flushing = asyncio.create_task(producer.flush())
            await until(lambda: gate.active)
            pass_time(producer, clock, 61.0)
            error = await expire(future)
            gate.open()
        await flushing
        assert (await producer.send("t", b"x")).offset == 0
    assert (type(error), error.attempts) == (NotSentError, 0)
    assert re.search(r"A thread compresses its first batch of 9000\d\d bytes \(gzip\)\.", str(error))


async def test_while_the_broker_has_as_many_requests_as_it_may(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    clock = ShiftedClock()
    options: dict[str, Any] = {**OPTIONS, "max_in_flight_requests_per_connection": 1}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        others = producer.submit("t", b"v", partition=0)
        await held.reached.wait()
        future = producer.submit("t", b"w", partition=1)
        await turns()
        pass_time(producer, clock, 61.0)
        error = await expire(future)
        assert type(await expire(others)) is UnknownOutcomeError
        held.release()
    assert (type(error), error.attempts) == (NotSentError, 0)
    assert re.search(r"Broker 1 at .* has 1 request to answer, the oldest for 6\d", str(error))


async def test_while_it_backs_off_from_a_broker_that_is_gone(brokers: FakeCluster) -> None:
    """Both what it was told last and how it stands now are said."""
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **OPTIONS) as producer:
        await producer.partitions_for("t")
        refused = brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=None)
        future = producer.submit("t", b"v")
        await until(lambda: refused.hits >= 2)
        await brokers[1].kill(stay_in_metadata=True)
        pass_time(producer, clock, 61.0)
        error = await expire(future)
        await brokers[1].start()
    assert isinstance(error, DeliveryError)
    assert re.search(r"Last: .*\. Broker 1 at 127\.0\.0\.1", str(error))
    assert error.__cause__ is not None


async def test_the_others_continue_when_one_expires(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, batch_size=0, **OPTIONS) as producer:
        await producer.partitions_for("t")
        early = producer.submit("t", b"early", partition=1)
        pass_time(producer, clock, 30.0)
        late = producer.submit("t", b"late", partition=1)
        pass_time(producer, clock, 31.0)
        await expire(early)
        assert not late.done()
        brokers.state.move_leader(TopicPartition("t", 1), 1)
        assert (await late).offset == 0
    assert [record.value for record in topic.records()] == [b"late"]
