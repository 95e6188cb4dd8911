"""Members on real brokers of both transaction versions, with both group protocols."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from aioprod import Producer, TopicPartition
from aioprod.errors import AioprodError, BrokerError, ErrorCode, ProducerFencedError
from aioprod.group import GroupMetadata, Member
from aioprod.reader import read
from aioprod.testing import KafkaCluster
from aioprod.types import ConsumedRecord
from examples import group_transform
from integration.support.brokers import NEWEST, VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.groups import group_offset

PATIENCE_S = 60.0
QUICK: dict[str, Any] = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000, "auto_offset_reset": "earliest"}


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    return shared_clusters(version=request.param)


@pytest.fixture(scope="module")
def newest(shared_clusters: SharedClusters) -> KafkaCluster:
    return shared_clusters(version=NEWEST)


def new_member(cluster: KafkaCluster, topic: str, **options: Any) -> Member:
    """One of the group that is named after the topic."""
    return Member(cluster.bootstrap_servers, **{"group_id": f"of-{topic}", "topics": [topic], **QUICK, **options})


class Held:
    """Which member reads which partitions now: two that hold the same one are an error."""

    def __init__(self) -> None:
        self.owner: dict[TopicPartition, str] = {}
        self.overlaps: list[tuple[TopicPartition, str, str]] = []

    def callbacks(self, name: str) -> dict[str, Any]:
        """For the member of that name."""

        def on_assigned(partitions: Iterable[TopicPartition]) -> None:
            for tp in partitions:
                if tp in self.owner:
                    self.overlaps.append((tp, self.owner[tp], name))
                self.owner[tp] = name

        def gone(partitions: Iterable[TopicPartition]) -> None:
            for tp in partitions:
                if self.owner.get(tp) == name:
                    del self.owner[tp]

        return {"on_assigned": on_assigned, "on_revoked": gone, "on_lost": gone}

    def of(self, name: str) -> int:
        """How many it holds."""
        return sum(owner == name for owner in self.owner.values())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def reading(
    member: Member, work: Callable[[ConsumedRecord], Awaitable[None]] | None = None
) -> AsyncIterator[asyncio.Task[None]]:
    """A task that takes one record after the other, for the time of the block."""

    async def read_on() -> None:
        async for record in member:
            if work is not None:
                await work(record)

    task = asyncio.create_task(read_on())
    try:
        yield task
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def write(cluster: KafkaCluster, topic: str, count: int, first: int = 0) -> None:
    """Records with their number as value."""
    async with Producer(cluster.bootstrap_servers) as producer:
        result = await producer.send_many(topic, (b"%d" % number for number in range(first, first + count)))
    assert not result.failures


async def take(member: Member, count: int) -> list[ConsumedRecord]:
    """The next records."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(member) for _ in range(count)]


@pytest.mark.parametrize("assignors", [["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"]], ids=str)
async def test_members_come_and_go_while_records_are_worked_at(
    cluster: KafkaCluster, make_topic: MakeTopic, assignors: list[str], figures: Figures
) -> None:
    """No partition is with two of them at once, every record is worked at, and what was committed is not again."""
    topic = await make_topic(cluster, 6)
    held, seen = Held(), Counter[bytes]()
    members: dict[str, Member] = {}

    def started(name: str) -> Member:
        members[name] = member = new_member(cluster, topic, assignors=assignors, **held.callbacks(name))
        return member

    def work(name: str) -> Callable[[ConsumedRecord], Awaitable[None]]:
        async def one(record: ConsumedRecord) -> None:
            assert held.owner[TopicPartition(record.topic, record.partition)] == name
            seen[record.value] += 1
            await members[name].commit()

        return one

    await write(cluster, topic, 300)
    async with started("a") as a, reading(a, work("a")):
        await until(lambda: held.of("a") == 6)
        begin = time.monotonic()
        async with started("b") as b, reading(b, work("b")):
            await until(lambda: held.of("a") == held.of("b") == 3)
            figures.add(f"{assignors[0]}: a second member has its share after", f"{time.monotonic() - begin:.2f} s")
            async with started("c") as c, reading(c, work("c")):
                await until(lambda: held.of("a") == held.of("b") == held.of("c") == 2)
                await write(cluster, topic, 300, first=300)
        await until(lambda: held.of("a") == 6)
        await until(lambda: len(seen) == 600)
    assert held.overlaps == []
    assert max(seen.values()) == 1


async def test_a_member_that_crashes_is_replaced(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 2)
    await write(cluster, topic, 10)
    dead = new_member(cluster, topic)
    await dead.start()
    await take(dead, 10)
    await dead.commit()
    # Nobody hears of it any more.
    await dead._session.close()
    async with new_member(cluster, topic) as member, reading(member):
        await until(lambda: len(member.assignment) == 2)
        assert member.positions.keys() == member.assignment
    await dead.close(timeout=0.1)


async def test_a_static_member_that_restarts_keeps_its_partitions(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 4)
    held = Held()
    async with new_member(cluster, topic, **held.callbacks("a")) as a, reading(a):
        await until(lambda: held.of("a") == 4)
        async with new_member(cluster, topic, group_instance_id="b") as first, reading(first):
            await until(lambda: len(first.assignment) == held.of("a") == 2)
            generation, mine = a.group_metadata.generation_id, first.assignment
        async with new_member(cluster, topic, group_instance_id="b") as second, reading(second):
            await until(lambda: second.assignment == mine)
            assert a.group_metadata.generation_id == second.group_metadata.generation_id == generation


