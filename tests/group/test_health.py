"""What a member says of itself: health, lag, explanation and metrics, while all is well and while it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import BrokerError, ErrorCode
from aioprod.group import Member
from aioprod.group.meters import MemberMetrics
from aioprod.messages import FetchRequest, HeartbeatRequest, JoinGroupRequest
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.sessions import keep_loop_time
from tests.support.stored_batches import fill

P0 = TopicPartition("t", 0)


def play(scene: Callable[[FakeCluster, Member], Awaitable[None]], **options: Any) -> None:
    """Play a scene with a member that has not been started, and one partition of 3 records."""

    async def run() -> None:
        async with FakeCluster() as brokers, asyncio.timeout(1000):
            fill(brokers.create_topic("t", 1).partitions[0], 3)
            member = Member(brokers.bootstrap, group_id="g", topics=["t"], auto_offset_reset="earliest", **options)
            keep_loop_time(member._session, member._reading)
            await scene(brokers, member)

    with SimulatedLoop(1) as loop:
        loop.run(run())


def test_the_health_of_a_member_from_start_to_end() -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        assert (member.health().state, member.health().is_alive, member.health().is_ready()) == ("new", True, False)
        join = brokers.fault(JoinGroupRequest, delay_s=5.0)
        async with member:
            await join.reached.wait()
            assert (member.health().state, member.health().assigned) == ("joining", 0)
            assert not member.health().is_ready()
            await anext(member)
            await asyncio.sleep(4.0)
            health = member.health()
            assert (health.state, health.assigned, health.lag, health.error) == ("reading", 1, 2, None)
            assert 3.9 < health.last_poll_age_s < 4.2
            assert health.last_fetch_age_s is not None
            assert health.last_fetch_age_s >= 4.0
            assert health.last_heartbeat_age_s is not None
            assert health.last_heartbeat_age_s < 4.0
            assert health.is_ready()
        assert member.health().state == "closed"
        assert not member.health().is_ready()

    play(scene)


def test_an_application_that_does_not_poll() -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        async with member:
            await anext(member)
            assert "has not polled" not in member.explain()
            fill(brokers.topics["t"].partitions[0], 1000)
            await asyncio.sleep(18.0)
            assert "The application has not polled for 18.0 s with offset 0 of t-0 in hand." in member.explain()
            assert member.lag() == {P0: None}
            assert member.health().lag is None
            assert member.health().is_alive
            await asyncio.sleep(5.0)
            assert not member.health().is_alive
            assert member.metrics()["last_poll_age_s"] > 20.0
            waiting = asyncio.ensure_future(anext(member))
            await asyncio.sleep(10.0)
            await waiting

    play(scene, max_poll_interval_ms=20_000)


def test_one_that_waits_for_records_polls() -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        async with member:
            for _ in range(3):
                await anext(member)
            waiting = asyncio.ensure_future(anext(member))
            await asyncio.sleep(60.0)
            health = member.health()
            assert (health.last_poll_age_s, health.lag, health.is_alive) == (0.0, 0, True)
            assert member.explain().endswith("It reads its partitions.")
            fill(brokers.topics["t"].partitions[0], 1)
            await waiting

    play(scene, max_poll_interval_ms=20_000)


@pytest.mark.parametrize("how", ["failed work", "cancelled poll"])
def test_an_application_whose_last_poll_raised_does_not_poll(how: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        async def cook(record: ConsumedRecord) -> None:
            raise ValueError("no")

        async with member:
            if how == "failed work":
                with pytest.raises(ValueError, match="no"):
                    await member.work(cook, concurrency=1)
            else:
                for _ in range(3):
                    await anext(member)
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(member), 60.0)
            assert member.health().last_poll_age_s < 0.1
            await asyncio.sleep(19.0)
            assert member.health().is_alive
            await asyncio.sleep(2.0)
            assert not member.health().is_alive
            assert member.health().assigned == 0
            assert "The application has not polled for 20.0 s. max.poll.interval.ms=20000 is over" in caplog.text

    play(scene, max_poll_interval_ms=20_000)


def test_a_broker_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        async with member:
            for _ in range(3):
                await anext(member)
            waiting = asyncio.ensure_future(anext(member))
            await asyncio.sleep(1.0)
            brokers.fault(FetchRequest, delay_s=1e6)
            await asyncio.sleep(20.0)
            assert "t-0 can't be read: their leader, broker 1, has owed an answer for 1" in member.explain()
            assert member.lag() == {P0: None}
            waiting.cancel()

    play(scene)
    assert "has waited for broker 1 for" in caplog.text


def test_what_has_ended_a_member_is_its_error() -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        brokers.fault(HeartbeatRequest, error=ErrorCode.FENCED_INSTANCE_ID)
        async with member:
            with pytest.raises(BrokerError):
                async for _ in member:
                    pass
            health = member.health()
            assert health.state == "failed"
            assert isinstance(health.error, BrokerError)
            assert not health.is_alive

    play(scene, group_instance_id="one")


def test_lag_by_topic_and_partition() -> None:
    async def scene(brokers: FakeCluster, member: Member) -> None:
        async with member:
            await anext(member)
            (family,) = [family for family in member.metric_families() if family.name == "records_lag"]
            assert [(point.labels, point.value) for point in family.points] == [({"topic": "t", "partition": "0"}, 2)]

    play(scene)


def test_the_lags_of_many_partitions_share_a_point() -> None:
    metrics = MemberMetrics()
    metrics.observe_lag(lambda: {TopicPartition("t", index): index for index in range(1003)})
    (family,) = [family for family in metrics.families() if family.name == "records_lag"]
    assert len(family.points) == 1001
    assert family.points[-1].value == 1000 + 1001 + 1002
    assert family.points[-1].labels == {"topic": "(other)", "partition": "(other)"}


async def test_metrics_can_be_read_in_another_thread() -> None:
    async with FakeCluster() as brokers, Producer(brokers.bootstrap) as producer:
        brokers.create_topic("t", 1)
        await producer.send("t", b"1")
        async with Member(brokers.bootstrap, group_id="g", topics=["t"], auto_offset_reset="earliest") as member:
            await anext(member)
            assert await asyncio.to_thread(member.metrics)
            assert await asyncio.to_thread(member.metric_families)
