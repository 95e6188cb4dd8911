"""Members of one group at a broker, fake or real, by raw requests; each has its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from aioprod.errors import ErrorCode
from aioprod.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from aioprod.messages.consumer_group_heartbeat import TopicPartitions
from aioprod.messages.join_group import JoinGroupRequestProtocol
from aioprod.messages.leave_group import MemberIdentity
from aioprod.messages.sync_group import SyncGroupRequestAssignment
from tests.support.lab import PATIENCE_S, Lab, Topic, connected_lab

__all__ = ["RawConsumer", "RawGroup", "RawMember", "open_group"]

RANGE: Final = {"range": b"r"}

Held: TypeAlias = tuple[Topic, Sequence[int]]
"""Partitions of a topic."""


class RawMember:
    """A member of the classic protocol: `id` and `generation` are from the last response."""

    def __init__(self, lab: Lab, group: str, instance_id: str | None) -> None:
        self.lab = lab
        self.group = group
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.protocol: str | None = None

    async def join(
        self,
        protocols: Mapping[str, bytes] = RANGE,
        *,
        version: int = 9,
        session_ms: int = 60_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
    ) -> JoinGroupResponse:
        """JoinGroup, once."""
        rows = [JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols.items()]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.id,
            group_instance_id=self.instance_id,
            protocol_type=protocol_type,
            protocols=tuple(rows),
        )
        answer = await self.lab.request(request, version)
        if answer.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.id, self.generation, self.protocol = answer.member_id, answer.generation_id, answer.protocol_name
        return answer

    async def enter(self, protocols: Mapping[str, bytes] = RANGE, **options: Any) -> JoinGroupResponse:
        """JoinGroup twice: the first response has the member id."""
        if not self.id and self.instance_id is None:
            assert (await self.join(protocols, **options)).error_code == ErrorCode.MEMBER_ID_REQUIRED
        return await self.join(protocols, **options)

    async def sync(
        self, given: Mapping[str, bytes] = MappingProxyType({}), *, version: int = 5, protocol: str | None = None
    ) -> SyncGroupResponse:
        """SyncGroup, with assignments by member id."""
        rows = [SyncGroupRequestAssignment(member_id=member_id, assignment=data) for member_id, data in given.items()]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=protocol or self.protocol,
            assignments=tuple(rows),
        )
        return await self.lab.request(request, version)

    async def heartbeat(self) -> ErrorCode | int:
        """Heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode.of((await self.lab.request(request, 4)).error_code)

    async def leave(self, version: int = 5, *, by_instance: bool = False) -> LeaveGroupResponse:
        """LeaveGroup."""
        member_id = "" if by_instance else self.id
        request = LeaveGroupRequest(
            group_id=self.group,
            member_id=member_id if version < 3 else "",
            members=(MemberIdentity(member_id=member_id, group_instance_id=self.instance_id),) if version >= 3 else (),
        )
        return await self.lab.request(request, version)


class RawConsumer:
    """A member of KIP-848: `id`, `epoch` and the assignment are from the last response."""

    def __init__(self, lab: Lab, group: str, instance_id: str | None = None) -> None:
        self.lab = lab
        self.group = group
        self.instance_id = instance_id
        self.id = lab.new_name("member")
        self.epoch = 0
        self.assigned: list[int] = []

    async def beat(
        self, epoch: int | None = None, held: Held | None = None, *, version: int = 1, **fields: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """ConsumerGroupHeartbeat, by default with its current epoch."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            member_epoch=self.epoch if epoch is None else epoch,
            instance_id=self.instance_id,
            topic_partitions=None if held is None else _places(*held),
            **fields,
        )
        answer = await self.lab.request(request, version)
        if answer.error_code == ErrorCode.NONE:
            self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
        if answer.assignment is not None:
            self.assigned = sorted(p for row in answer.assignment.topic_partitions for p in row.partitions)
        return answer

    async def join(self, *topics: Topic, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """The first heartbeat, or the first after a restart."""
        names = tuple(topic.name for topic in topics)
        options = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": names, **fields}
        return await self.beat(0, (topics[0], ()), **options)

    async def given_at_last(self, *partitions: int) -> None:
        """Wait until it is assigned these."""
        async with asyncio.timeout(PATIENCE_S):
            while self.assigned != list(partitions):
                assert (await self.beat()).error_code == ErrorCode.NONE
                await asyncio.sleep(0.01)


def _places(topic: Topic, partitions: Sequence[int]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic_id=topic.id, partitions=tuple(partitions)),) if partitions else ()


class RawGroup:
    """A new group and its members."""

    def __init__(self, lab: Lab, connections: AsyncExitStack) -> None:
        self.id = lab.new_name("group")
        self._address = lab.writer.get_extra_info("peername")
        self._level = lab.level
        self._connections = connections

    async def member(self, instance_id: str | None = None) -> RawMember:
        """A member that has not joined yet."""
        return RawMember(await self.connect(self._address[:2]), self.id, instance_id)

    async def consumer(self, instance_id: str | None = None) -> RawConsumer:
        """A member of KIP-848 that has not joined yet."""
        return RawConsumer(await self.connect(self._address[:2]), self.id, instance_id)

    async def connect(self, address: tuple[str, int]) -> Lab:
        """A connection that is closed with the group."""
        return await self._connections.enter_async_context(connected_lab(address, self._level))

    async def admit(self, newcomer: RawMember, *members: RawMember, **options: Any) -> None:
        """Let one more join; afterwards all have to sync."""
        joining = asyncio.create_task(newcomer.enter(**options))
        for member in members:
            await self.rebalancing(member)
        joined = await asyncio.gather(joining, *(member.join(**options) for member in members))
        assert {answer.error_code for answer in joined} == {ErrorCode.NONE}

    async def rebalancing(self, member: RawMember) -> None:
        """Wait until a member has to rejoin."""
        async with asyncio.timeout(PATIENCE_S):
            while (error := await member.heartbeat()) != ErrorCode.REBALANCE_IN_PROGRESS:
                assert error == ErrorCode.NONE
                await asyncio.sleep(0.01)

    async def stabilize(self, *members: RawMember, **options: Any) -> None:
        """Let these join one after the other, and assign each its own id; the first one is the leader."""
        for index, newcomer in enumerate(members):
            await self.admit(newcomer, *members[:index], **options)
        await self.assign(*members)

    async def assign(self, *members: RawMember) -> None:
        """Assign each its own id; the first one is the leader."""
        leader, *others = members
        given = {one.id: one.id.encode() for one in members}
        answers = await asyncio.gather(leader.sync(given), *(one.sync() for one in others))
        assert [answer.assignment for answer in answers] == list(given.values())


@asynccontextmanager
async def open_group(lab: Lab) -> AsyncIterator[RawGroup]:
    """A new group at the broker of a lab."""
    async with AsyncExitStack() as connections:
        yield RawGroup(lab, connections)