async def test_a_static_member_is_fenced_by_its_successor(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 1)
    await write(cluster, topic, 5)
    async with new_member(cluster, topic, group_instance_id="one") as old:
        await take(old, 2)
        async with new_member(cluster, topic, group_instance_id="one") as new:
            await take(new, 1)
            with pytest.raises(BrokerError) as caught:
                await old.commit()
            assert caught.value.code == ErrorCode.FENCED_INSTANCE_ID
            with pytest.raises(BrokerError, match="another member has joined"):
                await take(old, 10)


async def test_a_user_who_stays_away_loses_the_partitions(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 1)
    await write(cluster, topic, 5)
    lost: list[TopicPartition] = []
    async with new_member(cluster, topic, max_poll_interval_ms=1000, on_lost=lost.extend) as member:
        await take(member, 1)
        await until(lambda: member.group_metadata.generation_id < 0)
        with pytest.raises(BrokerError, match="this consumer is not a member of group"):
            await member.commit()
        assert [one.offset for one in await take(member, 5)] == [0, 1, 2, 3, 4]
        assert lost == [TopicPartition(topic, 0)]


async def test_where_the_group_got_to_is_where_the_next_one_begins(
    cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(cluster, 1)
    await write(cluster, topic, 10)
    async with new_member(cluster, topic) as member:
        await take(member, 4)
        await member.commit()
        assert await group_offset(cluster, f"of-{topic}", topic) == 4
        await take(member, 3)
        await member.rewind()
        assert [one.offset for one in await take(member, 2)] == [4, 5]
    async with new_member(cluster, topic) as member:
        assert (await take(member, 1))[0].offset == 4


@pytest.mark.parametrize("group_protocol", ["classic", "consumer"])
async def test_each_record_is_transformed_exactly_once(
    newest: KafkaCluster, make_topic: MakeTopic, group_protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consume, transform, produce in transactions, while transformers join, are cancelled at work, and come again."""
    source, target = await make_topic(newest, 4), await make_topic(newest)
    options = {} if group_protocol == "consumer" else QUICK
    monkeypatch.setattr(
        group_transform,
        "Member",
        lambda *given, **others: Member(*given, **{**options, "group_protocol": group_protocol, **others}),
    )
    monkeypatch.setattr(group_transform, "BATCH", 20)

    def transformer(name: str) -> asyncio.Task[None]:
        return asyncio.create_task(group_transform.transform(newest.bootstrap_servers, source, target, name))

    tasks = [transformer("0")]
    for turn in range(1, 5):
        await write(newest, source, 400, first=400 * turn)
        tasks.append(transformer(str(turn)))
        await asyncio.sleep(1.0)
        tasks[turn // 2].cancel()
        await asyncio.wait([tasks[turn // 2]])
    written: list[bytes] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(written) < 1600:
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.result()
            await asyncio.sleep(0.3)
            written = [
                one.value
                async for one in read(
                    target, bootstrap_servers=newest.bootstrap_servers, isolation_level="read_committed"
                )
            ]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert sorted(written) == sorted(b"%d" % number for number in range(400, 2000))


async def test_a_transaction_of_who_was_replaced_is_refused(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    """A zombie: it still holds records of a generation that is over when it sends its offsets."""
    source, target = await make_topic(cluster, 1), await make_topic(cluster)
    await write(cluster, source, 5)
    producer = Producer(cluster.bootstrap_servers, transactional_id=f"tx-{source}")

    async def send(value: bytes, metadata: GroupMetadata) -> None:
        async with producer.transaction():
            await producer.send(target, value)
            await producer.send_offsets_to_transaction({TopicPartition(source, 0): 1}, metadata)

    async with producer, new_member(cluster, source, max_poll_interval_ms=1000) as old:
        await take(old, 1)
        metadata = old.group_metadata
        await until(lambda: old.group_metadata.generation_id < 0)
        async with new_member(cluster, source) as new:
            await take(new, 1)
            with pytest.raises(AioprodError) as caught:
                await send(b"from the grave", metadata)
            assert not isinstance(caught.value, ProducerFencedError)
            await send(b"alive", new.group_metadata)
    found = [
        one.value
        async for one in read(target, bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed")
    ]
    assert found == [b"alive"]
    assert metadata != GroupMetadata(f"of-{source}")


async def test_a_cancelled_call_loses_nothing(cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(cluster, 1)
    async with new_member(cluster, topic) as member:
        writing = asyncio.create_task(write(cluster, topic, 2000))
        taken: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(taken) < 2000:
                try:
                    async with asyncio.timeout(0.0005 * (len(taken) % 5)):
                        taken.append((await anext(member)).value)
                except TimeoutError:
                    await asyncio.sleep(0)
        await writing
    assert taken == [b"%d" % number for number in range(2000)]


async def test_closing_takes_no_longer_than_it_may(make_topic: MakeTopic, mortal_cluster: KafkaCluster) -> None:
    topic = await make_topic(mortal_cluster, 1)
    member = new_member(mortal_cluster, topic)
    await member.start()
    async with reading(member):
        await until(lambda: bool(member.assignment))
        await mortal_cluster.kill(1)
        try:
            begin = time.monotonic()
            await member.close(timeout=0.5)
            assert time.monotonic() - begin < 5.0
        finally:
            await mortal_cluster.restart(1)


def test_it_works_with_uvloop(cluster: KafkaCluster) -> None:
    async def work() -> int:
        topic = f"uvloop-{time.time_ns()}"
        await cluster.create_topic(topic, 2)
        await write(cluster, topic, 100)
        async with new_member(cluster, topic) as member:
            await take(member, 100)
            await member.commit()
            return sum(member.positions.values())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(work()) == 100
