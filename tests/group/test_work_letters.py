"""Letters in transactions: after one whose end is unknown, and of a consumer that is not a member any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, ErrorCode
from aioprod.group import DeadLetters
from aioprod.messages import EndTxnRequest, HeartbeatRequest, TxnOffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord
from tests.group.test_work import P0, Kitchen, fill, letters, member_work, new_member, play, until, working


def test_a_letter_takes_back_no_offsets_of_a_transaction_whose_end_is_unknown() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 100, (0, 7): 100}
        ends = brokers.fault(EndTxnRequest, hold=True)
        async with Producer(brokers.bootstrap, transactional_id="letters", max_block_ms=5000) as producer:
            given: dict[str, Any] = {"dead_letters": DeadLetters("letters", producer), "concurrency": 10}
            async with working(brokers, kitchen.cook, **given) as (member, task):
                await ends.reached.wait()
                # By then the commit of the first letter has timed out, and the second one has had its turn.
                await asyncio.sleep(7.0)
                ends.release()
                with pytest.raises(AioprodError) as unknown_end:
                    await task
                assert unknown_end.value.may_be_stored
                task = asyncio.create_task(member.work(kitchen.cook, **given))
                await until(lambda: brokers.committed_offset("g", P0) == 10)
                await member.close()
                await task
        assert sorted(record.value or b"" for record in letters(brokers)) == [b"3", b"7"]

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
