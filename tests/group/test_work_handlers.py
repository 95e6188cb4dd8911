"""What handlers may be and do, and what one that is stuck holds up."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import SerializationError, UsageError
from aioprod.group import Retry
from aioprod.testing import FakeCluster
from aioprod.types import ConsumedRecord
from tests.group.test_work import P0, fill, new_member, play, until, working


def test_handlers_of_any_make() -> None:
    class Cook:
        async def __call__(self, record: ConsumedRecord) -> None:
            done.append(record.offset)

    class Baker(Cook):
        pass

    done: list[int] = []

    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1)
        for handler in (Cook(), Baker(), partial(Cook()), partial(partial(Baker.__call__, Baker()))):
            brokers.state.groups.pop("g", None)
            async with working(brokers, handler):
                await until(lambda: bool(done))
            assert done == [0]
            done.clear()

    play(scene)


def test_a_handler_can_not_close_the_member() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        member = new_member(brokers)

        async def cook(record: ConsumedRecord) -> None:
            await member.close()

        async with working(brokers, cook, member) as (_, task):
            with pytest.raises(UsageError, match="by a handler of this member"):
                await asyncio.wait_for(task, 5.0)
        assert not brokers.state.groups["g"].members

    play(scene)


def test_a_record_that_a_handler_can_not_send_is_handled_again() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1)
        begun: list[int] = []

        async def cook(record: ConsumedRecord) -> None:
            begun.append(record.offset)
            raise SerializationError("a value of another topic", topic="u")

        async with working(brokers, cook, retry=Retry(times=2, backoff_s=(0.1, 0.1))) as (member, task):
            for _ in range(2):
                with pytest.raises(SerializationError):
                    await task
                task = asyncio.create_task(member.work(cook, concurrency=1))
            task.cancel()
            await asyncio.wait([task])
        assert len(begun) == 4

    play(scene)


@pytest.mark.parametrize("options", [{}, {"buffer_bytes": 100_000}])
def test_records_that_wait_behind_one_that_is_stuck_leave_room_for_other_partitions(options: dict[str, Any]) -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with Producer(brokers.bootstrap) as producer:
            for partition, key in ((0, b"stuck"), (1, b"busy"), (2, None)):
                keys = [key] * 12_000
                (await producer.send_many("t", keys, keys=keys, partition=partition)).raise_for_failures()
        done: Counter[int] = Counter()

        async def cook(record: ConsumedRecord) -> None:
            if record.partition == 0:
                await asyncio.sleep(100_000.0)
            done[record.partition] += 1

        member = new_member(brokers)
        async with working(brokers, cook, member, drain_s=0.0, **options):
            await until(lambda: done[1] == done[2] == 12_000)
            assert member.paused == {P0}

    play(scene, partitions=3)


@pytest.mark.parametrize("fails", [False, True])
def test_a_handler_that_cancels_the_work_while_it_ends_leaves_nothing_behind(fails: bool) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 10)
        errors: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

        async def cook(record: ConsumedRecord) -> None:
            if record.offset == 0:
                raise ValueError("no")
            await asyncio.sleep(float(record.offset))
            if record.offset == 5:
                task.cancel()
                if fails:
                    raise ValueError("at the end")

        async with new_member(brokers) as member:
            task = asyncio.create_task(member.work(cook, concurrency=10, retry=Retry(times=0), drain_s=30.0))
            await asyncio.wait([task])
            await asyncio.sleep(10.0)
            assert (await anext(member)).offset == 0
        assert not errors

    play(scene)


def test_a_partition_that_holds_nothing_is_read_as_soon_as_there_is_room() -> None:
    async def scene(brokers: FakeCluster) -> None:
        begun: Counter[int] = Counter()

        async def cook(record: ConsumedRecord) -> None:
            begun[record.partition] += 1
            await asyncio.sleep(1e6 if record.partition == 0 else 0.1)

        async with Producer(brokers.bootstrap) as producer:
            await producer.send("t", b"x" * 960, partition=0)
            async with working(brokers, cook, concurrency=20, buffer_bytes=1000, drain_s=0.0):
                await until(lambda: begun[0] == 1)
                await producer.send("t", b"x" * 60, partition=1)
                await until(lambda: begun[1] == 1)
                await asyncio.sleep(1.0)
                await producer.send("t", b"x" * 5, partition=2)
                await until(lambda: begun[2] == 1)
        assert begun == {0: 1, 1: 1, 2: 1}

    play(scene, partitions=3)
