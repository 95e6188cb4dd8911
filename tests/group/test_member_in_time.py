"""What a member does in its own time, in made-up time: a fault that is over must not be felt for minutes."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from aioprod.errors import AioprodError, BrokerError, ErrorCode, RequestTimedOutError
from aioprod.group import Member
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetFetchRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import TopicPartition
from tests.support.sessions import keep_loop_time
from tests.support.stored_batches import fill

PROTOCOLS: Final = ("classic", "consumer")
SOON_S: Final = 30.0
"""Long for a group, short beside the five minutes after which all metadata is refreshed."""


class Reading:
    """A member that reads one record after the other, and continues after errors."""

    def __init__(self, cluster: FakeCluster, *topics: str, **options: Any) -> None:
        self.member = Member(
            cluster.bootstrap, **{"group_id": "g", "topics": topics, "auto_offset_reset": "earliest", **options}
        )
        keep_loop_time(self.member._session, self.member._reading)
        self.records: Counter[int] = Counter()
        self.errors: list[AioprodError] = []

    async def run(self) -> None:
        """Read until the member is closed."""
        while True:
            try:
                async for record in self.member:
                    self.records[record.partition] += 1
            except AioprodError as error:
                self.errors.append(error)
            else:
                return


@asynccontextmanager
async def reading(cluster: FakeCluster, *topics: str, **options: Any) -> AsyncIterator[Reading]:
    """One that has been in the group for a while."""
    one = Reading(cluster, *topics, **options)
    async with one.member:
        task = asyncio.create_task(one.run())
        await asyncio.sleep(SOON_S)
        yield one
    await task


def play(scene: Callable[[FakeCluster], Awaitable[None]]) -> None:
    """Play a scene with three brokers and topic "t", which has six partitions of five records."""

    async def run() -> None:
        async with FakeCluster(3) as cluster:
            for partition in cluster.create_topic("t", 6).partitions:
                fill(partition, 5)
            async with asyncio.timeout(10 * SOON_S):
                await scene(cluster)

    with SimulatedLoop(1) as loop:
        loop.run(run())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_one_without_partitions_that_is_forgotten_joins_again(code: ErrorCode) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with reading(cluster, "later", group_protocol="consumer"):
            fault = cluster.fault(ConsumerGroupHeartbeatRequest, error=code)
            await fault.reached.wait()
            before = len(cluster.seen_of(ConsumerGroupHeartbeatRequest))
            await asyncio.sleep(SOON_S)
            since = cluster.seen_of(ConsumerGroupHeartbeatRequest)[before:]
            assert since[0].member_epoch == 0
            assert len(since) > 2

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_error_of_one_leader_costs_the_lookups_of_no_other(protocol: str) -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.fault(ListOffsetsRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        async with reading(cluster, "t", group_protocol=protocol) as one:
            assert len(one.errors) == 1
            assert one.records == dict.fromkeys(range(6), 5)

    play(scene)


def test_a_leader_that_reads_the_same_as_before_watches_for_the_others_too() -> None:
    async def scene(cluster: FakeCluster) -> None:
        cluster.create_topic("other", 1)
        ages: dict[str, Any] = {"metadata_max_age_ms": 5000}
        async with reading(cluster, "t", **ages) as leader, reading(cluster, "other", **ages) as follower:
            leader.member.subscribe("t")
            await asyncio.sleep(SOON_S)
            cluster.topics["other"].partitions.append(FakePartition(1))
            await asyncio.sleep(SOON_S)
            assert follower.member.assignment == {TopicPartition("other", 0), TopicPartition("other", 1)}

    play(scene)


def test_a_new_subscription_fetches_metadata_at_once() -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with reading(cluster, "t", group_protocol="consumer") as one:
            before = len(cluster.seen_of(MetadataRequest))
            one.member.subscribe(["t", "later"])
            await asyncio.sleep(0.1)
            requested = {topic.name for one in cluster.seen_of(MetadataRequest)[before:] for topic in one.topics or ()}
            assert requested == {"later"}

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rewind_that_gets_no_answer_ends(protocol: str) -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with reading(cluster, "t", group_protocol=protocol, default_api_timeout_ms=10_000) as one:
            fault = cluster.fault(OffsetFetchRequest, error=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=None)
            with pytest.raises(RequestTimedOutError, match="COORDINATOR_LOAD_IN_PROGRESS"):
                await one.member.rewind()
            assert one.records == dict.fromkeys(range(6), 5)
            fault.times = fault.hits
            await one.member.rewind()
            await asyncio.sleep(SOON_S)
            assert one.records == dict.fromkeys(range(6), 10)

    play(scene)


def test_a_list_is_returned_max_wait_after_its_first_record() -> None:
    async def scene(cluster: FakeCluster) -> None:
        loop = asyncio.get_running_loop()
        member = Member(cluster.bootstrap, group_id="g", topics="t", auto_offset_reset="latest")
        keep_loop_time(member._session, member._reading)
        async with member:
            waiting = asyncio.ensure_future(anext(member.batches(max_records=100, max_wait_ms=3000)))
            await asyncio.sleep(SOON_S)
            began = loop.time()
            for count in (1, 2):
                fill(cluster.topics["t"].partitions[0], count)
                cluster.state.wake_fetches()
                await asyncio.sleep(1.0)
            assert len(await waiting) == 3
            assert 3.0 <= loop.time() - began < 3.1
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(member.batches()), SOON_S)

    play(scene)


def test_topics_that_match_are_looked_for_once_in_the_age_of_metadata() -> None:
    async def scene(cluster: FakeCluster) -> None:
        async with reading(cluster, metadata_max_age_ms=20_000, topics=re.compile("t|later")) as one:
            assert one.records == dict.fromkeys(range(6), 5)
            lists = [request for request in cluster.seen_of(MetadataRequest) if request.topics is None]
            assert len(lists) == 2
            fill(cluster.create_topic("later").partitions[0], 1)
            await asyncio.sleep(25.0)
            assert one.records[0] == 6

    play(scene)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_work_that_takes_longer_than_the_poll_interval_is_logged_and_named(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(cluster: FakeCluster) -> None:
        options: dict[str, Any] = {"group_protocol": protocol, "auto_offset_reset": "earliest"}
        member = Member(cluster.bootstrap, group_id="g", topics=["t"], max_poll_interval_ms=10_000, **options)
        keep_loop_time(member._session, member._reading)
        async with member:
            record = await anext(member)
            await asyncio.sleep(9.0)
            assert not caplog.records
            await asyncio.sleep(20.0)
            (line,) = [one.message for one in caplog.records if one.levelname == "WARNING"]
            place = f"with offset 0 of t-{record.partition} in hand"
            assert re.search(rf"has not polled for 10\.\d s {place}\. max\.poll\.interval\.ms=10000 is over", line)
            with pytest.raises(BrokerError) as failure:
                await member.commit()
            assert place in str(failure.value.__cause__)
            await anext(member)
            await member.commit()

    play(scene)
