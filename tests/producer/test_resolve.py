"""`Producer.resolve`: whether a record whose answer was lost is stored, and where."""

from __future__ import annotations

import asyncio
import logging
import pickle
from contextlib import AsyncExitStack
from typing import Any, Self

import pytest

from aioprod import Producer, RecordMetadata, TopicPartition
from aioprod.errors import (
    AioprodError,
    ErrorCode,
    NotSentError,
    StillUnknownError,
    TransactionUnknownError,
    UnknownOutcomeError,
    UsageError,
)
from aioprod.messages import FetchRequest, ProduceRequest
from aioprod.producer.batching import unknown as kept
from aioprod.producer.batching.sequences import EPOCH_MAX
from aioprod.testing import FakeCluster
from aioprod.testing.fake.faults import Fault
from tests.support.producers import ShiftedClock, new_producer, pass_time, running, turns, until

SHORT_S = 0.01
"""A timeout within which nothing is to happen."""


async def lost(scene: Scene, value: bytes = b"lost") -> tuple[UnknownOutcomeError, Fault]:
    """The error of a record whose requests are on their way when its deadline passes; they arrive at a `release()`."""
    fault = scene.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None)
    future = scene.producer.submit("t", value)
    await fault.reached.wait()
    pass_time(scene.producer, scene.clock, 121.0)
    with pytest.raises(UnknownOutcomeError) as raised:
        await future
    fault.end()
    return raised.value, fault


class Scene:
    """A producer, one of whose records is unknown: its request lurks until `fault.release()`."""

    def __init__(self) -> None:
        self.clock = ShiftedClock()
        self.brokers = FakeCluster(1)
        self.stack = AsyncExitStack()
        self.producer: Producer
        self.error: UnknownOutcomeError
        self.fault: Fault

    async def __aenter__(self) -> Self:
        await self.stack.enter_async_context(self.brokers)
        self.log = self.brokers.create_topic("t").partitions[0]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stack.aclose()

    async def begin(self, *, before: int = 1, first_offset: int = 0, **options: Any) -> None:
        """Send `before` records, and then one whose request is lost on its way."""
        self.log.first_offset = self.log.next_offset = first_offset
        self.producer = await self.stack.enter_async_context(running(self.brokers, clock=self.clock, **options))
        for _ in range(before):
            await self.producer.send("t", b"before")
        self.error, self.fault = await lost(self)
        assert self.error.resolvable

    async def resolve(self, timeout: float | None = 20.0) -> RecordMetadata | None:
        return await self.producer.resolve(self.error, timeout)

    async def still_unknown(self, timeout: float | None = 20.0) -> StillUnknownError:
        """Why it is not known."""
        with pytest.raises(StillUnknownError) as raised:
            await self.resolve(timeout)
        assert raised.value.may_be_stored
        return raised.value

    async def others(self, count: int) -> None:
        """Store records of another producer."""
        async with running(self.brokers) as other:
            for _ in range(count):
                await other.send("t", b"other")

    def arrive(self) -> None:
        """The lost request arrives."""
        self.fault.release()

    def stored(self) -> list[bytes | None]:
        return [record.value for record in self.log.records()]


# --- the fence


async def test_a_request_that_arrives_before_the_next_epoch_is_stored() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.others(2)
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.others(1)
        await scene.producer.send("t", b"later")
        found = await scene.resolve()
        assert found is not None
        assert scene.log.records()[found.offset].value == b"lost"
        assert (found.topic, found.partition, found.offset, found.serialized_value_size) == ("t", 0, 3, 4)
        assert found.timestamp == scene.log.records()[3].timestamp
        assert found.serialized_key_size == -1


@pytest.mark.parametrize("before", [0, 1])
async def test_a_request_that_arrives_after_the_next_epoch_is_rejected(before: int) -> None:
    async with Scene() as scene:
        await scene.begin(before=before)
        await scene.producer.send("t", b"later")
        assert await scene.resolve() is None
        scene.arrive()
        await turns(100)
        await scene.producer.send("t", b"last")
        assert scene.stored() == [b"before"] * before + [b"later", b"last"]
        assert await scene.resolve() is None, "asked again"


async def test_the_answer_waits_for_a_later_record() -> None:
    async with Scene() as scene:
        await scene.begin()
        still = await scene.still_unknown(SHORT_S)
        assert still.reason == "undecided"
        assert str(still) == (
            "It is not known whether the record of t-0 is stored: no later record decided it within 0.01 s. "
            "Hint: The next record of its partition decides: send one, and call resolve() again."
        )
        waiting = [asyncio.create_task(scene.resolve()) for _ in range(3)]
        await asyncio.sleep(0)
        await scene.producer.send("t", b"later")
        assert await asyncio.gather(*waiting) == [None] * 3
        assert len(scene.brokers.seen_of(FetchRequest)) == 1, "read once for all"


