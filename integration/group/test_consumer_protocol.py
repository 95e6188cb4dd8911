"""Members with the consumer protocol (KIP-848) on real brokers; `test_mixed` has groups with other clients."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.admin import Admin
from aioprod.errors import BrokerError, ErrorCode, TransactionAbortedError, UnsupportedVersionError
from aioprod.group import Member
from aioprod.testing import KafkaCluster
from aioprod.testing.fixtures import running_cluster
from integration.support.brokers import NEWEST, TRANSACTION_VERSION_1, SharedClusters

pytestmark = pytest.mark.timeout(180)

PROPERTIES: dict[str, Any] = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
}
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def quick_cluster() -> Iterator[KafkaCluster]:
    """One broker that wants heartbeats often, and notices soon when there are none."""
    with running_cluster(version=NEWEST, backend="local", **PROPERTIES) as cluster:
        yield cluster


@pytest.fixture
async def topic(quick_cluster: KafkaCluster) -> str:
    """A new topic with four partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    async with Admin(quick_cluster.bootstrap_servers) as admin:
        await admin.create_topic(name, partitions=4)
    return name


@dataclass
class Told:
    """A member, what its callbacks were told, and the records that it gave."""

    member: Member
    calls: list[tuple[str, list[int]]] = field(default_factory=list)
    records: list[tuple[int, int]] = field(default_factory=list)
    pause: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has(self) -> list[int]:
        return sorted(tp.partition for tp in self.member.assignment)

    def hears(self, what: str) -> Callable[[Iterable[TopicPartition]], None]:
        return lambda partitions: self.calls.append((what, sorted(tp.partition for tp in partitions)))


