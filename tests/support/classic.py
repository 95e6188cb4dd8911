"""A classic membership driven by hand: the test is its runner, its coordinator and its clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import ErrorCode
from aioprod.group.assignors import CooperativeStickyAssignor, RangeAssignor, Subscription
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.classic.states import State
from aioprod.group.config import MemberConfig
from aioprod.group.membership import Assign, DescribeTopics, Revoke, SendRequest, Step, Wait
from aioprod.group.subscription_codec import decode_assignment, encode_assignment, encode_subscription
from aioprod.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from aioprod.messages.join_group import JoinGroupResponseMember
from aioprod.messages.negotiation import ByVersion
from aioprod.types import TopicPartition

__all__ = ["ALL", "Driver", "infos", "partitions"]

ALL: Final = (CooperativeStickyAssignor(), RangeAssignor())


def partitions(*indexes: int, topic: str = "t") -> tuple[TopicPartition, ...]:
    """Partitions of one topic."""
    return tuple(TopicPartition(topic, index) for index in indexes)


def infos(count: int, topic: str = "t") -> list[PartitionInfo]:
    """What is known of a topic with so many partitions."""
    return [PartitionInfo(topic, index, None, (), ()) for index in range(count)]


class Driver:
    """A member of group "g" that reads "t"; `now` is its time, each call of a method does one thing to it."""

    def __init__(self, assignors: Sequence[Any] = ALL, **options: Any) -> None:
        config = MemberConfig.from_options(bootstrap_servers="localhost:9092", **options)
        self.now = 100.0
        self.steps: list[Step] = []
        self.member = ClassicMembership("g", frozenset({"t"}), assignors, config, lambda failures: 0.1, self.now)

    def state(self) -> State:
        """Its state."""
        return self.member.state

    def step(self) -> Step:
        """Its present step; a second call returns the same."""
        step = self.member.step(self.now)
        assert self.member.step(self.now) == step
        return step

    def is_rebalancing(self) -> bool:
        """Whether it can't commit now."""
        return self.member.is_rebalancing

    def continues(self) -> None:
        """Let it pass states in which nothing has to be done."""
        self.step()

    def sends(self, kind: type[Any]) -> Any:
        """The request of that kind that its step sends."""
        step = self.step()
        assert isinstance(step, SendRequest), step
        request = step.request.build(5) if isinstance(step.request, ByVersion) else step.request
        assert isinstance(request, kind)
        return request

    def revokes(self) -> tuple[TopicPartition, ...]:
        """Carry out its `Revoke` step."""
        step = self.step()
        assert isinstance(step, Revoke), step
        self.steps.append(step)
        self.member.revoked(self.now)
        return step.partitions

    def adds(self) -> tuple[TopicPartition, ...]:
        """Carry out its `Assign` step."""
        step = self.step()
        assert isinstance(step, Assign), step
        self.steps.append(step)
        self.member.assigned(self.now)
        return step.partitions

    def gets_its_id(self, member_id: str = "me") -> None:
        """The first response to JoinGroup without a member id (KIP-394)."""
        assert self.sends(JoinGroupRequest).member_id == ""
        self.receives_join(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)

    def receives_join(self, code: int = 0, **fields: Any) -> None:
        """The response to JoinGroup, by default as a follower of "boss"."""
        self.sends(JoinGroupRequest)
        given: dict[str, Any] = {
            "generation_id": 1,
            "protocol_name": "cooperative-sticky",
            "leader": "boss",
            "member_id": "me",
        } | fields
        self.member.response_received(JoinGroupResponse(error_code=code, **given), self.now)

    def leads(self, others: dict[str, Subscription], generation: int = 1, **fields: Any) -> None:
        """The response to JoinGroup makes it the leader of these members and itself."""
        own = self.sends(JoinGroupRequest).protocols[0].metadata
        rows = [JoinGroupResponseMember(member_id="me", metadata=own)] + [
            JoinGroupResponseMember(
                member_id=name, group_instance_id=one.group_instance_id, metadata=encode_subscription(one)
            )
            for name, one in others.items()
        ]
        self.receives_join(leader="me", generation_id=generation, members=tuple(rows), **fields)

    def assigns(self, **counts: int) -> dict[str, tuple[TopicPartition, ...]]:
        """Describe topics with so many partitions; returns the assignments in its SyncGroup."""
        assert isinstance(self.step(), DescribeTopics)
        self.member.topics_described({topic: infos(count, topic) for topic, count in counts.items()}, self.now)
        request = self.sends(SyncGroupRequest)
        return {row.member_id: decode_assignment(row.assignment) for row in request.assignments}

    def receives_sync(self, assignment: Iterable[TopicPartition] = (), code: int = 0, **fields: Any) -> None:
        """The response to SyncGroup."""
        self.sends(SyncGroupRequest)
        self.member.response_received(
            SyncGroupResponse(error_code=code, assignment=encode_assignment(assignment), **fields), self.now
        )

    def heartbeats(self, code: int = 0) -> HeartbeatRequest:
        """Its next heartbeat, at its time, and the response to it."""
        self.now = self.member.heartbeat_at
        request = self.member.heartbeat(self.now)
        assert isinstance(request, HeartbeatRequest)
        self.member.heartbeat_response_received(HeartbeatResponse(error_code=code), self.now)
        return request

    def left(self) -> LeaveGroupRequest:
        """Its LeaveGroup, and the response to it."""
        request: LeaveGroupRequest = self.sends(LeaveGroupRequest)
        self.member.response_received(LeaveGroupResponse(), self.now)
        return request

    def join(self, *assignment: TopicPartition, **fields: Any) -> None:
        """From before it joins to its assignment."""
        self.revokes()
        if not self.member.metadata.member_id and "group_instance_id" not in fields:
            self.gets_its_id()
        self.receives_join(**fields)
        self.receives_sync(assignment)
        if isinstance(self.step(), Revoke):
            self.revokes()
        self.adds()
        if isinstance(self.step(), Wait):
            assert self.state() is State.STABLE
