"""The records of a partition keep their order, whatever goes wrong on the way and in both modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aioprod import TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import MetadataRequest, ProduceRequest, ProduceResponse
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakeTopic
from tests.support.producers import produced, running, turns, until

ONE_BATCH_IN_FLIGHT: dict[str, Any] = {}
PIPELINED: dict[str, Any] = {"enable_idempotence": False}

modes = pytest.mark.parametrize("mode", [ONE_BATCH_IN_FLIGHT, PIPELINED], ids=["one batch", "pipelined"])


def values(topic: FakeTopic, partition: int = 0) -> list[int]:
    return [int(record.value or b"-1") for record in topic.partitions[partition].records()]


def unchanged(answer: Any) -> Any:
    """A request that goes well has its place in the order of faults, too."""
    return answer


async def send_in_batches_of_one(producer: Any, count: int, partition: int = 0) -> list[int]:
    """Small batches, so that many of them are on their way when things go wrong; the offsets that they got."""
    futures = [producer.submit("t", b"%d" % n, partition=partition) for n in range(count)]
    await producer.flush()
    return [(await future).offset for future in futures]


REFUSALS = [
    {"error": ErrorCode.NOT_LEADER_OR_FOLLOWER},
    {"error": ErrorCode.REQUEST_TIMED_OUT},
    {"error": ErrorCode.NOT_ENOUGH_REPLICAS, "times": 3},
    {"error": ErrorCode.CORRUPT_MESSAGE},
]
CUTS: list[dict[str, Any]] = [{"drop": "before"}, {"drop": "before", "times": 3}]


def in_words(fault: dict[str, Any]) -> str:
    return " ".join(str(part) for part in fault.values())


@pytest.mark.parametrize("fault", REFUSALS + CUTS, ids=in_words)
async def test_a_retry_keeps_the_order(brokers: FakeCluster, fault: dict[str, Any]) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0) as producer:
        await producer.send("t", b"0")
        brokers.fault(ProduceRequest, **fault)
        offsets = await send_in_batches_of_one(producer, 30)
        assert producer.metrics()["record_retry_total"] >= 1
    assert values(topic) == [0, *range(30)]
    assert offsets == list(range(1, 31))


@pytest.mark.parametrize("fault", CUTS, ids=in_words)
async def test_a_cut_connection_keeps_the_order_of_what_was_pipelined(
    brokers: FakeCluster, fault: dict[str, Any]
) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0, **PIPELINED) as producer:
        await producer.send("t", b"0")
        brokers.fault(ProduceRequest, **fault)
        assert await send_in_batches_of_one(producer, 30) == list(range(1, 31))
    assert values(topic) == [0, *range(30)]


@pytest.mark.parametrize("fault", REFUSALS, ids=in_words)
async def test_only_what_was_pipelined_already_overtakes_a_retry(brokers: FakeCluster, fault: dict[str, Any]) -> None:
    topic = brokers.create_topic("t")
    options: dict[str, Any] = {"batch_size": 0, "linger_ms": 0, "max_in_flight_requests_per_connection": 3}
    async with running(brokers, **PIPELINED, **options) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True, **{**fault, "times": 1})
        futures = [producer.submit("t", b"%d" % n) for n in range(30)]
        await until(lambda: producer.metrics()["requests_in_flight"] == 3)
        held.release()
        for future in futures:
            await future
    assert values(topic) == [1, 2, 0, *range(3, 30)]


@modes
async def test_a_lost_answer_may_duplicate_but_not_reorder(brokers: FakeCluster, mode: dict[str, Any]) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0, **mode) as producer:
        await producer.send("t", b"0")
        brokers.fault(ProduceRequest, drop="after")
        await send_in_batches_of_one(producer, 20)
    stored = values(topic)[1:]
    assert [value for place, value in enumerate(stored) if value not in stored[:place]] == list(range(20))


async def test_many_faults_in_a_row_keep_the_order(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers, batch_size=0) as producer:
        for error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS):
            brokers.fault(ProduceRequest, error=error)
            brokers.fault(ProduceRequest, edit=unchanged)
            brokers.fault(ProduceRequest, drop="before")
            brokers.fault(ProduceRequest, error=error, partition=TopicPartition("t", 1))
        futures = [producer.submit("t", b"%d" % n, partition=n % 2) for n in range(60)]
        await producer.flush()
        for future in futures:
            await future
    assert values(topic, 0) == list(range(0, 60, 2))
    assert values(topic, 1) == list(range(1, 60, 2))
    brokers.end_faults()


async def test_idempotence_has_one_batch_of_a_partition_in_flight(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    async with running(brokers, batch_size=0, linger_ms=0) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n, partition=n % 2) for n in range(6)]
        await hold.reached.wait()
        await turns()
        assert producer.metrics()["requests_in_flight"] == 1
        assert producer.metrics()["record_send_total"] == 2
        hold.release()
        for future in futures:
            await future
    assert [len(request) for request in produced(brokers)] == [2, 2, 2]
    assert values(topic, 0) == [0, 2, 4]


async def test_without_idempotence_batches_are_pipelined(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    options: dict[str, Any] = {"batch_size": 0, "linger_ms": 0, "max_in_flight_requests_per_connection": 3}
    async with running(brokers, **PIPELINED, **options) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(10)]
        await hold.reached.wait()
        await turns()
        assert producer.metrics()["requests_in_flight"] == 3
        assert producer.metrics()["record_send_total"] == 3
        hold.release()
        for future in futures:
            await future
    assert values(topic) == list(range(10))


async def test_a_pipelined_partition_is_muted_while_a_retry_is_pending(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)
    options: dict[str, Any] = {"batch_size": 0, "linger_ms": 0}
    async with running(brokers, **PIPELINED, **options) as producer:
        await producer.partitions_for("t")
        failing = brokers.fault(ProduceRequest, hold=True, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        first = producer.submit("t", b"0", partition=0)
        await failing.reached.wait()
        # Not before the first one is on its way: they would be sent again with it.
        retried = brokers.fault(ProduceRequest, hold=True)
        failing.release()
        await retried.reached.wait()
        later = [producer.submit("t", b"%d" % n, partition=0) for n in range(1, 4)]
        other = producer.submit("t", b"9", partition=1)
        await until(lambda: producer.metrics()["requests_in_flight"] == 2)
        await turns()
        assert producer.metrics()["requests_in_flight"] == 2, "only the other partition goes on"
        retried.release()
        assert [(await future).offset for future in (first, *later)] == [0, 1, 2, 3]
        await other
    assert values(topic, 0) == [0, 1, 2, 3]


async def test_a_failed_batch_is_not_the_end_of_the_others(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, edit=unchanged)
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_TIMESTAMP)
        futures = [producer.submit("t", b"%d" % n) for n in range(5)]
        await producer.flush()
        failed = [n for n, future in enumerate(futures) if future.exception() is not None]
    assert failed == [1]
    assert values(topic) == [0, 2, 3, 4]


async def test_the_leader_moves_while_records_are_on_their_way(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    tp = TopicPartition("t", 0)
    async with running(brokers, batch_size=0) as producer:
        await producer.send("t", b"0", partition=0)
        for leader in (2, 3, 1):
            held = brokers.fault(ProduceRequest, hold=True)
            futures = [producer.submit("t", b"%d" % n, partition=0) for n in range(10)]
            await held.reached.wait()
            brokers.state.move_leader(tp, leader)
            held.release()
            for future in futures:
                await future
        assert (await producer.partitions_for("t"))[0].leader is not None
    assert values(topic) == [0, *range(10), *range(10), *range(10)]


async def test_a_partition_without_leader_waits_for_one(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers) as producer:
        await producer.send("t", b"0", partition=0)
        brokers.state.move_leader(TopicPartition("t", 0), None)
        waiting = producer.submit("t", b"1", partition=0)
        asked = len(brokers.seen_of(MetadataRequest))
        await until(lambda: len(brokers.seen_of(MetadataRequest)) > asked + 2)
        assert not waiting.done()
        assert (await producer.send("t", b"x", partition=1)).offset == 0, "others go on"
        brokers.state.move_leader(TopicPartition("t", 0), 3)
        assert (await waiting).offset == 1
    assert values(topic) == [0, 1]


@modes
async def test_a_broker_restarts(brokers: FakeCluster, mode: dict[str, Any]) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, batch_size=0, **mode) as producer:
        await producer.send("t", b"0")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(1, 20)]
        await hold.reached.wait()
        lost = producer.metrics()["connection_close_total"]
        await brokers[1].kill(stay_in_metadata=True)
        assert producer.buffered.records == 19
        await until(lambda: producer.metrics()["connection_close_total"] > lost)
        await brokers[1].start()
        for future in futures:
            await future
        assert producer.metrics()["connection_count"] == 1
    assert values(topic) == list(range(20))


async def test_a_dead_broker_delays_no_other(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers, close_s=0) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        stuck = [producer.submit("t", b"%d" % n, partition=0) for n in range(5)]
        for n in range(20):
            assert (await producer.send("t", b"%d" % n, partition=1 + n % 2)).offset == n // 2
        assert not any(future.done() for future in stuck)
        await brokers[1].start()
        for future in stuck:
            await future
    assert values(topic) == list(range(5))


async def test_an_answer_that_leaves_a_batch_out_counts_as_lost(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=2)

    def without_partition_1(answer: ProduceResponse) -> ProduceResponse:
        (of_topic,) = answer.responses
        kept = tuple(part for part in of_topic.partition_responses if part.index != 1)
        return replace(answer, responses=(replace(of_topic, partition_responses=kept),))

    async with running(brokers) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, edit=without_partition_1)
        futures = [producer.submit("t", b"%d" % n, partition=n) for n in range(2)]
        assert [(await future).partition for future in futures] == [0, 1]
    assert values(topic, 0) == [0]
    assert values(topic, 1) == [1], "it was stored before its answer got lost, and is known again"


async def test_with_one_request_in_flight_a_new_leader_gets_nothing_before_the_old_one_has_answered(
    three_brokers: FakeCluster,
) -> None:
    brokers = three_brokers
    topic = brokers.create_topic("t")
    options: dict[str, Any] = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    async with running(brokers, batch_size=0, metadata_max_age_ms=20, **options) as producer:
        await producer.send("t", b"0")
        hold = brokers.fault(ProduceRequest, hold=True)
        first = producer.submit("t", b"1")
        await until(hold.reached.is_set)
        old = topic.partitions[0].leader
        brokers.move_leader("t", 0)
        queues = producer._engine.parts.accumulator.topics["t"].partitions
        await until(lambda: queues[0].queue is not None and queues[0].queue.node_id != old)
        second = producer.submit("t", b"2")
        await turns()
        assert len(brokers.seen_of(ProduceRequest)) == 2
        hold.release()
        await first
        await second
    assert [record.value for record in topic.records()] == [b"0", b"1", b"2"]
