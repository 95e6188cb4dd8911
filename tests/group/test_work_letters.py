"""Dead letters: what they have, and what is committed with them, whatever becomes of their transactions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, BrokerError, ErrorCode, RequestTimedOutError, UnsupportedVersionError
from aioprod.group import DeadLetters, Retry
from aioprod.messages import (
    EndTxnRequest,
    HeartbeatRequest,
    OffsetCommitRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import start
from aioprod.types import ConsumedRecord
from tests.group.test_work import (
    P0,
    Kitchen,
    committed,
    fill,
    letters,
    member_work,
    new_member,
    play,
    until,
    working,
)


def test_a_record_that_fails_for_good_becomes_a_letter() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 40)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 100}
        async with Producer(brokers.bootstrap) as producer:
            letters_to = DeadLetters("letters", producer)
            retry = Retry(times=2, backoff_s=(1.0, 1.0))
            async with working(brokers, kitchen.cook, retry=retry, dead_letters=letters_to):
                await until(lambda: len(kitchen.done) == 39)
        (letter,) = letters(brokers)
        assert (letter.key, letter.value) == (b"key 3", b"3")
        origin = {name.removeprefix("dead.letter."): value for name, value in letter.headers}
        assert origin | {"timestamp": b""} == {
            "topic": b"t",
            "partition": b"0",
            "offset": b"3",
            "timestamp": b"",
            "group": b"g",
            "attempts": b"3",
            "error": b"ValueError: no b'3'",
        }
        assert committed(brokers) == (40, set())

    play(scene)


def test_a_record_that_can_not_be_deserialized_becomes_a_letter_at_once() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with Producer(brokers.bootstrap) as producer:
            (await producer.send_many("t", [b"1", b"{", b"3"])).raise_for_failures()
            found: list[Any] = []

            async def cook(record: ConsumedRecord) -> None:
                found.append(record.value)

            member = new_member(brokers, value_deserializer=json.loads)
            given = {"retry": Retry(), "dead_letters": DeadLetters("letters", producer)}
            async with working(brokers, cook, member, **given):
                await until(lambda: len(found) == 2 and len(letters(brokers)) == 1)
        assert found == [1, 3]
        assert letters(brokers)[0].value == b"{"
        error = dict(letters(brokers)[0].headers)["dead.letter.error"]
        assert error is not None
        assert error.startswith(b"SerializationError: ")

    play(scene)


def test_letters_in_transactions_commit_their_records() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 60)
        kitchen = Kitchen()
        kitchen.failing = {(0, offset): 100 for offset in (3, 30, 31, 59)}
        async with (
            Producer(brokers.bootstrap, transactional_id="letters") as producer,
            working(brokers, kitchen.cook, dead_letters=DeadLetters("letters", producer)),
        ):
            await until(lambda: len(kitchen.done) == 56 and committed(brokers)[0] == 60)
        assert sorted(record.value or b"" for record in letters(brokers)) == [b"3", b"30", b"31", b"59"]
        commits = brokers.seen_of(TxnOffsetCommitRequest)
        assert [[topic.topic_id for topic in one.topics] for one in commits] == [[brokers.topics["t"].id]] * 4

    play(scene)


def test_a_letter_that_can_not_be_sent_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1}

        class Broken:
            """A producer that fails at first."""

            config = Producer("localhost:1").config

            def __init__(self) -> None:
                self.sent = 0

            async def send(self, topic: str, value: Any = None, **rest: Any) -> None:
                self.sent += 1
                if self.sent < 3:
                    raise AioprodError("not now")

        producer: Any = Broken()
        async with working(brokers, kitchen.cook, dead_letters=DeadLetters("letters", producer)):
            await until(lambda: producer.sent == 3 and len(kitchen.done) == 19)
        assert committed(brokers) == (20, set())

    play(scene)
    assert "could not send the dead letter of offset 3 of t-0, and sends it again in 0.5 s: not now" in caplog.text


@pytest.mark.parametrize("kind", [TxnOffsetCommitRequest, EndTxnRequest])
def test_a_producer_that_has_failed_for_good_ends_the_work_with_its_error(kind: Any) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(), Kitchen()
        kitchen.failing, again.failing = {(0, 3): 100}, {(0, 3): 1}
        broken = brokers.fault(kind, error=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            letters_to = DeadLetters("letters", producer)
            async with working(brokers, kitchen.cook, dead_letters=letters_to) as (member, task):
                with pytest.raises(BrokerError) as failure:
                    await task
                assert failure.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
                # An earlier EndTxn may have committed the letter.
                assert failure.value.may_be_stored is (kind is EndTxnRequest)
                if kind is TxnOffsetCommitRequest:
                    with pytest.raises(BrokerError, match="INVALID_PRODUCER_ID_MAPPING"):
                        await member.work(kitchen.cook, concurrency=10, dead_letters=letters_to)
            assert broken.hits == 1
        async with (
            Producer(brokers.bootstrap, transactional_id="letters") as producer,
            working(brokers, again.cook, dead_letters=DeadLetters("letters", producer)),
        ):
            await until(lambda: brokers.committed_offset("g", P0) == 10)
        (letter,) = brokers.records("letters", isolation="read_committed")
        assert letter.value == b"3"

    play(scene)


def test_coordinators_that_do_not_fence_members_end_the_work() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1}
        brokers[1].versions[TxnOffsetCommitRequest] = (0, 2)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            async with working(brokers, kitchen.cook, dead_letters=DeadLetters("letters", producer)) as (_, task):
                with pytest.raises(UnsupportedVersionError, match=r"older than 2\.5"):
                    await task
            assert producer.health().is_alive

    play(scene)


# --- whose transaction has an unknown end, or is overtaken


@pytest.mark.parametrize("released", ["before the work has ended", "after it"])
def test_letters_after_one_whose_commit_has_timed_out(released: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 100, (0, 7): 100}
        ends = brokers.fault(EndTxnRequest, hold=True)
        async with Producer(brokers.bootstrap, transactional_id="letters", max_block_ms=5000) as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 10}
            async with working(brokers, kitchen.cook, **given) as (member, task):
                await ends.reached.wait()
                if released == "after it":
                    await asyncio.wait([task])
                else:
                    # By then the commit of the first letter has timed out, and the second one has had its turn.
                    await asyncio.sleep(7.0)
                ends.release()
                with pytest.raises(RequestTimedOutError) as unknown_end:
                    await task
                assert unknown_end.value.may_be_stored
                again = DeadLetters("letters", producer)
                task = asyncio.create_task(member.work(kitchen.cook, concurrency=10, dead_letters=again))
                await until(lambda: len(letters(brokers)) == 2)
                await until(lambda: committed(brokers) == (10, set()))
                await member.close()
                await task
        assert sorted(record.value or b"" for record in letters(brokers)) == [b"3", b"7"]

    play(scene)


def test_a_letter_after_a_commit_that_was_cancelled_waits_for_its_end() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 100, (0, 7): 100}
        member = new_member(brokers, session_timeout_ms=6000, heartbeat_interval_ms=1000)
        ends = brokers.fault(EndTxnRequest, hold=True)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "drain_s": 1.0}
            async with working(brokers, kitchen.cook, member, **given):
                await ends.reached.wait()
                lost = brokers.fault(HeartbeatRequest, error=ErrorCode.UNKNOWN_MEMBER_ID)
                await lost.reached.wait()
                await asyncio.sleep(5.0)
                ends.release()
                await until(lambda: len(letters(brokers)) == 2)
                await until(lambda: committed(brokers) == (10, set()))
        assert sorted(record.value or b"" for record in letters(brokers)) == [b"3", b"7"]

    play(scene)


@pytest.mark.parametrize("drop", ["before", "after"])
@pytest.mark.parametrize("ends", ["are answered", "are lost"])
def test_a_letter_is_sent_again_after_one_that_may_be_stored_in_an_aborted_transaction(drop: Any, ends: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1, (0, 7): 1}
        lost = brokers.fault(ProduceRequest, drop=drop, times=None)
        if ends == "are lost":
            brokers.fault(EndTxnRequest, drop="before", times=3, when=lambda one: not one.committed)
        given: dict[str, Any] = {"delivery_timeout_ms": 3000, "request_timeout_ms": 1000, "linger_ms": 0}
        producer = Producer(brokers.bootstrap, transactional_id="letters", max_block_ms=2000, **given)
        loop: Any = asyncio.get_running_loop()
        await start(producer, loop)
        async with working(brokers, kitchen.cook, dead_letters=DeadLetters("letters", producer)) as (_, task):
            await lost.reached.wait()
            await asyncio.sleep(20.0)
            assert not task.done()
            lost.end()
            await until(lambda: brokers.committed_offset("g", P0) == 10)
        await producer.close()
        found = brokers.records("letters", isolation="read_committed")
        assert sorted(one.value or b"" for one in found) == [b"3", b"7"]

    play(scene)


@pytest.mark.parametrize("end", ["close", "cancel"])
@pytest.mark.parametrize("kind", [ProduceRequest, TxnOffsetCommitRequest])
def test_what_is_finished_is_committed_when_a_letter_is_cancelled_before_its_commit(kind: Any, end: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(), Kitchen()
        kitchen.failing, again.failing = {(0, 3): 1}, {(0, 3): 1}
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "drain_s": 5.0}
            stuck = brokers.fault(kind, error=ErrorCode.NOT_LEADER_OR_FOLLOWER, times=None)
            async with working(brokers, kitchen.cook, **given) as (member, task):
                await until(lambda: len(kitchen.done) == 9 and stuck.hits > 0)
                if end == "close":
                    await member.close()
                else:
                    task.cancel()
                    await asyncio.wait([task])
            assert committed(brokers) == (3, set())
            stuck.end()
            async with working(brokers, again.cook, **given):
                await until(lambda: committed(brokers) == (10, set()))
        assert again.begun == {(0, 3): 1}
        assert [one.value for one in brokers.records("letters", isolation="read_committed")] == [b"3"]

    play(scene)


def test_a_commit_that_was_cut_off_is_repeated_before_a_letter_commits_more() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 2}
        cut_off = brokers.fault(OffsetCommitRequest, drop="before", times=None)
        retry = Retry(times=1, backoff_s=(20.0, 20.0))
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            letters_to = DeadLetters("letters", producer)
            member = new_member(brokers, default_api_timeout_ms=5000)
            async with working(brokers, kitchen.cook, member, retry=retry, dead_letters=letters_to):
                await until(lambda: kitchen.begun[0, 3] == 2)
                await asyncio.sleep(30.0)
                assert not brokers.seen_of(TxnOffsetCommitRequest)
                cut_off.end()
                await until(lambda: bool(letters(brokers)))
                await until(lambda: committed(brokers) == (10, set()))

    play(scene)


def test_a_commit_that_was_cut_off_is_repeated_before_a_letter_of_a_later_call_of_work() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(lambda record: 1000.0 if record.offset == 3 else 0.1), Kitchen()
        again.failing = {(0, 3): 1}
        cut_off = brokers.fault(OffsetCommitRequest, drop="before", times=None)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer)}
            member = new_member(brokers, default_api_timeout_ms=5000, auto_commit_interval_ms=1_000_000)
            async with working(brokers, kitchen.cook, member, **given) as (_, first):
                await until(lambda: len(kitchen.done) == 9)
                first.cancel()
                await asyncio.wait([first])
                assert cut_off.hits
                second = asyncio.create_task(member.work(again.cook, concurrency=10, **given))
                await until(lambda: again.begun[0, 3] == 1)
                await asyncio.sleep(30.0)
                assert not brokers.seen_of(TxnOffsetCommitRequest)
                cut_off.end()
                await until(lambda: bool(letters(brokers)))
                await member.close()
                await second
        assert committed(brokers) == (10, set())

    play(scene)


def test_a_commit_of_a_loop_that_was_cut_off_is_repeated_before_a_letter() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 1}
        cut_off = brokers.fault(OffsetCommitRequest, drop="before", times=None)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            member = new_member(brokers, default_api_timeout_ms=5000, auto_commit_interval_ms=1_000_000)
            async with member:
                for _ in range(3):
                    await anext(member)
                with pytest.raises(RequestTimedOutError):
                    await member.commit()
                task = asyncio.create_task(
                    member.work(kitchen.cook, concurrency=10, dead_letters=DeadLetters("letters", producer))
                )
                await until(lambda: kitchen.begun[0, 3] == 1)
                await asyncio.sleep(30.0)
                assert not brokers.seen_of(TxnOffsetCommitRequest)
                cut_off.end()
                await until(lambda: bool(letters(brokers)))
                await member.close()
                await task
        assert committed(brokers) == (10, set())

    play(scene)


@pytest.mark.parametrize("arrives", ["never", "late"])
def test_a_worker_that_is_killed_before_the_end_of_a_letters_transaction_leaves_one_letter(arrives: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen, again = Kitchen(), Kitchen()
        kitchen.failing, again.failing = {(0, 3): 1}, {(0, 3): 1}
        ends = brokers.fault(EndTxnRequest, hold=True, drop="lurking" if arrives == "late" else "before")
        killed = Producer(brokers.bootstrap, transactional_id="letters")
        await killed.start()
        member = new_member(brokers)
        await member.start()
        task = asyncio.create_task(
            member.work(kitchen.cook, concurrency=10, dead_letters=DeadLetters("letters", killed))
        )
        await ends.reached.wait()
        assert len(brokers.seen_of(TxnOffsetCommitRequest)) == 1
        brokers.fault(OffsetCommitRequest, drop="before", times=None, when=lambda _: not task.done())
        task.cancel()
        await asyncio.gather(task, killed.close(timeout=0), member.close(timeout=0), return_exceptions=True)
        brokers.end_faults()
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            ends.release()
            async with working(brokers, again.cook, dead_letters=DeadLetters("letters", producer)):
                await until(lambda: bool(brokers.records("letters", isolation="read_committed")))
                await until(lambda: committed(brokers) == (10, set()))
        assert again.begun[0, 3] == 1
        (letter,) = brokers.records("letters", isolation="read_committed")
        assert letter.value == b"3"

    play(scene)


def test_a_consumer_that_is_not_a_member_any_more_commits_no_letter() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 40)
        fails = asyncio.Event()

        async def cook(record: ConsumedRecord) -> None:
            await fails.wait()
            raise ValueError("no")

        async def revoked(partitions: Any) -> None:
            await asyncio.sleep(30.0)

        member = new_member(brokers, on_revoked=revoked, session_timeout_ms=6000, heartbeat_interval_ms=1000)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "drain_s": 5.0}
            async with working(brokers, cook, member, concurrency=40, **given), new_member(brokers) as other:
                poll = asyncio.create_task(anext(other))
                await until(lambda: bool(member_work(member) and member_work(member)._queues._stopped))
                lost = brokers.fault(HeartbeatRequest, error=ErrorCode.UNKNOWN_MEMBER_ID, times=1)
                await lost.reached.wait()
                await asyncio.sleep(7.0)
                # The callback for other partitions runs: what is lost is revoked after it.
                fails.set()
                await until(lambda: bool(letters(brokers)))
                await asyncio.sleep(10.0)
                poll.cancel()
                await asyncio.wait([poll])
        epochs = [one.generation_id_or_member_epoch for one in brokers.seen_of(TxnOffsetCommitRequest)]
        assert all(epoch >= 0 for epoch in epochs)

    play(scene, partitions=4)
