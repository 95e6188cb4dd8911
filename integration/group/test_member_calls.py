"""Other calls of members on real brokers: topics by pattern, batches, pause, seek, lag."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import BrokerError
from aioprod.group import Member
from aioprod.testing import KafkaCluster
from aioprod.types import ConsumedRecord, OffsetAndMetadata
from integration.support.brokers import NEWEST, SharedClusters
from integration.support.clusters import MakeTopic

PATIENCE_S = 60.0


@pytest.fixture(scope="module", params=["classic", "consumer"])
def case(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> tuple[KafkaCluster, str]:
    """Brokers, and the protocol of their groups."""
    return shared_clusters(version=NEWEST), request.param


def new_member(case: tuple[KafkaCluster, str], group: str, topics: Any, **options: Any) -> Member:
    cluster, protocol = case
    quick = {"heartbeat_interval_ms": 200, "session_timeout_ms": 6000} if protocol == "classic" else {}
    own = {"auto_offset_reset": "earliest", "group_protocol": protocol, **quick, **options}
    return Member(cluster.bootstrap_servers, group_id=group, topics=topics, **own)


async def fill(cluster: KafkaCluster, topic: str, count: int) -> None:
    """So many records in each of its partitions, a second apart."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for info in await producer.partitions_for(topic):
            times = [1_700_000_000_000 + 1000 * number for number in range(count)]
            await producer.send_many(topic, [b"v"] * count, partition=info.partition, timestamps=times)


async def take(member: Member, count: int) -> dict[int, list[int]]:
    """Offsets of the next records by partition."""
    found: list[ConsumedRecord] = []
    async with asyncio.timeout(PATIENCE_S):
        async for batch in member.batches(count, 50):
            found += batch
            if len(found) >= count:
                break
    assert len(found) == count
    return {
        index: [one.offset for one in found if one.partition == index] for index in {one.partition for one in found}
    }


async def test_lists_pauses_and_seeks(case: tuple[KafkaCluster, str], make_topic: MakeTopic) -> None:
    topic = await make_topic(case[0], 2)
    p0, p1 = TopicPartition(topic, 0), TopicPartition(topic, 1)
    await fill(case[0], topic, 10)
    member: Member = new_member(case, f"of-{topic}", topic, on_assigned=lambda some: member.pause(set(some) & {p0}))
    async with member:
        assert await take(member, 10) == {1: list(range(10))}
        assert member.paused == {p0}
        assert member.lag()[p1] == 0
        member.resume()
        assert await take(member, 10) == {0: list(range(10))}
        await member.commit()
        assert await member.committed() == {p0: OffsetAndMetadata(10), p1: OffsetAndMetadata(10)}
        assert (await member.beginning_offsets(), await member.end_offsets()) == ({p0: 0, p1: 0}, {p0: 10, p1: 10})
        await member.seek_to_time(1_700_000_007_000)
        assert await take(member, 6) == {0: [7, 8, 9], 1: [7, 8, 9]}
        member.seek_to_beginning(p0)
        assert await take(member, 10) == {0: list(range(10))}
        member.seek_to_end()
        waiting = asyncio.ensure_future(anext(member))
        async with asyncio.timeout(PATIENCE_S):
            while len(member.positions) < 2:
                await asyncio.sleep(0.01)
        await fill(case[0], topic, 1)
        async with asyncio.timeout(PATIENCE_S):
            assert (await waiting).offset == 10
    async with Admin(case[0].bootstrap_servers) as admin:
        assert set((await admin.group_lag(f"of-{topic}")).values()) == {1}


async def test_a_position_is_not_committed_for_a_topic_that_was_created_again(
    case: tuple[KafkaCluster, str], make_topic: MakeTopic
) -> None:
    topic = await make_topic(case[0])
    await fill(case[0], topic, 3)
    async with new_member(case, f"of-{topic}", topic) as member:
        assert await take(member, 3) == {0: [0, 1, 2]}
        await member.commit({TopicPartition(topic, 0): 2})
        await case[0].delete_topic(topic)
        # The coordinator forgets the offset when it knows that the topic is deleted.
        async with asyncio.timeout(PATIENCE_S):
            while await member.committed() != {TopicPartition(topic, 0): None}:
                await asyncio.sleep(0.01)
        await case[0].create_topic(topic)
        with pytest.raises(BrokerError, match="its coordinator answered UNKNOWN_TOPIC_ID"):
            await member.commit()
        assert await member.committed() == {TopicPartition(topic, 0): None}
        await fill(case[0], topic, 3)
        assert await take(member, 3) == {0: [0, 1, 2]}
        await member.commit()
        assert await member.committed() == {TopicPartition(topic, 0): OffsetAndMetadata(3)}


async def test_topics_by_pattern(case: tuple[KafkaCluster, str], unused_topic: str) -> None:
    cluster, _ = case
    name = unused_topic
    pattern = re.compile(f"{re.escape(name)}-[ab]")
    async with (
        Admin(cluster.bootstrap_servers) as admin,
        new_member(case, f"of-{name}", pattern, metadata_max_age_ms=200) as member,
    ):
        waiting = asyncio.ensure_future(anext(member))
        async with asyncio.timeout(PATIENCE_S):
            # It is in the group without any topic.
            while member.group_metadata.generation_id < 0 or member.metrics()["rebalance_total"] < 1:
                await asyncio.sleep(0.01)
        for end in ("-a", "-c"):
            await admin.create_topic(name + end)
            await fill(cluster, name + end, 1)
        async with asyncio.timeout(PATIENCE_S):
            assert (await waiting).topic == f"{name}-a"
        waiting = asyncio.ensure_future(anext(member))
        await admin.create_topic(f"{name}-b")
        await fill(cluster, f"{name}-b", 1)
        async with asyncio.timeout(PATIENCE_S):
            assert (await waiting).topic == f"{name}-b"
        await admin.delete_topic(f"{name}-a")
        waiting = asyncio.ensure_future(anext(member))
        async with asyncio.timeout(PATIENCE_S):
            while member.assignment != {TopicPartition(f"{name}-b", 0)}:
                await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