@asynccontextmanager
async def reading(cluster: KafkaCluster, topic: str, group: str, **options: Any) -> AsyncIterator[Told]:
    """A member that reads in the background; it leaves at the end."""
    told = Told(None)  # type: ignore[arg-type]
    told.pause.set()
    told.member = Member(
        cluster.bootstrap_servers,
        group_id=group,
        topics=[topic],
        group_protocol="consumer",
        auto_offset_reset="earliest",
        on_assigned=told.hears("assigned"),
        on_revoked=told.hears("revoked"),
        on_lost=told.hears("lost"),
        **options,
    )

    async def read() -> None:
        async for record in told.member:
            told.records.append((record.partition, record.offset))
            await told.pause.wait()

    async with told.member:
        task = asyncio.create_task(read())
        yield told
        told.pause.set()
    await task


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def send(cluster: KafkaCluster, topic: str, count: int) -> None:
    """Records that go round the partitions."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % 4)


def new_group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("assignor", ["uniform", "range"])
async def test_members_share_what_there_is(quick_cluster: KafkaCluster, topic: str, assignor: str) -> None:
    group = new_group()
    async with reading(quick_cluster, topic, group, group_remote_assignor=assignor) as first:
        await until(lambda: first.has == [0, 1, 2, 3])
        async with reading(quick_cluster, topic, group, group_remote_assignor=assignor) as second:
            await until(lambda: len(first.has) == len(second.has) == 2)
            assert sorted(first.has + second.has) == [0, 1, 2, 3]
            if assignor == "range":
                assert first.has in ([0, 1], [2, 3])
        assert second.calls[-1][0] == "revoked"
        await until(lambda: first.has == [0, 1, 2, 3])
    assert {call for call, _ in first.calls + second.calls} == {"assigned", "revoked"}


async def test_the_next_one_goes_on_where_the_last_one_committed(quick_cluster: KafkaCluster, topic: str) -> None:
    group = new_group()
    await send(quick_cluster, topic, 40)
    async with reading(quick_cluster, topic, group) as first:
        await until(lambda: len(first.records) == 40)
        await first.member.commit()
    await send(quick_cluster, topic, 8)
    async with reading(quick_cluster, topic, group) as second:
        await until(lambda: len(second.records) == 8)
        assert {offset for _, offset in second.records} == {10, 11}


async def test_commits_while_partitions_change_hands(quick_cluster: KafkaCluster, topic: str) -> None:
    """The epoch goes on with every change: nothing is refused, and nothing is read twice."""
    group = new_group()
    await send(quick_cluster, topic, 40)
    async with reading(quick_cluster, topic, group) as first:
        await until(lambda: len(first.records) == 40)
        await first.member.commit()
        for _ in range(3):
            async with reading(quick_cluster, topic, group) as second:
                while len(second.has) != 2:
                    await send(quick_cluster, topic, 4)
                    await first.member.commit()
                    await second.member.commit()
                await second.member.commit()
        await until(lambda: first.has == [0, 1, 2, 3])
        await first.member.commit()
        assert len(set(first.records)) == len(first.records)


async def test_a_static_member_that_comes_back_finds_what_it_had(quick_cluster: KafkaCluster, topic: str) -> None:
    group = new_group()
    async with reading(quick_cluster, topic, group, group_instance_id="a") as first:
        async with reading(quick_cluster, topic, group, group_instance_id="b") as second:
            await until(lambda: len(first.has) == len(second.has) == 2)
            had = second.has
        calls = len(first.calls)
        async with reading(quick_cluster, topic, group, group_instance_id="b") as again:
            await until(lambda: again.has == had)
        assert len(first.calls) == calls
        async with reading(quick_cluster, topic, group, group_instance_id="b"):
            other = Member(
                quick_cluster.bootstrap_servers,
                group_id=group,
                topics=[topic],
                group_protocol="consumer",
                group_instance_id="a",
            )
            with pytest.raises(BrokerError, match=r"group\.instance\.id") as refused:
                async with other:
                    await anext(other)
            assert refused.value.code == ErrorCode.UNRELEASED_INSTANCE_ID


async def test_a_member_that_dies_is_missed(quick_cluster: KafkaCluster, topic: str) -> None:
    group = new_group()
    dead = Member(quick_cluster.bootstrap_servers, group_id=group, topics=[topic], group_protocol="consumer")
    await dead.start()
    async with reading(quick_cluster, topic, group) as heir:
        await until(lambda: len(heir.has) == len(dead.assignment) == 2)
        await dead.close(timeout=0.0)
        await until(lambda: heir.has == [0, 1, 2, 3])
        assert len(heir.member.assignment) == 4


async def test_a_user_that_is_away_for_too_long(quick_cluster: KafkaCluster, topic: str) -> None:
    group = new_group()
    await send(quick_cluster, topic, 4)
    async with reading(quick_cluster, topic, group, max_poll_interval_ms=1500) as slow:
        # Before it has any record: one that has read all there is would not be away.
        slow.pause.clear()
        async with reading(quick_cluster, topic, group) as heir:
            await until(lambda: heir.has == [0, 1, 2, 3])
            slow.pause.set()
            await until(lambda: len(slow.has) == 2)
            assert "lost" in [call for call, _ in slow.calls]


async def test_offsets_in_transactions_are_committed_with_the_epoch(quick_cluster: KafkaCluster, topic: str) -> None:
    group, servers = new_group(), quick_cluster.bootstrap_servers
    await send(quick_cluster, topic, 4)
    async with (
        reading(quick_cluster, topic, group) as told,
        Producer(servers, transactional_id=f"tx-{group}") as producer,
    ):
        await until(lambda: len(told.records) == 4)
        stale = told.member.group_metadata
        async with producer.transaction():
            await producer.send(topic, b"made of it", partition=0)
            await producer.send_offsets_to_transaction(told.member.positions, stale)
        async with reading(quick_cluster, topic, group) as second:
            await until(lambda: len(told.has) == len(second.has) == 2 and told.member.group_metadata != stale)
            await producer.begin_transaction()
            with pytest.raises(TransactionAbortedError, match="STALE_MEMBER_EPOCH"):
                await producer.send_offsets_to_transaction({TopicPartition(topic, 3): 1}, stale)
            await producer.abort_transaction()


async def test_what_the_brokers_do_not_have(quick_cluster: KafkaCluster, topic: str) -> None:
    async with Member(
        quick_cluster.bootstrap_servers,
        group_id=new_group(),
        topics=[topic],
        group_protocol="consumer",
        group_remote_assignor="mine",
    ) as member:
        with pytest.raises(BrokerError, match=r"group\.remote\.assignor"):
            await anext(member)


@pytest.mark.long
async def test_brokers_without_the_protocol(shared_clusters: SharedClusters) -> None:
    cluster = shared_clusters(version=TRANSACTION_VERSION_1)
    async with Member(
        cluster.bootstrap_servers, group_id="group", topics=["topic"], group_protocol="consumer"
    ) as member:
        with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=consumer") as refused:
            await anext(member)
        assert "group.protocol=classic" in (refused.value.hint or "")
