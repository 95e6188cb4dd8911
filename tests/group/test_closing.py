"""The end of a member: the order of its steps, and who waits for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from aioprod.errors import UsageError
from aioprod.group import Member
from aioprod.messages import HeartbeatRequest, LeaveGroupRequest
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import TopicPartition
from tests.group.test_member import P0, PATIENCE_S, cluster, committed, new_member, until_a_rebalance_waits
from tests.group.test_unfinished import PROTOCOLS, options_of
from tests.support.sessions import keep_loop_time

WORK_S: Final = 4.0


class Worker:
    """Works on each record for a while, and commits it."""

    def __init__(self, brokers: FakeCluster, work_s: float = WORK_S, **options: Any) -> None:
        given = {"auto_offset_reset": "earliest", "on_revoked": self._revoked, **options}
        self.member = Member(brokers.bootstrap, group_id="g", topics=["t"], **given)
        keep_loop_time(self.member._session, self.member._reading)
        self.events: list[str] = []
        self.at_work = asyncio.Event()
        self.work_s = work_s
        self.task = asyncio.get_running_loop().create_future()

    async def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.events.append("revoked")
        await self.member.commit()

    async def work(self) -> None:
        """Until the loop ends."""
        try:
            async for record in self.member:
                self.at_work.set()
                await asyncio.sleep(self.work_s)
                self.events.append(f"done {record.offset}")
                await self.member.commit(record)
        finally:
            self.events.append("loop ended")

    async def close(self, timeout: float | None = None) -> None:
        """Close the member."""
        await self.member.close(timeout)
        self.events.append("closed")


def play(scene: Any, **options: Any) -> None:
    """Play a scene in simulated time, with topic "t" of three records in one partition."""

    async def run() -> None:
        async with cluster(partitions=1, records=3) as brokers, asyncio.timeout(300):
            await scene(brokers)

    with SimulatedLoop(1) as loop:
        loop.run(run())


@asynccontextmanager
async def at_work(brokers: FakeCluster, **options: Any) -> AsyncIterator[tuple[Worker, asyncio.Task[None]]]:
    """A worker that has its first record in hand; its task is cancelled if it has not ended by then."""
    worker = Worker(brokers, **options)
    async with worker.member:
        task = asyncio.create_task(worker.work())
        await worker.at_work.wait()
        yield worker, task
    task.cancel()
    await asyncio.wait([task])


def now() -> float:
    """The time of the loop."""
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_close_waits_for_the_record_in_work(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with at_work(brokers, group_protocol=protocol) as (worker, task):
            await worker.close()
            await task
        assert worker.events == ["done 0", "loop ended", "revoked", "closed"]
        assert committed(brokers) == {P0: 1}

    play(scene)


def test_close_waits_for_half_of_its_time() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with at_work(brokers, work_s=100.0) as (worker, _):
            began = now()
            await worker.close(20.0)
            assert 10.0 <= now() - began < 11.0
            assert worker.events == ["revoked", "closed"]
            assert committed(brokers).get(P0, 0) == 0

    play(scene)


def test_the_time_to_close_is_a_setting() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with at_work(brokers, work_s=100.0, close_timeout_ms=8000) as (worker, _):
            began = now()
            await worker.close()
            assert 4.0 <= now() - began < 5.0

    play(scene)


def test_a_member_stays_in_its_group_while_close_waits() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with at_work(brokers, work_s=12.0) as (worker, task):
            heartbeats = len(brokers.seen_of(HeartbeatRequest))
            closing = asyncio.create_task(worker.close())
            await asyncio.sleep(10.0)
            assert len(brokers.seen_of(HeartbeatRequest)) >= heartbeats + 2
            assert not brokers.seen_of(LeaveGroupRequest)
            await closing
            await task
        assert len(brokers.seen_of(LeaveGroupRequest)) == 1

    play(scene)


def test_a_second_close_waits_for_the_first() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with at_work(brokers) as (worker, _):
            closing = asyncio.create_task(worker.close())
            await asyncio.sleep(0)
        worker.events.append("block left")
        assert worker.events[-4:] == ["loop ended", "revoked", "closed", "block left"]
        await closing

    play(scene)


def test_the_worker_itself_may_close() -> None:
    """Nobody waits for a poll that does not come."""

    async def scene(brokers: FakeCluster) -> None:
        worker = Worker(brokers)
        async with worker.member:
            async for _ in worker.member:
                began = now()
                await worker.close()
                assert now() - began < 1.0
        assert worker.events == ["revoked", "closed"]
        assert committed(brokers).get(P0, 0) == 0

    play(scene)


def test_a_worker_that_leaves_the_block_ends_the_wait_of_another_close() -> None:
    async def scene(brokers: FakeCluster) -> None:
        worker = Worker(brokers)

        async def run() -> None:
            async with worker.member:
                async for _ in worker.member:
                    worker.at_work.set()
                    await asyncio.sleep(1.0)
                    raise ValueError

        task = asyncio.create_task(run())
        await worker.at_work.wait()
        began = now()
        await worker.close()
        assert now() - began < 2.0
        with pytest.raises(ValueError):  # noqa: PT011  # it has no text
            await task
        assert committed(brokers).get(P0, 0) == 0

    play(scene)


def test_a_poll_that_waits_ends_at_once() -> None:
    async def scene(brokers: FakeCluster) -> None:
        worker = Worker(brokers, work_s=0.0)
        async with worker.member:
            task = asyncio.create_task(worker.work())
            await asyncio.sleep(10.0)
            began = now()
            await worker.close()
            await task
            assert now() - began < 1.0
        assert worker.events[-3:] == ["loop ended", "revoked", "closed"]
        assert committed(brokers) == {P0: 3}

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_rebalance_that_waits_for_the_record_does_not_delay_the_end(protocol: str) -> None:
    async with cluster(partitions=2, records=3) as brokers, asyncio.timeout(PATIENCE_S):
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        one, other = (Member(brokers.bootstrap, group_id="g", topics=["t"], **options_of(protocol)) for _ in range(2))
        at_work, goes_on = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            async for record in one:
                at_work.set()
                await goes_on.wait()
                await one.commit(record)

        async with one:
            task = asyncio.create_task(work())
            await at_work.wait()
            async with other:
                polling = asyncio.ensure_future(anext(other))
                await until_a_rebalance_waits(one)
                closing = asyncio.create_task(one.close())
                while one.health().state != "closing":
                    await asyncio.sleep(0)
                goes_on.set()
                await closing
                await task
                await polling
        assert sum(committed(brokers).values()) == 1


async def test_a_member_that_was_never_started_is_closed() -> None:
    async with cluster() as brokers:
        member = new_member(brokers)
        await member.close()
        await member.close()
        assert member.health().state == "closed"


def test_a_member_that_is_closed_while_it_starts_is_closed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        member = Member(brokers.bootstrap, group_id="g", topics=["t"])
        keep_loop_time(member._session, member._reading)
        before = asyncio.all_tasks()
        starting = asyncio.create_task(member.start())
        await asyncio.sleep(0)
        await member.close()
        with pytest.raises(UsageError, match="closed while it was started"):
            await starting
        await asyncio.sleep(1.0)
        assert [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)] == []

    play(scene)
