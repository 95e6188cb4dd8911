"""Members with the brokers' own protocol (KIP-848), with fake brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aioprod.errors import BrokerError, ErrorCode, UnsupportedVersionError
from aioprod.group import Member
from aioprod.messages import ConsumerGroupHeartbeatRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.kip848_group import ConsumerGroup
from aioprod.types import TopicPartition
from tests.support.sessions import FAST
from tests.support.stored_batches import fill

PATIENCE_S = 20.0


@asynccontextmanager
async def cluster() -> AsyncIterator[FakeCluster]:
    """Brokers with topic "t", of whose two partitions each has five records."""
    async with FakeCluster(2) as brokers:
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        for partition in brokers.create_topic("t", 2).partitions:
            fill(partition, 5)
        yield brokers


def new_member(brokers: FakeCluster, **options: Any) -> Member:
    return Member(
        brokers.bootstrap,
        group_id="g",
        topics=["t"],
        group_protocol="consumer",
        auto_offset_reset="earliest",
        **{**FAST, "fetch_max_wait_ms": 20, **options},
    )


async def take(member: Member, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(count):
            await anext(member)


def joined(brokers: FakeCluster) -> ConsumerGroup:
    group = brokers.state.groups["g"].membership
    assert isinstance(group, ConsumerGroup)
    return group


async def test_the_coordinator_moves() -> None:
    async with cluster() as brokers, new_member(brokers) as member:
        await take(member, 10)
        brokers.move_coordinator("g", 2 if brokers.state.coordinator("g") == 1 else 1)
        await member.commit()
        assert [brokers.committed_offset("g", TopicPartition("t", index)) for index in (0, 1)] == [5, 5]


async def test_an_answer_with_the_assignment_that_is_lost() -> None:
    """A full heartbeat requests it, and it is sent again."""
    async with cluster() as brokers:
        fault = brokers.fault(ConsumerGroupHeartbeatRequest, drop="after", times=3)
        async with new_member(brokers) as member:
            await take(member, 10)
        assert fault.hits == 3


@pytest.mark.parametrize("instance_id", [None, "static"])
async def test_leaving(instance_id: str | None) -> None:
    async with cluster() as brokers:
        async with new_member(brokers, group_instance_id=instance_id) as member:
            await take(member, 1)
            assert list(joined(brokers).members) == [member.group_metadata.member_id]
        assert [one.epoch for one in joined(brokers).members.values()] == ([-2] if instance_id else [])


async def test_brokers_that_lack_it() -> None:
    async with cluster() as brokers:
        for broker in brokers.brokers.values():
            del broker.versions[ConsumerGroupHeartbeatRequest]
        async with new_member(brokers) as member:
            with pytest.raises(UnsupportedVersionError, match=r"group\.protocol=consumer"):
                await anext(member)


async def test_an_assignor_that_brokers_lack() -> None:
    async with cluster() as brokers, new_member(brokers, group_remote_assignor="mine") as member:
        with pytest.raises(BrokerError, match=r"group\.remote\.assignor") as caught:
            await anext(member)
        assert caught.value.code == ErrorCode.UNSUPPORTED_ASSIGNOR