async def test_a_later_batch_of_the_same_epoch_decides() -> None:
    """The first one expires while the answers of both are lost; the second is sent again, and its place is known."""
    async with Scene() as scene:
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock, linger_ms=0))
        await scene.producer.send("t", b"before")
        hold = scene.brokers.fault(ProduceRequest, hold=True, drop="after", times=2)
        first = scene.producer.submit("t", b"lost")
        await until(lambda: scene.log.log is not None and hold.reached.is_set())
        scene.clock.offset_s += 60.0
        second = scene.producer.submit("t", b"later")
        await until(lambda: scene.producer._engine.parts.accumulator.topics["t"].partitions[0].in_flight == 2)
        pass_time(scene.producer, scene.clock, 61.0)
        with pytest.raises(UnknownOutcomeError) as raised:
            await first
        hold.release()
        place = await second
        scene.error = raised.value
        found = await scene.resolve()
        assert found is not None
        assert (found.offset, place.offset) == (1, 2)
        assert scene.stored() == [b"before", b"lost", b"later"]


async def test_an_answer_that_comes_after_the_deadline_decides() -> None:
    async with Scene() as scene:
        options = {"linger_ms": 90_000, "adaptive_linger": False, "delivery_timeout_ms": 120_000}
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock, **options))
        hold = scene.brokers.fault(ProduceRequest, hold=True)
        future = scene.producer.submit("t", b"lost")
        await scene.producer.partitions_for("t")
        pass_time(scene.producer, scene.clock, 91.0)
        await hold.reached.wait()
        pass_time(scene.producer, scene.clock, 29.5)
        with pytest.raises(UnknownOutcomeError) as raised:
            await future
        scene.error = raised.value
        hold.release()
        found = await scene.resolve()
        assert found is not None
        assert (found.offset, found.serialized_value_size) == (0, -1)
        assert not scene.brokers.seen_of(FetchRequest), "the answer is proof enough"


async def test_so_does_one_of_several_partitions_that_do_not_all_succeed() -> None:
    async with Scene() as scene:
        scene.brokers.create_topic("u", partitions=2)
        options = {"linger_ms": 90_000, "adaptive_linger": False, "delivery_timeout_ms": 120_000}
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock, **options))
        hold = scene.brokers.fault(
            ProduceRequest, hold=True, partition=TopicPartition("u", 1), error=ErrorCode.NOT_ENOUGH_REPLICAS
        )
        futures = [scene.producer.submit("u", b"lost", partition=index) for index in (0, 1)]
        await scene.producer.partitions_for("u")
        pass_time(scene.producer, scene.clock, 91.0)
        await hold.reached.wait()
        pass_time(scene.producer, scene.clock, 29.5)
        first, _ = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(first, UnknownOutcomeError)
        hold.release()
        found = await scene.producer.resolve(first, 20)
        assert found is not None
        assert found.offset == 0


async def test_a_failure_of_the_producer_ends_the_calls() -> None:
    async with Scene() as scene:
        await scene.begin()
        resolving = asyncio.create_task(scene.producer.resolve(scene.error, 600))
        await turns(5)
        scene.producer._engine.fail(RuntimeError("broken"))
        with pytest.raises(UsageError, match="has ended before it was known"):
            await resolving


async def test_a_decision_wakes_the_callers_of_its_batches_only() -> None:
    async with Scene() as scene:
        scene.brokers.create_topic("u", partitions=2)
        fault = scene.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None)
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock))
        futures = [scene.producer.submit("u", b"lost", partition=index) for index in (0, 1)]
        await scene.producer.partitions_for("u")
        await fault.reached.wait()
        pass_time(scene.producer, scene.clock, 121.0)
        errors = await asyncio.gather(*futures, return_exceptions=True)
        fault.end()
        resolving = [
            asyncio.create_task(scene.producer.resolve(error, 600))
            for error in errors
            if isinstance(error, UnknownOutcomeError)
        ]
        await turns(5)
        waiting = scene.producer._engine.parts.resolver._waiting
        assert len(waiting) == 2
        await scene.producer.send("u", b"later", partition=0)
        assert await resolving[0] is None
        assert [unknown.partition for unknown in waiting] == [1]
        assert not resolving[1].done()
        await scene.producer.send("u", b"later", partition=1)
        assert await resolving[1] is None


async def test_what_is_read_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.others(1)
        await scene.producer.send("t", b"later")
        with caplog.at_level(logging.DEBUG, "aioprod.producer"):
            assert await scene.resolve() is None
        size = sum(batch.size for batch in scene.log.batches("read_uncommitted"))
        assert f"{size} bytes of t-0 were read to resolve 1 batch" in caplog.messages


