"""Topics that are deleted while they are in use, or that never were: told soon, and remembered; in simulated time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import (
    AioprodError,
    BrokerError,
    DeliveryError,
    ErrorCode,
    MetadataTimeoutError,
    NotSentError,
    RejectedError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnknownTopicError,
)
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start

SOON_S = 4.0
"""A few answers of the metadata, at the pace of the backoff, that span two seconds."""


class Stage:
    """Three brokers with a topic "t", on which one record is stored, and a producer, in made-up time."""

    def __init__(self, brokers: FakeCluster, producer: Producer, loop: SimulatedLoop) -> None:
        self.brokers = brokers
        self.producer = producer
        self.loop = loop

    def passed_since(self, before: float) -> float:
        return self.loop.time() - before

    def asked(self) -> int:
        return len(self.brokers.seen_of(MetadataRequest))

    def held_topics(self) -> set[str]:
        engine = self.producer._engine
        return {*engine.parts.accumulator.topics, *engine.parts.client.metadata.tracked}

    async def failure(self, name: str = "t") -> tuple[AioprodError, float]:
        """What a send raises, and after how many seconds."""
        before = self.loop.time()
        with pytest.raises(AioprodError) as raised:
            await self.producer.send(name, b"v", partition=0)
        return raised.value, self.passed_since(before)

    async def until_sent(self, name: str) -> float:
        """Try until a record is stored; the seconds that it takes."""
        before = self.loop.time()
        while True:
            try:
                await self.producer.send(name, b"v", partition=0)
            except UnknownTopicError:
                await asyncio.sleep(0.05)
            else:
                return self.passed_since(before)


def played(scene: Callable[[Stage], Awaitable[None]], versions: tuple[int, int] = (13, 13), **options: Any) -> None:
    """Run a scene; `versions` are the newest of Produce and Metadata."""
    with SimulatedLoop(seed=7) as loop:
        loop.run(_play(loop, scene, versions, options))


async def _play(
    loop: SimulatedLoop, scene: Callable[[Stage], Awaitable[None]], versions: tuple[int, int], options: dict[str, Any]
) -> None:
    async with _stage(loop, versions, options) as stage:
        await scene(stage)


@asynccontextmanager
async def _stage(loop: SimulatedLoop, versions: tuple[int, int], options: dict[str, Any]) -> AsyncIterator[Stage]:
    async with FakeCluster(3, seed=7) as brokers:
        brokers.state.auto_create = False
        for broker in brokers.brokers.values():
            broker.versions[ProduceRequest] = (0, versions[0])
            broker.versions[MetadataRequest] = (0, versions[1])
        brokers.create_topic("t", partitions=3)
        producer = Producer(brokers.bootstrap, **options)
        await start(producer, loop)
        try:
            if not producer.config.transactional_id:
                await producer.send("t", b"before", partition=0)
            yield Stage(brokers, producer, loop)
            assert producer.buffered == (0, 0)
        finally:
            await producer.close(5.0)


# --- deleted while in use


@pytest.mark.parametrize(
    ("versions", "family", "code"),
    [
        ((13, 13), RejectedError, ErrorCode.UNKNOWN_TOPIC_ID),
        # A leader that is told names may have appended the batch before the topic was deleted.
        ((12, 13), UnknownOutcomeError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((9, 9), UnknownOutcomeError, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_deleted_topic_fails_its_records_soon_and_with_the_reason(
    versions: tuple[int, int], family: type[DeliveryError], code: ErrorCode
) -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.delete_topic("t")
        error, seconds = await stage.failure()
        assert type(error) is family
        assert "topic 't' was deleted" in error.message
        assert (error.topic, error.partition, error.code) == ("t", 0, code)
        assert isinstance(error.__cause__, UnknownTopicError)
        assert isinstance(error.__cause__.__cause__, BrokerError)
        assert 2.0 <= seconds < SOON_S
        # From now on it is known.
        error, seconds = await stage.failure()
        assert type(error) is UnknownTopicError
        assert seconds < 0.1
        stage.brokers.create_topic("t", partitions=3)
        assert await stage.until_sent("t") < 2.0

    played(scene, versions)


def test_what_waited_behind_it_was_not_sent() -> None:
    """More batches than fail in one turn of the loop, of all partitions; some of them are on the wire at first."""

    async def scene(stage: Stage) -> None:
        before = stage.loop.time()
        stage.brokers.delete_topic("t")
        futures = [stage.producer.submit("t", b"%d" % n, partition=n % 3) for n in range(900)]
        await stage.producer.flush()
        assert stage.passed_since(before) < SOON_S
        errors = [future.exception() for future in futures]
        assert all(isinstance(error.__cause__, UnknownTopicError) for error in errors if error is not None)
        families = [type(error) for error in errors]
        assert set(families) == {RejectedError, NotSentError}
        assert families.count(RejectedError) <= 3 * 5
        assert stage.held_topics() == {"t"}, "to be asked for in the background"
        await asyncio.sleep(15.0)
        assert stage.held_topics() == set()

    played(scene, batch_size=0)


def test_what_a_lost_answer_leaves_open_stays_open() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.fault(ProduceRequest, drop="after")
        sending = stage.producer.submit("t", b"v", partition=0)
        while len(stage.brokers.topics["t"].partitions[0].records()) < 2:
            await asyncio.sleep(0.001)
        stage.brokers.delete_topic("t")
        with pytest.raises(UnknownOutcomeError, match="topic 't' was deleted") as raised:
            await sending
        assert isinstance(raised.value.__cause__, UnknownTopicError)

    played(scene)


def test_late_metadata_of_one_broker_fails_no_record() -> None:
    """Leaders take what they are sent, or refuse it for another reason, while the metadata knows no such topic."""

    async def scene(stage: Stage) -> None:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        late = stage.brokers.fault(MetadataRequest, error=unknown, times=None)
        stage.brokers.fault(
            ProduceRequest, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, partition=TopicPartition("t", 0), times=12
        )
        refused = stage.producer.submit("t", b"v", partition=0)
        for _ in range(100):
            await stage.producer.send("t", b"v", partition=1)
            await asyncio.sleep(0.1)
        assert late.hits > 8
        await refused
        late.times = late.hits
        await stage.producer.send("t", b"v", partition=2)

    played(scene)


def test_a_late_leader_fails_no_record_either() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.fault(ProduceRequest, error=ErrorCode.UNKNOWN_TOPIC_ID, times=10)
        before = stage.loop.time()
        assert (await stage.producer.send("t", b"v", partition=0)).offset == 1
        assert stage.passed_since(before) > SOON_S

    played(scene)


def test_a_topic_that_comes_back_in_time_is_judged_as_a_new_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.delete_topic("t")
        future = stage.producer.submit("t", b"v", partition=0)
        await asyncio.sleep(1.5)
        stage.brokers.create_topic("t", partitions=3)
        with pytest.raises(DeliveryError, match="deleted and created again"):
            await future
        await stage.producer.send("t", b"v", partition=0)

    played(scene)


def test_a_deleted_topic_whose_leader_is_gone_too() -> None:
    async def scene(stage: Stage) -> None:
        before = stage.loop.time()
        partition = stage.brokers.topics["t"].partitions[0]
        leader = partition.leader
        assert leader is not None
        await stage.brokers.kill(leader)
        # Nobody takes over.
        partition.leader = leader
        await asyncio.sleep(0.1)
        stage.brokers.delete_topic("t")
        with pytest.raises(NotSentError, match="topic 't' was deleted"):
            await stage.producer.submit("t", b"v", partition=0)
        assert stage.passed_since(before) < 2 * SOON_S

    played(scene)


def test_a_transaction_with_records_for_a_deleted_topic_can_be_aborted() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.create_topic("other")
        async with stage.producer.transaction():
            await stage.producer.send("t", b"v", partition=0)
        await stage.producer.begin_transaction()
        stage.brokers.delete_topic("t")
        error, seconds = await stage.failure()
        assert isinstance(error, DeliveryError)
        assert isinstance(error.__cause__, UnknownTopicError)
        assert seconds < SOON_S
        with pytest.raises(TransactionAbortedError, match="was deleted"):
            await stage.producer.commit_transaction()
        await stage.producer.abort_transaction()
        async with stage.producer.transaction():
            await stage.producer.send("other", b"v")
        assert len(stage.brokers.records("other")) == 1

    played(scene, transactional_id="id")


def test_records_that_follow_wait_for_the_new_topic() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.delete_topic("t")
        future = stage.producer.submit("t", b"v", partition=0)
        await asyncio.sleep(10.0)
        assert "the last answer was UNKNOWN_TOPIC_OR_PARTITION" in stage.producer.explain("t", 0)
        stage.brokers.create_topic("t", partitions=3)
        assert (await future).offset == 0

    played(scene, topic_recreation="follow")


def test_records_that_follow_say_in_the_end_that_there_is_no_topic() -> None:
    async def scene(stage: Stage) -> None:
        stage.brokers.delete_topic("t")
        error, seconds = await stage.failure()
        assert type(error) is RejectedError
        assert isinstance(error.__cause__, UnknownTopicError)
        assert "delivery.timeout.ms=20000 has passed. Topic 't' was deleted" in error.message
        assert 20.0 <= seconds < 21.0

    played(scene, topic_recreation="follow", delivery_timeout_ms=20_000, request_timeout_ms=10_000)


def test_the_log_has_a_few_lines_of_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "aioprod.producer")

    async def scene(stage: Stage) -> None:
        stage.brokers.delete_topic("t")
        await stage.failure()

    played(scene)
    told = [record.getMessage() for record in caplog.records]
    assert "Topic 't' was deleted: 1 batch for it can't be sent" in told
    assert sum("UNKNOWN_TOPIC_ID" in text for text in told) == 3


# --- what does not exist is remembered


def test_sends_to_a_missing_topic_fail_at_once() -> None:
    async def scene(stage: Stage) -> None:
        error, seconds = await stage.failure("nope")
        assert type(error) is UnknownTopicError
        assert 2.0 <= seconds < SOON_S
        asked, before = stage.asked(), stage.loop.time()
        for _ in range(100):
            error, _ = await stage.failure("nope")
            assert type(error) is UnknownTopicError
            with pytest.raises(NotSentError) as raised:
                await stage.producer.submit("nope", b"v")
            assert isinstance(raised.value.__cause__, UnknownTopicError)
            with pytest.raises(UnknownTopicError):
                await stage.producer.send_many("nope", [b"v"])
            with pytest.raises(UnknownTopicError):
                await stage.producer.partitions_for("nope")
        assert stage.passed_since(before) < 0.5
        assert stage.asked() - asked <= 1

    played(scene)


def test_a_topic_that_is_created_meanwhile_is_found() -> None:
    async def scene(stage: Stage) -> None:
        await stage.failure("late")
        await asyncio.sleep(5.0)
        stage.brokers.create_topic("late")
        await asyncio.sleep(2.0)
        # Nobody has asked for it since: it was found in the background.
        asked = stage.asked()
        await stage.producer.send("late", b"v")
        assert stage.asked() == asked

    played(scene)


def test_an_unused_topic_is_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(3):
            await stage.failure("nope")
            await asyncio.sleep(8.0)
            assert "nope" in stage.held_topics()
        asked = stage.asked()
        await asyncio.sleep(3.0)
        assert stage.asked() > asked
        assert "nope" not in stage.held_topics()
        asked = stage.asked()
        await asyncio.sleep(10.0)
        assert stage.asked() == asked
        _, seconds = await stage.failure("nope")
        assert seconds >= 2.0

    played(scene)


def test_an_unconfirmed_answer_is_not_believed_for_long() -> None:
    """While no broker can be asked nobody knows whether the topic exists."""

    async def scene(stage: Stage) -> None:
        await stage.failure("nope")
        for node_id in (1, 2, 3):
            stage.brokers.freeze(node_id)
        await asyncio.sleep(6.0)
        error, seconds = await stage.failure("nope")
        assert seconds == pytest.approx(3.0, abs=0.1)
        assert isinstance(error, MetadataTimeoutError) or isinstance(error.__cause__, MetadataTimeoutError)
        for node_id in (1, 2, 3):
            stage.brokers.thaw(node_id)

    played(scene, max_block_ms=3000)
