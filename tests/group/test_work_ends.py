"""How work ends, and what failures of several handlers, cancellations and unknown transactions leave behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, ErrorCode, RejectedError, RequestTimedOutError, UsageError
from aioprod.group import DeadLetters, Retry
from aioprod.messages import (
    HeartbeatRequest,
    ProduceRequest,
)
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord, GroupMetadata, OffsetAndMetadata, TopicPartition
from tests.group.test_work import Kitchen, committed, fill, new_member, now, play, until, working

P0 = TopicPartition("t", 0)


class Letters:
    """A transactional producer whose transactions do what the test says."""

    config = Producer("localhost:1", transactional_id="letters").config
    health = staticmethod(Producer("localhost:1").health)

    def __init__(self) -> None:
        self.sent: list[bytes | None] = []
        self.offsets: list[Mapping[TopicPartition, OffsetAndMetadata]] = []
        self.error: AioprodError | None = None
        """What a commit raises."""
        self.takes_s = 0.0
        """How long a letter takes."""
        self.abort_s = 0.0

    async def send(self, topic: str, value: bytes | None = None, **rest: Any) -> None:
        await asyncio.sleep(self.takes_s)
        self.sent.append(value)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            await asyncio.sleep(self.abort_s)
            raise
        if self.error is not None:
            raise self.error

    async def commit_transaction(self) -> None:
        raise UsageError("no transaction is open")

    async def abort_transaction(self) -> None:
        raise UsageError("no transaction is open")

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: GroupMetadata
    ) -> None:
        self.offsets.append(offsets)


class Through(Letters):
    """Commits offsets by another producer, whatever its own transaction says."""

    def __init__(self, real: Producer) -> None:
        super().__init__()
        self._real = real

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: GroupMetadata
    ) -> None:
        async with self._real.transaction():
            await self._real.send_offsets_to_transaction(offsets, group_metadata)


def unknown() -> AioprodError:
    """The error of a commit that may have happened."""
    error = RequestTimedOutError("no answer to EndTxn")
    error.may_be_stored = True
    return error


def test_of_several_errors_the_first_ends_the_work_and_no_later_call() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: 0.1 * (record.offset + 1))
        kitchen.failing = {(0, offset): 1 for offset in range(5)}
        async with working(brokers, kitchen.cook, concurrency=10) as (member, task):
            with pytest.raises(ValueError, match="no b'0'"):
                await task
            task = asyncio.create_task(member.work(kitchen.cook, concurrency=10))
            await until(lambda: len(kitchen.done) == 10 or task.done())
            assert not task.done()
            await member.close()
            await task

    play(scene)


def test_an_error_while_the_member_is_closed_is_raised_by_work_and_not_by_close() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: 1.0)
        kitchen.failing = {(0, 3): 1}
        async with new_member(brokers) as member:
            task = asyncio.create_task(member.work(kitchen.cook, concurrency=10))
            await until(lambda: len(kitchen.begun) == 10)
            await member.close()
            with pytest.raises(ValueError, match="no b'3'"):
                await task
        assert committed(brokers) == (3, set())

    play(scene)


def test_an_error_that_is_no_exception_ends_the_work() -> None:
    class Stop(BaseException):
        pass

    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1)

        async def cook(record: ConsumedRecord) -> None:
            raise Stop

        async with working(brokers, cook) as (_, task):
            with pytest.raises(Stop):
                await asyncio.wait_for(task, 100.0)

    play(scene)


def test_a_revocation_during_the_end_of_work_lets_its_callback_commit_no_unfinished_record() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 400)
        kitchen = Kitchen(lambda record: 8.0 if record.partition == 0 else 9.0)
        positions: list[dict[TopicPartition, int]] = []

        async def revoked(partitions: Any) -> None:
            await asyncio.sleep(30.0)
            positions.append(member.positions)
            await member.commit()

        member = new_member(brokers, on_revoked=revoked, assignors="range")
        async with working(brokers, kitchen.cook, member, concurrency=6) as (_, task):
            await until(lambda: len(kitchen.done) > 4)
            other = new_member(brokers, assignors="range")
            async with other:
                poll = asyncio.create_task(anext(other))
                await until(lambda: member_is_stopping(member))
                task.cancel()
                await asyncio.wait([task])
                await until(lambda: bool(positions))
                poll.cancel()
                await asyncio.wait([poll])
        for partition in range(4):
            tp = TopicPartition("t", partition)
            if tp in brokers.state.groups["g"].offsets:
                at, _ = committed(brokers, tp)
                done = {offset for one, offset in kitchen.done if one == partition}
                assert set(range(at)) <= done, tp

    play(scene, partitions=4)


def member_is_stopping(member: Any) -> bool:
    """Whether its work drains partitions."""
    work = member._parts.assignment.work
    return work is not None and bool(work._queues._stopped)


def test_a_letter_of_a_record_that_can_not_be_deserialized_is_not_sent_again_when_its_end_is_unknown() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1)
        producer = Letters()
        producer.error = unknown()
        member = new_member(brokers, key_deserializer=json.loads)
        given: dict[str, Any] = {
            "retry": Retry(times=3, backoff_s=(1.0, 1.0)),
            "dead_letters": DeadLetters("letters", producer),
        }
        async with working(brokers, Kitchen().cook, member, **given) as (_, task):
            with pytest.raises(RequestTimedOutError):
                await task
        assert len(producer.sent) == 1

    play(scene)


def test_work_after_an_unknown_transaction_begins_at_what_is_committed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(), Kitchen()
        kitchen.failing = {(0, 3): 1}
        async with Producer(brokers.bootstrap, transactional_id="letters") as real:
            producer = Through(real)
            producer.error = unknown()
            letters_to = DeadLetters("letters", producer)
            async with working(brokers, kitchen.cook, dead_letters=letters_to) as (member, task):
                with pytest.raises(RequestTimedOutError):
                    await task
                before = committed(brokers)
                await member.commit()
                assert committed(brokers) == before
                producer.error = None
                task = asyncio.create_task(member.work(again.cook, concurrency=10))
                await until(lambda: committed(brokers)[0] == 10)
                await member.close()
                await task
        assert (0, 3) not in again.begun

    play(scene)


def test_a_transaction_that_ends_after_its_partition_was_lost_does_not_keep_it_from_commits() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1}
        producer = Letters()
        producer.takes_s, producer.abort_s = 30.0, 20.0
        member = new_member(brokers, session_timeout_ms=6000, heartbeat_interval_ms=1000)
        given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "drain_s": 1.0}
        async with working(brokers, kitchen.cook, member, **given):
            await until(lambda: len(kitchen.done) == 9)
            await asyncio.sleep(5.0)
            brokers.fault(HeartbeatRequest, error=ErrorCode.UNKNOWN_MEMBER_ID, times=1)
            await until(lambda: (0, 3) in kitchen.done)
            await asyncio.sleep(60.0)
            assert committed(brokers) == (10, set())

    play(scene)


def test_letters_that_take_long_hold_up_no_other_partition() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 40)
        kitchen = Kitchen()
        kitchen.failing = {(0, offset): 1 for offset in range(10)}
        producer = Letters()
        producer.takes_s = 100.0
        member = new_member(brokers)
        async with working(
            brokers, kitchen.cook, member, dead_letters=DeadLetters("letters", producer), concurrency=40
        ):
            await until(lambda: len(kitchen.done) >= 20)
            await asyncio.sleep(3.0)
            assert committed(brokers, TopicPartition("t", 1))[0] > 0
            began = now()
            await member.close()
            assert now() - began < 25.0

    play(scene, partitions=2)


def test_a_handler_that_somebody_cancels_sends_no_letter() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        tasks: list[asyncio.Task[Any]] = []

        async def cook(record: ConsumedRecord) -> None:
            current = asyncio.current_task()
            assert current is not None
            tasks.append(current)
            await asyncio.sleep(100.0)

        producer = Letters()
        async with working(brokers, cook, dead_letters=DeadLetters("letters", producer), retry=Retry()) as (_, task):
            await until(lambda: len(tasks) == 10)
            for one in tasks:
                one.cancel()
            with pytest.raises(AioprodError, match="The handler was cancelled, and not by the member"):
                await task
        assert not producer.sent

    play(scene)


def test_work_that_is_cancelled_twice_leaves_nothing_behind() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)

        async def cook(record: ConsumedRecord) -> None:
            if record.offset == 0:
                raise ValueError("no")
            try:
                await asyncio.sleep(1000.0)
            finally:
                await asyncio.sleep(2.0)

        given: dict[str, Any] = {"retry": Retry(backoff_s=(20.0, 20.0)), "concurrency": 5, "buffer_bytes": 40}
        async with working(brokers, cook, **given) as (member, task):
            await asyncio.sleep(5.0)
            task.cancel()
            await asyncio.sleep(0.5)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(60.0)
            assert not member.paused
            assert (await asyncio.wait_for(anext(member), 10.0)).offset == 0

    play(scene)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_close_ends_in_its_time_whatever_handlers_and_brokers_do(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen(lambda record: 0.1 if record.offset < 5 else 1000.0)

        async def cook(record: ConsumedRecord) -> None:
            try:
                await kitchen.cook(record)
            finally:
                await asyncio.sleep(500.0 if record.offset > 7 else 0.0)

        member = new_member(brokers, group_protocol=protocol)
        async with member:
            task = asyncio.create_task(member.work(cook, concurrency=20, drain_s=60.0))
            await until(lambda: len(kitchen.done) == 5)
            await asyncio.sleep(3.0)
            await brokers.kill(1)
            began = now()
            await member.close(timeout=2.0)
            assert now() - began < 3.0
            task.cancel()
            await asyncio.wait([task])

    play(scene)


def test_a_partition_that_the_user_pauses_stays_paused() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 60)
        kitchen = Kitchen()
        async with working(brokers, kitchen.cook, concurrency=5, buffer_bytes=1) as (member, _):
            await until(lambda: bool(member.paused))
            member.pause()
            at = len(kitchen.done)
            await asyncio.sleep(100.0)
            assert member.paused
            assert len(kitchen.done) <= at + 32
            member.resume()
            await until(lambda: len(kitchen.done) == 60)

    play(scene)


@pytest.mark.parametrize("transactional_id", [None, "letters"])
@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_letter_that_its_topic_does_not_accept_ends_the_work(code: ErrorCode, transactional_id: str | None) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        brokers.fault(ProduceRequest, partition=TopicPartition("letters", 0), error=code)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1}
        producer = Producer(brokers.bootstrap, transactional_id=transactional_id)
        dead_letters = DeadLetters("letters", producer)
        async with producer, working(brokers, kitchen.cook, dead_letters=dead_letters) as (_, task):
            with pytest.raises(RejectedError, match=code.name):
                await asyncio.wait_for(task, 100.0)
        assert committed(brokers) == (3, set())

    play(scene)


def test_the_member_is_not_iterated_while_the_last_handlers_of_work_run() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen(lambda record: 1.0 if record.offset == 3 else 5.0)
        kitchen.failing = {(0, 3): 1}
        async with working(brokers, kitchen.cook) as (member, task):
            await until(lambda: not kitchen.failing[0, 3])
            await asyncio.sleep(0.5)
            await fill(brokers, 10)
            assert not task.done()
            with pytest.raises(UsageError, match="work"):
                await asyncio.wait_for(anext(member), 1.0)
            with pytest.raises(ValueError, match="no b'3'"):
                await task
            assert (await anext(member)).offset == 3

    play(scene)
