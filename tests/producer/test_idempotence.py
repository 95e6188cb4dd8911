"""Idempotence end to end: the producer id, what brokers refuse, and that faults leave no duplicate and no hole."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    MetadataTimeoutError,
    ProducerClosedError,
    RejectedError,
    RequestTimedOutError,
    UnknownOutcomeError,
    UnsupportedVersionError,
)
from aioprod.messages import InitProducerIdRequest, ProduceRequest
from aioprod.producer.batching.sequences import EPOCH_MAX
from aioprod.records.parser import parse_batches
from aioprod.testing.fake import FakeCluster
from tests.support.dead_addresses import dead_address
from tests.support.producers import ShiftedClock, begin, left_over, new_producer, pass_time, running, turns, until
from tests.support.simulated import in_simulated_time

BY_ONE: dict[str, Any] = {"batch_size": 0, "linger_ms": 0}


def stamps(brokers: FakeCluster) -> list[tuple[int, int, int]]:
    """(producer id, epoch, first sequence) of each batch that arrived."""
    return [
        (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        for request in brokers.seen_of(ProduceRequest)
        for topic in request.topic_data
        for data in topic.partition_data
        for batch in parse_batches(bytes(data.records or b""))
    ]


def numbers(brokers: FakeCluster, topic: str = "t") -> list[int]:
    return [int(record.value or b"") for record in brokers.records(topic)]


async def anchored(producer: Any) -> None:
    """The first batch of a partition is alone until it is acknowledged: let it be."""
    await producer.send("t", b"0")


async def test_start_gets_a_producer_id_and_batches_are_numbered(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        (asked,) = brokers.seen_of(InitProducerIdRequest)
        assert asked.transactional_id is None
        for n in range(3):
            await producer.send("t", b"%d" % n)
    producer_id = stamps(brokers)[0][0]
    assert stamps(brokers) == [(producer_id, 0, 0), (producer_id, 0, 1), (producer_id, 0, 2)]


@pytest.mark.parametrize("wrong", [{"producer_id": -5}, {"producer_epoch": -7}])
async def test_an_id_that_can_not_be_is_asked_for_again(brokers: FakeCluster, wrong: dict[str, int]) -> None:
    brokers.create_topic("t")
    brokers.fault(InitProducerIdRequest, edit=lambda answer: replace(answer, **wrong))
    async with running(brokers, **BY_ONE) as producer:
        await producer.send("t", b"0")
        assert len(brokers.seen_of(InitProducerIdRequest)) == 2
    assert stamps(brokers)[0][0] >= 0
    assert stamps(brokers)[0][1] >= 0


async def test_without_idempotence_there_is_none(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, enable_idempotence=False) as producer:
        await producer.send("t", b"0")
    assert brokers.seen_of(InitProducerIdRequest) == []
    assert stamps(brokers) == [(-1, -1, -1)]


async def test_the_first_answer_may_be_no(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers.fault(InitProducerIdRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    brokers.fault(InitProducerIdRequest, drop="after", times=2)
    async with running(brokers) as producer:
        await producer.send("t", b"0")
    assert len(brokers.seen_of(InitProducerIdRequest)) == 5


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, BrokerError),
    ],
)
async def test_a_rejected_request_ends_the_start_and_says_how_to_do_without(
    brokers: FakeCluster, code: ErrorCode, kind: type[Exception]
) -> None:
    before = asyncio.all_tasks()
    brokers.fault(InitProducerIdRequest, error=code, times=None)
    producer = new_producer(brokers.bootstrap)
    text = rf"answered {code.name} to the request for a producer id.*enable.idempotence=false.*Freight"
    with pytest.raises(kind, match=text) as refused:
        await producer.start()
    if isinstance(refused.value, AuthorizationError):
        error = refused.value
        assert (error.resource_type, error.resource) == ("cluster", "kafka-cluster")
        assert error.operation == "IDEMPOTENT_WRITE"
        assert "--operation IdempotentWrite --cluster`, or WRITE on any topic" in str(error.hint)
    assert left_over(before) == []


async def test_brokers_that_give_no_ids_end_the_start(brokers: FakeCluster) -> None:
    del brokers[1].versions[InitProducerIdRequest]
    producer = new_producer(brokers.bootstrap)
    with pytest.raises(UnsupportedVersionError, match=r"give no producer ids.*enable.idempotence=false.*Freight"):
        await producer.start()


@in_simulated_time
async def test_the_start_is_over_after_max_block_ms_with_the_last_reason() -> None:
    async with FakeCluster(1) as brokers:
        brokers.fault(InitProducerIdRequest, error=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=None)
        producer = new_producer(brokers.bootstrap, max_block_ms=200)
        with pytest.raises(
            MetadataTimeoutError, match=r"within 0\.\d+ s.*COORDINATOR_NOT_AVAILABLE.*Now: Broker 1 at .* is "
        ):
            await begin(producer)


@pytest.mark.parametrize("transactional_id", [None, "till"])
@in_simulated_time
async def test_brokers_whose_own_addresses_can_not_be_reached(transactional_id: str | None) -> None:
    """What a broker answered before says less than how it stands with the addresses now."""
    async with FakeCluster(1) as brokers:
        bootstrap = brokers.bootstrap
        brokers.state.nodes[1] = dead_address()
        if transactional_id is None:
            brokers.fault(InitProducerIdRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
        backoff = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 100}
        producer = new_producer(bootstrap, max_block_ms=5000, transactional_id=transactional_id, **backoff)
        with pytest.raises(AioprodError, match=r"Now: .* can't be reached ") as caught:
            await begin(producer)
        assert isinstance(caught.value, (MetadataTimeoutError, RequestTimedOutError))
        await producer.close()
    assert caught.value.hint == "Check that the brokers' advertised.listeners can be reached from here."


async def test_closed_while_it_waits_for_an_id(brokers: FakeCluster) -> None:
    hold = brokers.fault(InitProducerIdRequest, hold=True)
    producer = new_producer(brokers.bootstrap)
    starting = asyncio.create_task(producer.start())
    await hold.reached.wait()
    await producer.close()
    hold.release()
    with pytest.raises(ProducerClosedError):
        await starting


async def test_five_batches_of_a_partition_are_in_flight(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        await anchored(producer)
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(1, 10)]
        await hold.reached.wait()
        await turns()
        assert producer.metrics()["requests_in_flight"] == 5
        hold.release()
        assert [(await future).offset for future in futures] == list(range(1, 10))
    assert numbers(brokers) == list(range(10))


@pytest.mark.parametrize(
    "fault",
    [
        {"drop": "after"},
        {"drop": "before"},
        {"error": ErrorCode.NOT_ENOUGH_REPLICAS},
        {"error": ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "apply": True},
        {"reply": b"\x00\x00\x00\x04\xff\xff\xff\xff"},
        {"cut_after_bytes": 9},
    ],
    ids=lambda fault: "-".join(str(value) for value in fault.values())[:40],
)
async def test_no_duplicate_and_no_disorder(brokers: FakeCluster, fault: dict[str, Any]) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        await anchored(producer)
        for _ in range(3):
            brokers.fault(ProduceRequest, times=2, **fault)
            futures = [producer.submit("t", b"%d" % n) for n in range(1, 30)]
            for future in futures:
                await future
        assert producer.metrics()["epoch_bumps"] == 0
    assert numbers(brokers) == [0, *range(1, 30), *range(1, 30), *range(1, 30)]


async def test_after_a_batch_that_expired_on_the_wire_the_next_ones_arrive_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options = {"delivery_timeout_ms": 60_000, "request_timeout_ms": 50_000, **BY_ONE}
    async with running(brokers, clock=clock, **options) as producer:
        await anchored(producer)
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(1, 9)]
        await hold.reached.wait()
        pass_time(producer, clock, 61.0)
        families = [type(await asyncio.wait_for(asyncio.shield(failure_of(future)), 10)) for future in futures]
        assert families[:5] == [UnknownOutcomeError] * 5
        later = [producer.submit("t", b"%d" % n) for n in range(9, 20)]
        hold.release()
        for future in later:
            await future
    stored = numbers(brokers)
    assert stored == sorted(set(stored))
    assert stored[-11:] == list(range(9, 20))


async def failure_of(future: asyncio.Future[Any]) -> BaseException | None:
    await asyncio.wait([future])
    return future.exception()


async def test_a_rejected_batch_begins_an_epoch_and_the_rest_continues(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        await anchored(producer)
        brokers.fault(ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        futures = [producer.submit("t", b"%d" % n) for n in range(1, 9)]
        assert isinstance(await failure_of(futures[0]), RejectedError)
        for future in futures[1:]:
            await future
        assert producer.metrics()["epoch_bumps"] == 1
    assert numbers(brokers) == [0, *range(2, 9)]


async def test_brokers_that_have_forgotten_the_producer(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        for n in range(3):
            await producer.send("t", b"%d" % n)
        brokers.expire_producer_state("t")
        for n in range(3, 6):
            await producer.send("t", b"%d" % n)
    assert numbers(brokers) == list(range(6))


async def test_when_the_epochs_are_used_up_another_id_is_fetched(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **BY_ONE) as producer:
        await anchored(producer)
        partition = producer._engine.parts.accumulator.topics["t"].partitions[0]
        partition.epoch = EPOCH_MAX
        partition.next_sequence = 0
        brokers.fault(ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        brokers.fault(InitProducerIdRequest, error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        brokers.fault(InitProducerIdRequest, drop="before")
        refused = producer.submit("t", b"1")
        following = [producer.submit("t", b"%d" % n) for n in range(2, 6)]
        assert isinstance(await failure_of(refused), RejectedError)
        for future in following:
            await future
    first, *_, last = stamps(brokers)
    assert first[0] != last[0]
    assert last[1:] == (0, 3)
    assert numbers(brokers) == [0, 2, 3, 4, 5]


async def test_closed_while_it_waits_for_another_id(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, close_s=0.2, **BY_ONE) as producer:
        await anchored(producer)
        producer._engine.parts.accumulator.topics["t"].partitions[0].epoch = EPOCH_MAX
        brokers.fault(ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        hold = brokers.fault(InitProducerIdRequest, hold=True)
        refused = producer.submit("t", b"1")
        kept = producer.submit("t", b"2")
        assert isinstance(await failure_of(refused), RejectedError)
        await until(hold.reached.is_set)
    assert await failure_of(kept) is not None


async def test_closed_while_the_last_epoch_is_on_the_wire(brokers: FakeCluster) -> None:
    """The hole is seen when the connection ends, and then nobody needs another id."""
    brokers.create_topic("t")
    producer = new_producer(brokers.bootstrap, **BY_ONE)
    await producer.start()
    await anchored(producer)
    producer._engine.parts.accumulator.topics["t"].partitions[0].epoch = EPOCH_MAX
    hold = brokers.fault(ProduceRequest, hold=True)
    lost = producer.submit("t", b"1")
    await until(hold.reached.is_set)
    await producer.close(0)
    await turns()
    assert isinstance(await failure_of(lost), UnknownOutcomeError)
    assert producer._engine.guard.cause is None
    assert len(brokers.seen_of(InitProducerIdRequest)) == 1
    hold.release()
