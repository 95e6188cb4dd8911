"""Brokers that take less metadata of an offset than by default: marks are cut to what fits, and letters stay marked."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from aioprod import Producer
from aioprod.group import DeadLetters, Retry
from aioprod.group.work.marks import decoded
from aioprod.messages import OffsetCommitRequest, TxnOffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord
from tests.group.test_work import P0, Bag, Kitchen, committed, fill, new_member, play, until, working

RECORDS = 4000
SLOW_END = 1400
FAILING = (100, 700, 1390, 2000)


def new_kitchen() -> Kitchen:
    """Every second record takes long at first, so that marks grow by a bit for each record."""
    kitchen = Kitchen(lambda record: 20.0 if record.offset % 2 and record.offset < SLOW_END else 0.01)
    kitchen.keys_in_work = Bag()
    return kitchen


def rejected(brokers: FakeCluster, kind: Any) -> int:
    """How many commits had more metadata than the brokers take."""
    rows = [row for one in brokers.seen_of(kind) for topic in one.topics for row in topic.partitions]
    return sum(len(row.committed_metadata or "") > brokers.state.offset_metadata_max_bytes for row in rows)


@pytest.mark.parametrize("limit", [0, 10, 200, 1000])
def test_marks_are_cut_to_what_the_brokers_take(limit: int, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster) -> None:
        brokers.state.offset_metadata_max_bytes = limit
        await fill(brokers, RECORDS, key=lambda _: None)
        kitchen = new_kitchen()
        member = new_member(brokers)
        async with working(brokers, kitchen.cook, member, concurrency=800):
            await until(lambda: len(kitchen.done) > 600)
            await member.commit()
            met = rejected(brokers, OffsetCommitRequest)
            at, gaps = committed(brokers)
            marks = decoded(at, brokers.state.groups["g"].offsets[P0].metadata or "")
            assert at == 1
            assert (marks.end > 1) is (limit >= 200)
            assert gaps <= set(range(1, RECORDS, 2))
            await until(lambda: len(kitchen.done) == RECORDS)
            await member.commit()
            assert committed(brokers) == (RECORDS, set())
            assert rejected(brokers, OffsetCommitRequest) == met
        assert (met > 0) is (limit < 1000)
        assert max(kitchen.begun.values()) == 1

    play(scene)
    warnings = [one for one in caplog.records if "offset.metadata.max.bytes" in one.getMessage()]
    assert [one.levelname for one in warnings] == ["WARNING"] * (limit < 1000)


@pytest.mark.parametrize("limit", [0, 200])
@pytest.mark.parametrize("end", ["done", "killed"])
def test_letters_are_sent_once_whatever_metadata_the_brokers_take(limit: int, end: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        brokers.state.offset_metadata_max_bytes = limit
        await fill(brokers, RECORDS, key=lambda _: None)
        kitchen, again = new_kitchen(), new_kitchen()
        kitchen.failing = {(0, offset): 100 for offset in FAILING}
        again.failing = dict(kitchen.failing)
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 800}
            member = new_member(brokers, session_timeout_ms=6000, heartbeat_interval_ms=500)
            async with working(brokers, kitchen.cook, member, **given) as (_, task):
                if end == "killed":
                    await until(lambda: len(kitchen.done) > 600)
                    await asyncio.sleep(3.0)
                    brokers.fault(OffsetCommitRequest, drop="before", times=None, when=lambda _: not task.done())
                    task.cancel()
                    await member.close(timeout=0.0)
                    await asyncio.wait([task])
                    brokers.end_faults()
                else:
                    await until(lambda: brokers.committed_offset("g", P0) == RECORDS)
            async with working(brokers, again.cook, **given):
                await until(lambda: brokers.committed_offset("g", P0) == RECORDS)
        assert rejected(brokers, TxnOffsetCommitRequest) + rejected(brokers, OffsetCommitRequest) > 0
        found = [int(one.value or b"") for one in brokers.records("letters", isolation="read_committed")]
        assert sorted(found) == list(FAILING)
        assert set(kitchen.done) | set(again.done) | {(0, at) for at in FAILING} == {(0, at) for at in range(RECORDS)}

    play(scene)


def test_a_letter_whose_marks_are_too_long_is_sent_again_with_fewer() -> None:
    async def scene(brokers: FakeCluster) -> None:
        brokers.state.offset_metadata_max_bytes = 78
        await fill(brokers, 400, key=lambda _: None)
        door = asyncio.Event()
        done: list[int] = []

        async def cook(record: ConsumedRecord) -> None:
            if record.offset == 20:
                await until(lambda: len(done) == 199)
                raise ValueError("no")
            if record.offset % 2:
                await door.wait()
            done.append(record.offset)

        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 300}
            member = new_member(brokers, auto_commit_interval_ms=1_000_000)
            async with working(brokers, cook, member, **given):
                await until(lambda: bool(brokers.records("letters", isolation="read_committed")))
                at, gaps = committed(brokers)
                assert (at, 20 in gaps) == (1, False)
                assert rejected(brokers, TxnOffsetCommitRequest) == 1
                door.set()

    play(scene)


def test_a_letter_that_waits_for_room_takes_the_place_of_no_record_before_it() -> None:
    async def scene(brokers: FakeCluster) -> None:
        brokers.state.offset_metadata_max_bytes = 0
        done: list[int] = []
        tries: list[int] = []

        async def cook(record: ConsumedRecord) -> None:
            tries.append(record.value)
            if tries == [0]:
                raise ValueError("not yet")
            done.append(record.value)

        async with Producer(brokers.bootstrap) as sender:
            (await sender.send_many("t", [b"0", b"{", b"2"], keys=[b"a", b"b", b"c"])).raise_for_failures()
        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            member = new_member(brokers, value_deserializer=json.loads)
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 1}
            async with working(brokers, cook, member, retry=Retry(times=1, backoff_s=(20.0, 20.0)), **given):
                await until(lambda: len(brokers.records("letters", isolation="read_committed")) == 1)
                assert done == [2, 0]
                await until(lambda: brokers.committed_offset("g", P0) == 3)

    play(scene)


def test_brokers_whose_limit_is_lowered_below_the_marks_of_letters(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 40, key=lambda _: None)
        door = asyncio.Event()
        done: list[int] = []

        async def cook(record: ConsumedRecord) -> None:
            if record.offset < 3:
                await door.wait()
            if record.offset in (1, 2, 20):
                raise ValueError("no")
            done.append(record.offset)

        def found() -> list[int]:
            return sorted(int(one.value or b"") for one in brokers.records("letters", isolation="read_committed"))

        async with Producer(brokers.bootstrap, transactional_id="letters") as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 40}
            async with working(brokers, cook, **given):
                await until(lambda: found() == [20])
                brokers.state.offset_metadata_max_bytes = 10
                door.set()
                await until(lambda: "set it to 4096, and restart this consumer" in caplog.text)
                # Either letter would need marks that begin with the other one.
                await asyncio.sleep(600.0)
                assert found() == [20]
                assert committed(brokers)[0] == 0
            brokers.state.offset_metadata_max_bytes = 4096
            async with working(brokers, cook, **given):
                await until(lambda: brokers.committed_offset("g", P0) == 40)
        assert found() == [1, 2, 20]
        assert set(done) == set(range(40)) - {1, 2, 20}

    play(scene)
    stuck = [one for one in caplog.records if "can't commit t-0" in one.getMessage()]
    assert [one.levelname for one in stuck] == ["WARNING"]