async def test_several_unknown_batches_are_found_in_one_pass() -> None:
    async with Scene() as scene:
        await scene.begin()
        other, second = await lost(scene, b"lost too")
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.producer.send("t", b"later")
        found = await asyncio.gather(scene.producer.resolve(scene.error, 20), scene.producer.resolve(other, 20))
        assert [None if one is None else one.offset for one in found] == [1, None]
        second.release()
        assert len(scene.brokers.seen_of(FetchRequest)) == 1


async def test_records_of_a_bulk_call_and_of_callbacks() -> None:
    async with Scene() as scene:
        errors: list[AioprodError | None] = []
        options: dict[str, Any] = {"on_error": lambda error, record: errors.append(error)}
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock, **options))
        await scene.producer.send("t", b"before")
        fault = scene.brokers.fault(ProduceRequest, drop="lurking", hold=True, times=None)
        bulk = asyncio.create_task(scene.producer.send_many("t", [b"1", b"22"]))
        scene.producer.send_nowait("t", b"333", on_delivery=lambda _, error: errors.append(error))
        scene.producer.send_nowait("t", b"4444")
        await fault.reached.wait()
        pass_time(scene.producer, scene.clock, 121.0)
        result = await bulk
        await until(lambda: len(errors) == 2)
        fault.end()
        fault.release()
        await until(lambda: len(scene.stored()) == 5)
        await scene.producer.send("t", b"later")
        found: dict[int, int] = {}
        for error in [*(error for _, error in result.failures), *errors]:
            assert isinstance(error, UnknownOutcomeError)
            place = await scene.producer.resolve(error, 20)
            assert place is not None
            found[place.offset] = place.serialized_value_size
        assert {offset: len(record.value or b"") for offset, record in enumerate(scene.log.records()[:5])} == {
            0: 6,
            **found,
        }


# --- where it can't be known


async def test_offsets_that_are_deleted() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        scene.log.delete_before(2)
        await scene.others(1)
        assert (await scene.still_unknown()).reason == "deleted"
        assert not scene.error.resolvable
        assert (await scene.still_unknown(SHORT_S)).reason == "deleted"


async def test_offsets_that_compaction_has_removed() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.others(3)
        await scene.producer.send("t", b"later")
        del scene.log.log[2]
        assert (await scene.still_unknown()).reason == "deleted"


async def test_a_found_batch_is_believed_although_others_are_gone() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.others(2)
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.producer.send("t", b"later")
        del scene.log.log[1]
        found = await scene.resolve()
        assert found is not None
        assert found.offset == 3


async def test_the_first_batch_in_a_log_whose_start_has_moved() -> None:
    """Whether the log's start has passed it can't be known, as no earlier place is."""
    async with Scene() as scene:
        await scene.begin(before=0, first_offset=100)
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "deleted"


async def test_the_first_batch_is_found_in_a_log_whose_start_has_moved() -> None:
    async with Scene() as scene:
        await scene.begin(before=0, first_offset=100)
        await scene.others(1)
        scene.arrive()
        await until(lambda: b"lost" in scene.stored())
        await scene.producer.send("t", b"later")
        found = await scene.resolve()
        assert found is not None
        assert found.offset == 101


async def test_brokers_that_have_lost_the_state_of_the_producer() -> None:
    """A batch of the same epoch is accepted without the one before."""
    async with Scene() as scene:
        await scene.begin()
        partition = scene.producer._engine.parts.accumulator.topics["t"].partitions[0]
        partition.epoch -= 1
        partition.next_sequence = 2
        scene.brokers.expire_producer_state("t")
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "lost state"


async def test_a_log_that_has_lost_the_deciding_batch() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        del scene.log.log[1:]
        scene.log.next_offset = 1
        await scene.others(3)
        assert (await scene.still_unknown()).reason == "unclean election"


async def test_a_log_that_has_lost_the_batch_before() -> None:
    async with Scene() as scene:
        await scene.begin()
        del scene.log.log[0:]
        scene.log.next_offset = 0
        await scene.others(2)
        scene.brokers.expire_producer_state("t")
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "unclean election"


async def test_another_producer_id_decides_nothing() -> None:
    async with Scene() as scene:
        scene.producer = await scene.stack.enter_async_context(running(scene.brokers, clock=scene.clock))
        await scene.producer.send("t", b"before")
        partition = scene.producer._engine.parts.accumulator.topics["t"].partitions[0]
        partition.epoch = EPOCH_MAX
        scene.error, _ = await lost(scene)
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "another producer id"
        assert not scene.error.resolvable


