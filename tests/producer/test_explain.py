"""`Producer.explain` says what a record waits for, with numbers, in each state that a record can be in."""

from __future__ import annotations

import asyncio
import re
from random import Random
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import ErrorCode, UsageError
from aioprod.messages import AddPartitionsToTxnRequest, ApiVersionsRequest, MetadataRequest, ProduceRequest
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from tests.support.codec_gate import codec_gate
from tests.support.producers import ShiftedClock, new_producer, pass_time, running, turns, until
from tests.support.transactions import state_of, transacting

SLOW: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000, "delivery_timeout_ms": 900_000}

RETRIABLE = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)


def check(text: str, *parts: str) -> None:
    """The parts, regular expressions, come up one after the other; the text is made of sentences."""
    assert re.search(".*".join(parts), text), text
    assert text.endswith("."), text
    assert not re.search(r"\.\.|  |\binf\b|\bnan\b|None", text), text


async def test_nothing_is_held(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    async with running(brokers) as producer:
        check(producer.explain("t", 0), "^Nothing is held for t-0: topic 't' is not in use by this producer\\.$")
        await producer.send("t", b"v", partition=0)
        check(producer.explain("t", 0), r"^Nothing is held for t-0: every record that was accepted has its outcome\.$")
        check(producer.explain("t", 2), r"^Topic 't' has 2 partitions, so there is no partition 2\.$")
        check(producer.explain("t", -1), "no partition -1")


async def test_where_it_can_not_be_requested(brokers: FakeCluster) -> None:
    producer = new_producer(brokers.bootstrap)
    with pytest.raises(UsageError, match="not started"):
        producer.explain("t", 0)
    async with producer:
        for topic, partition in (("t", "0"), (None, 0), ("t", None)):
            with pytest.raises(UsageError, match=r"explain\(\) takes the name of a topic and the number"):
                producer.explain(topic, partition)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is closed"):
        producer.explain("t", 0)


async def test_while_the_producer_closes(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        held = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"v")
        closing = asyncio.create_task(producer.close())
        await held.reached.wait()
        check(producer.explain("t", 0), "on the way to broker 1")
        held.release()
        await closing


# -- topics ----------------------------------------------------------------------------------------------------------


async def test_the_topic_is_not_known_and_no_answer_comes(brokers: FakeCluster) -> None:
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        silence = brokers.fault(MetadataRequest, hold=True)
        futures = [producer.submit("t", b"v"), producer.submit("t", b"v", partition=3)]
        await silence.reached.wait()
        pass_time(producer, clock, 12.0)
        check(
            producer.explain("t", 3),
            r"^2 records for topic 't' wait until its partitions are known, the first for 12\.\d s, and for 4\d\.\d s ",
            "The metadata of topic 't' was requested 1 time within 12",
            "without an answer so far: Broker 1 at 127.0.0.1:",
        )
        check(producer.explain("t", 0), "^1 record for topic 't' waits")
        brokers.create_topic("t", partitions=4)
        silence.release()
        for future in futures:
            await future


async def test_the_metadata_of_the_topic_can_not_be_requested(brokers: FakeCluster) -> None:
    async with running(brokers, close_s=0) as producer:
        await brokers[1].kill(stay_in_metadata=True)
        link = producer._engine.parts.client.link(1)
        assert link is not None
        await until(lambda: link.last_error is not None)
        future = producer.submit("t", b"v")
        await turns()
        check(
            producer.explain("t", 0),
            "The metadata of topic 't' could not be requested within ",
            ": (Broker 1 at )?127.0.0.1:",
        )
        future.cancel()


async def test_the_brokers_say_that_the_topic_does_not_exist(brokers: FakeCluster) -> None:
    brokers.state.auto_create = False
    async with running(brokers, retry_backoff_ms=300, retry_backoff_max_ms=300) as producer:
        future = producer.submit("t", b"v")
        await until(lambda: producer._engine.parts.client.metadata.topic_error("t"))
        check(
            producer.explain("t", 0),
            r"metadata of topic 't' was requested \d time",
            "the last answer was UNKNOWN_TOPIC_OR_PARTITION",
        )
        brokers.create_topic("t")
        await future


async def test_the_question_for_the_topic_failed(brokers: FakeCluster) -> None:
    async with running(brokers, **SLOW) as producer:
        brokers.fault(MetadataRequest, drop="before")
        producer.send_nowait("t", b"v")
        metadata = producer._engine.parts.client.metadata
        await until(lambda: metadata.last_failure is not None)
        check(
            producer.explain("t", 0), "1 record", "1 time", "the last request failed: Broker 1 at 127.0.0.1:.* closed"
        )
        await producer.close(0)


# -- brokers ---------------------------------------------------------------------------------------------------------


async def test_there_is_no_leader(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=2)
    brokers.state.move_leader(TopicPartition("t", 1), None)
    async with running(brokers, **SLOW) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v", partition=1)
        check(
            producer.explain("t", 1),
            r"^1 record of t-1 in 1 batch has no outcome yet after \d+ ms\.",
            r"The partition has no leader, said an answer \d+ ms ago; metadata is requested again in \d+\.\d s\.$",
        )
        held = brokers.fault(MetadataRequest, hold=True)
        producer._engine.parts.client.metadata.add_topic("another", 0.0)
        producer._engine.parts.client.wake()
        await held.reached.wait()
        check(producer.explain("t", 1), "no leader", r"metadata is being requested\.$")
        held.release()
        future.cancel()


async def test_the_broker_can_not_be_reached(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    options: dict[str, Any] = {"reconnect_backoff_ms": 600_000, "reconnect_backoff_max_ms": 600_000}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        futures = [producer.submit("t", b"v") for _ in range(3)]
        link = producer._engine.parts.client.link(1)
        await until(lambda: link is not None and link.attempts)
        check(
            producer.explain("t", 0),
            "^3 records of t-0 in 1 batch have no outcome yet",
            r"Broker 1 at 127\.0\.0\.1:\d+ could not be connected to in 1 attempt: .*closed",
            r"; the next one is in [456]\d\d\.\d s\.$",
        )
        for future in futures:
            future.cancel()


async def test_the_broker_is_being_connected_to(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ApiVersionsRequest, hold=True)
        await brokers[1].cut()
        future = producer.submit("t", b"v")
        await held.reached.wait()
        pass_time(producer, clock, 5.0)
        check(
            producer.explain("t", 0),
            r"Broker 1 at 127\.0\.0\.1:\d+ is being connected to for 5\.\d s, attempt 2: .*closed",
        )
        held.release()
        await future


async def test_the_broker_throttles(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        brokers.fault(ProduceRequest, throttle_ms=60_000)
        await producer.send("t", b"0")
        future = producer.submit("t", b"1")
        await turns()
        pass_time(producer, clock, 20.0)
        check(producer.explain("t", 0), r"Broker 1 at .* throttles this client for another (39|40)\.\d s\.$")
        pass_time(producer, clock, 41.0)
        await future


async def test_the_leader_is_not_one_of_the_brokers_any_more(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    async with running(brokers, **SLOW) as producer:
        await producer.partitions_for("t")
        queue = producer._engine.parts.accumulator.queue(7)
        producer._engine.parts.accumulator.topics["t"].partitions[0].queue = queue
        future = producer.submit("t", b"v", partition=0)
        check(producer.explain("t", 0), "Broker 7 leads it, and is not one of those that the cluster names now")
        future.cancel()


async def test_the_broker_has_as_many_requests_as_it_may(brokers: FakeCluster) -> None:
    brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": 2, "batch_size": 0}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        futures = []
        for index in range(3):
            futures.append(producer.submit("t", b"v", partition=index))
            await turns()
        await held.reached.wait()
        pass_time(producer, clock, 3.0)
        check(
            producer.explain("t", 2),
            r"Broker 1 at .* has 2 requests to answer, the oldest for 3\.\d s, and gets no more meanwhile ",
            r"\(max\.in\.flight\.requests\.per\.connection=2\)",
        )
        check(producer.explain("t", 0), r"1 batch is on the way to broker 1, which has owed an answer for 3\.\d s\.$")
        held.release()
        for future in futures:
            await future


async def test_the_round_trip_limits_a_partition(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, max_in_flight_requests_per_connection=2, batch_size=1000) as producer:
        await producer.send("t", b"0", partition=0)
        queue = producer._engine.parts.accumulator.queues[1]
        queue.round_trip_s = queue.pace_s = 0.0
        held = brokers.fault(ProduceRequest, hold=True)
        futures = []
        for size in (700, 30_000, 100):
            futures += [producer.submit("t", b"x" * 100) for _ in range(size // 100)]
            await turns()
        await held.reached.wait()
        assert "Limited" not in producer.explain("t", 0), "the round trip is not known"
        queue.round_trip_s = 0.25
        check(
            producer.explain("t", 0),
            r"2 batches are on the way to broker 1",
            r"Limited by the round trip: 2 requests of 16.9 kB in 250 ms = 135 kB/s; ",
            r"batches have grown from 1 kB to 16.9 kB\.",
        )
        held.release()
        for future in futures:
            await future
        assert "Limited" not in producer.explain("t", 0)


async def test_an_answer_that_is_lost_says_nothing_about_the_round_trip(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, request_timeout_ms=30_000) as producer:
        held = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"0", partition=0)
        await held.reached.wait()
        queue = producer._engine.parts.accumulator.queues[1]
        pass_time(producer, clock, 31.0)
        await until(lambda: not queue.in_flight)
        assert queue.round_trip_s == 0.0
        held.release()
        await future
        assert 0.0 < queue.round_trip_s < 30.0


async def test_the_socket_is_full(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.send("t", b"0")
        link = producer._engine.parts.client.link(1)
        assert link is not None
        assert link.connection is not None
        link.connection.can_write = False
        future = producer.submit("t", b"1")
        await turns()
        check(producer.explain("t", 0), "takes no more bytes: the buffers of its connection are full")
        link.connection.resume_writing()
        await future
        link.connection.shut()
        assert "is being closed" in str(
            producer._engine.parts.outcomes.explainer.broker(producer._engine.parts.accumulator.queues[1], 0.0)
        )


# -- batches ---------------------------------------------------------------------------------------------------------


async def test_batches_are_on_the_way_and_others_behind_them(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, batch_size=0) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"v") for _ in range(9)]
        await held.reached.wait()
        await turns()
        pass_time(producer, clock, 2.0)
        check(
            producer.explain("t", 0),
            "^9 records of t-0 in 9 batches",
            "on the way to broker 1, which has owed an answer",
        )
        held.release()
        for future in futures:
            await future


async def test_a_batch_waits_for_its_retry(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **SLOW) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        producer.send_nowait("t", b"v")
        await until(lambda: producer.metrics()["record_retry_total"])
        check(
            producer.explain("t", 0),
            r"Its first batch goes again in [456]\d\.\d s, as attempt 2\. ",
            r"Last: Broker 1 answered NOT_ENOUGH_REPLICAS for t-0\.",
        )
        await producer.close(0)


async def test_a_batch_is_on_the_way_again(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, batch_size=0) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        held = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"v"), producer.submit("t", b"w")]
        await held.reached.wait()
        check(
            producer.explain("t", 0), "1 batch is on the way", "a batch that was sent again is answered, no later one"
        )
        held.release()
        for future in futures:
            await future


async def test_a_batch_is_being_compressed(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    async with running(brokers, compression_type="gzip", batch_size=10**6, buffer_memory=10**8) as producer:
        await producer.partitions_for("t")
        with codec_gate(monkeypatch) as gate:
            future = producer.submit("t", bytes(900_000))
            await producer_flushes(producer)
            check(producer.explain("t", 0), r"A thread compresses its first batch of 9000\d\d bytes \(gzip\)\.")
            gate.open()
        await future


async def producer_flushes(producer: Producer) -> None:
    """Begin a flush, which finishes the batches, and wait for nothing."""
    flushing = asyncio.create_task(producer.flush())
    await turns()
    flushing.cancel()
    await asyncio.gather(flushing, return_exceptions=True)


@pytest.mark.parametrize("adaptive", [True, False])
async def test_a_batch_lingers(brokers: FakeCluster, adaptive: bool) -> None:
    brokers.create_topic("t", partitions=2)
    options: dict[str, Any] = {"linger_ms": 50_000, "adaptive_linger": adaptive, "delivery_timeout_ms": 900_000}
    async with running(brokers, **options) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        if adaptive:
            producer.send_nowait("t", b"v", partition=1)
            await held.reached.wait()
        future = producer.submit("t", b"v", partition=0)
        until_what = ", or until a request to its broker is answered" if adaptive else ""
        check(producer.explain("t", 0), rf"lingers for another [45]\d\.\d s \(linger\.ms\){until_what}\.$")
        held.release()
        await producer.flush()
        await future


async def test_a_batch_leaves_in_this_turn(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, linger_ms=0) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v")
        check(producer.explain("t", 0), r"It leaves with the next request to broker 1\.$")
        await future


async def test_the_time_of_what_is_on_the_way_is_over(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {"delivery_timeout_ms": 60_000, "request_timeout_ms": 60_000, "linger_ms": 0}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        producer.send_nowait("t", b"v", on_delivery=lambda metadata, error: None)
        await turns()
        pass_time(producer, clock, 30.0)
        await held.reached.wait()
        accumulator = producer._engine.parts.accumulator
        for batch in accumulator.incomplete:
            batch.deadline -= 45.0
        producer._engine.parts.wake()
        await until(lambda: not accumulator.incomplete)
        future = producer.submit("t", b"w")
        check(
            producer.explain("t", 0),
            "1 batch is on the way to broker 1, which has owed an answer for 3",
            "A batch of producer epoch 0 was lost or rejected before; then the partition continues, in a new epoch",
        )
        held.release()
        await future


async def test_numbers_before_and_after_a_gap(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **SLOW) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"v")
        await held.reached.wait()
        later = producer.submit("t", b"w")
        check(producer.explain("t", 0), r"One batch at a time is sent until one of producer epoch 0 is acknowledged\.$")
        partition = producer._engine.parts.accumulator.topics["t"].partitions[0]
        partition.unknown_serial = 0
        check(producer.explain("t", 0), r"was lost or rejected before: 1 batch sent since gets an answer; then")
        partition.suspended = True
        check(producer.explain("t", 0), r"no epoch is left: a new producer id is requested\.$")
        sequences = producer._engine.parts.accumulator.sequences
        explainer = producer._engine.parts.outcomes.explainer
        assert sequences is not None
        explainer._settings = explainer._settings._replace(transactional=True)
        check(producer.explain("t", 0), r"nothing is sent until the transaction is over\.$")
        producer_id, sequences.producer_id = sequences.producer_id, -1
        check(producer.explain("t", 0), r"The producer waits for a producer id\.$")
        sequences.producer_id = producer_id
        partition.unknown_serial, partition.suspended = -1, False
        held.release()
        await future
        await later


async def test_memory_is_used_up(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, buffer_memory=40_000, batch_size=1000) as producer:
        await producer.partitions_for("t")
        held = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", bytes(900)) for _ in range(40)]
        sending = asyncio.create_task(producer.send("t", bytes(9000)))
        await held.reached.wait()
        await turns()
        check(
            producer.explain("t", 0),
            "^40 records of t-0",
            r"1 call waits for room: 40 records hold 3\d{4} of buffer\.memory=40000 bytes\.$",
        )
        check(producer.explain("another", 0), "^Nothing is held for another-0", "1 call waits for room")
        held.release()
        for future in [*futures, sending]:
            await future


# -- transactions ----------------------------------------------------------------------------------------------------


async def test_the_coordinator_has_yet_to_add_the_partition() -> None:
    async with FakeCluster(transaction_version=1) as cluster:
        cluster.create_topic("t")
        async with transacting(cluster) as producer:
            await producer.partitions_for("t")
            held = cluster.fault(AddPartitionsToTxnRequest, hold=True)
            async with producer.transaction():
                future = producer.submit("t", b"v")
                await held.reached.wait()
                check(producer.explain("t", 0), r"It waits until the coordinator has added the partition to the")
                held.release()
                await future
                check(producer.explain("t", 0), "^Nothing is held for t-0: every record")


async def test_a_commit_waits_for_the_records() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t")
        async with transacting(cluster) as producer:
            await producer.partitions_for("t")
            await producer.begin_transaction()
            held = cluster.fault(ProduceRequest, hold=True)
            producer.send_nowait("t", b"v")
            await held.reached.wait()
            committing = asyncio.create_task(producer.commit_transaction())
            await turns()
            check(
                producer.explain("t", 0),
                "A commit waits for the records of the transaction. 1 batch is on the way to broker 1",
            )
            held.release()
            await committing


async def test_the_transaction_has_failed() -> None:
    async with FakeCluster() as cluster:
        cluster.create_topic("t", partitions=2)
        async with transacting(cluster) as producer:
            await producer.partitions_for("t")
            await producer.begin_transaction()
            held = cluster.fault(ProduceRequest, hold=True)
            producer.send_nowait("t", b"v", partition=0, on_delivery=lambda metadata, error: None)
            await held.reached.wait()
            cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
            producer.send_nowait("t", b"v", partition=1, on_delivery=lambda metadata, error: None)
            await turns()
            held.release()
            held = cluster.fault(ProduceRequest, hold=True)
            await until(lambda: state_of(producer) is TransactionState.ABORTABLE_ERROR)
            text = producer._engine.parts.outcomes.explainer.why(
                producer._engine.parts.accumulator.topics["t"].partitions[1], 0.0
            )
            check(text, "^The transaction has failed: .*INVALID_RECORD")
            held.end()
            await producer.abort_transaction()


# -- whatever happens ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
async def test_it_has_an_answer_at_any_time(seed: int) -> None:
    random = Random(seed)
    async with FakeCluster(brokers=3, seed=seed) as cluster:
        for name in "ab":
            cluster.create_topic(name, partitions=3)
        options: dict[str, Any] = {"compression_type": random.choice(["none", "gzip"]), "batch_size": 200}
        async with running(cluster, topic_recreation="follow", **options) as producer:
            for _ in range(60):
                what = random.randrange(7)
                if what == 0:
                    cluster.fault(ProduceRequest, error=random.choice(RETRIABLE), times=3)
                elif what == 1:
                    cluster.fault(ProduceRequest, drop=random.choice(["before", "after"]))
                elif what == 2:
                    cluster.move_leader(random.choice("ab"), random.randrange(3))
                elif what == 3:
                    await cluster[random.choice([1, 2, 3])].cut()
                elif what == 4:
                    cluster.recreate_topic("b")
                elif what == 5:
                    cluster.fault(ProduceRequest, throttle_ms=random.randrange(1, 5))
                for _ in range(random.randrange(10)):
                    topic = random.choice(["a", "b", f"new{random.randrange(3)}"])
                    partition = random.randrange(3) if len(topic) == 1 else None
                    producer.send_nowait(
                        topic, bytes(50), partition=partition, on_delivery=lambda metadata, error: None
                    )
                await turns(random.randrange(5))
                for topic in ("a", "b", "new0", "never"):
                    check(producer.explain(topic, random.randrange(-1, 4)), "[A-Z0-9]")
            await producer.flush()
            for topic in ("a", "b"):
                check(producer.explain(topic, 0), "^Nothing is held")
        cluster.end_faults()