async def test_a_topic_that_was_created_again() -> None:
    async with Scene() as scene:
        await scene.begin(topic_recreation="follow")
        scene.brokers.recreate_topic("t")
        await scene.producer.send("t", b"later")
        assert (await scene.still_unknown()).reason == "recreated"


async def test_too_many_bytes() -> None:
    async with Scene() as scene:
        await scene.begin(resolve_max_bytes=200)
        async with running(scene.brokers) as other:
            for _ in range(10):
                await other.send("t", b"x" * 400_000)
        await scene.producer.send("t", b"later")
        still = await scene.still_unknown()
        assert still.reason == "too many bytes"
        assert "after resolve.max.bytes=200 bytes" in str(still)
        assert scene.error.resolvable


async def test_no_right_to_read() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        scene.brokers.fault(FetchRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        still = await scene.still_unknown()
        assert still.reason == "no right"
        assert "READ" in str(still)
        assert await scene.resolve() is None, "it was granted"


async def test_a_leader_that_does_not_answer() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        hold = scene.brokers.fault(FetchRequest, hold=True)
        assert (await scene.still_unknown(SHORT_S)).reason == "unanswered"
        hold.release()
        assert await scene.resolve() is None


async def test_a_batch_long_ago() -> None:
    async with Scene() as scene:
        await scene.begin()
        pass_time(scene.producer, scene.clock, 12 * 3600.0)
        still = await scene.still_unknown()
        assert still.reason == "long ago"
        assert "it failed more than 12 hours ago" in str(still)


async def test_too_many_unknown_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_MAX", 1)
    async with Scene() as scene:
        await scene.begin()
        await lost(scene)
        assert (await scene.still_unknown()).reason == "long ago"


@pytest.mark.parametrize("options", [{"enable_idempotence": False}, {"acks": 1, "enable_idempotence": False}])
async def test_without_idempotence(brokers: FakeCluster, options: dict[str, Any]) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **options) as producer:
        hold = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("t", b"lost")
        await hold.reached.wait()
        pass_time(producer, clock, 121.0)
        with pytest.raises(UnknownOutcomeError) as raised:
            await future
        error = raised.value
        hold.release()
        assert not error.resolvable
        with pytest.raises(
            StillUnknownError, match=r"t-0 is stored: it has no sequence number.*enable.idempotence=true"
        ) as still:
            await producer.resolve(error)
        assert still.value.reason == "not idempotent"


# --- bad input


async def rejects(producer: Producer, error: Any, match: str, timeout: Any = None) -> None:
    with pytest.raises(UsageError, match=match):
        await producer.resolve(error, timeout)


async def test_bad_input() -> None:
    async with Scene() as scene:
        await scene.begin()
        producer = scene.producer
        await rejects(producer, ValueError("x"), r"takes an UnknownOutcomeError, not a ValueError\.")
        not_sent = NotSentError("m", topic="t", partition=0)
        await rejects(producer, not_sent, r"takes an UnknownOutcomeError, not a NotSentError\.")
        await rejects(producer, TransactionUnknownError("m"), r"not a TransactionUnknownError.*`status`")
        await rejects(producer, scene.error, r"resolve\(timeout=-1\) is not a time", -1)
        async with new_producer(scene.brokers.bootstrap) as other:
            await rejects(other, scene.error, "of another producer")
        elsewhere = pickle.loads(pickle.dumps(scene.error))
        assert not elsewhere.resolvable
        await rejects(producer, elsewhere, "of another producer")
        assert scene.error.again().resolvable
        new = new_producer(scene.brokers.bootstrap)
        await rejects(new, scene.error, "not started")
        await new.close()


async def test_a_close_ends_the_calls() -> None:
    async with Scene() as scene:
        await scene.begin()
        waiting = asyncio.create_task(scene.resolve())
        await asyncio.sleep(0)
        await scene.producer.close(1)
        with pytest.raises(UsageError, match="has ended before it was known"):
            await waiting
        await rejects(scene.producer, scene.error, "closed")


async def test_a_close_ends_what_is_read() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        hold = scene.brokers.fault(FetchRequest, hold=True)
        waiting = asyncio.create_task(scene.resolve())
        await hold.reached.wait()
        await scene.producer.close(1)
        hold.release()
        with pytest.raises(UsageError, match="has ended before it was known"):
            await waiting


async def test_a_caller_that_leaves_does_not_end_what_others_wait_for() -> None:
    async with Scene() as scene:
        await scene.begin()
        await scene.producer.send("t", b"later")
        hold = scene.brokers.fault(FetchRequest, hold=True)
        leaving, staying = (asyncio.create_task(scene.resolve()) for _ in range(2))
        await hold.reached.wait()
        leaving.cancel()
        hold.release()
        assert await staying is None
