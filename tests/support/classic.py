"""A classic membership that is driven by hand: the test is its runner, its coordinator and its clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import ErrorCode
from aioprod.group.assignors import CooperativeStickyAssignor, RangeAssignor, Subscription
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.classic.states import State
from aioprod.group.membership import Assign, DescribeTopics, Revoke, SendRequest, Step, Wait
from aioprod.group.settings import MemberConfig
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
        self.told: list[Step] = []
        self.member = ClassicMembership("g", frozenset({"t"}), assignors, config, lambda failures: 0.1, self.now)

    def state(self) -> State:
        """Where it stands."""
        return self.member.state

    def step(self) -> Step:
        """What it wants done; twice asked is the same."""
        step = self.member.step(self.now)
        assert self.member.step(self.now) == step
        return step

    def is_rebalancing(self) -> bool:
        """Whether nothing can be committed."""
        return self.member.is_rebalancing

    def goes_on(self) -> None:
        """Let it do what is to be done without anybody's help."""
        self.step()

    def asks(self, kind: type[Any]) -> Any:
        """The request of that kind that it wants sent now."""
        step = self.step()
        assert isinstance(step, SendRequest), step
        request = step.request.build(5) if isinstance(step.request, ByVersion) else step.request
        assert isinstance(request, kind)
        return request

    def gives_up(self) -> tuple[TopicPartition, ...]:
        """Let it give up what it wants to."""
        step = self.step()
        assert isinstance(step, Revoke), step
        self.told.append(step)
        self.member.revoked(self.now)
        return step.partitions

    def takes(self) -> tuple[TopicPartition, ...]:
        """Let it take what it wants to."""
        step = self.step()
        assert isinstance(step, Assign), step
        self.told.append(step)
        self.member.assigned(self.now)
        return step.partitions

    def is_told_its_id(self, member_id: str = "me") -> None:
        """The first answer to JoinGroup of who has no id (KIP-394)."""
        assert self.asks(JoinGroupRequest).member_id == ""
        self.join_answered(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)

    def join_answered(self, code: int = 0, **fields: Any) -> None:
        """The answer to JoinGroup; as a follower of "boss", if nothing else is said."""
        self.asks(JoinGroupRequest)
        given: dict[str, Any] = {
            "generation_id": 1,
            "protocol_name": "cooperative-sticky",
            "leader": "boss",
            "member_id": "me",
        } | fields
        self.member.response_received(JoinGroupResponse(error_code=code, **given), self.now)

    def leads(self, others: dict[str, Subscription], generation: int = 1, **fields: Any) -> None:
        """The answer to JoinGroup makes it the leader of these and itself."""
        own = self.asks(JoinGroupRequest).protocols[0].metadata
        rows = [JoinGroupResponseMember(member_id="me", metadata=own)] + [
            JoinGroupResponseMember(
                member_id=name, group_instance_id=one.group_instance_id, metadata=encode_subscription(one)
            )
            for name, one in others.items()
        ]
        self.join_answered(leader="me", generation_id=generation, members=tuple(rows), **fields)

    def divides(self, **counts: int) -> dict[str, tuple[TopicPartition, ...]]:
        """Topics have so many partitions: what it assigns to whom."""
        assert isinstance(self.step(), DescribeTopics)
        self.member.topics_described({topic: infos(count, topic) for topic, count in counts.items()}, self.now)
        request = self.asks(SyncGroupRequest)
        return {row.member_id: decode_assignment(row.assignment) for row in request.assignments}

    def sync_answered(self, share: Iterable[TopicPartition] = (), code: int = 0, **fields: Any) -> None:
        """The answer to SyncGroup."""
        self.asks(SyncGroupRequest)
        self.member.response_received(
            SyncGroupResponse(error_code=code, assignment=encode_assignment(share), **fields), self.now
        )

    def beats(self, code: int = 0) -> HeartbeatRequest:
        """Its next heartbeat, at its time, and the answer to it."""
        self.now = self.member.heartbeat_at
        request = self.member.heartbeat(self.now)
        assert isinstance(request, HeartbeatRequest)
        self.member.heartbeat_response_received(HeartbeatResponse(error_code=code), self.now)
        return request

    def left(self) -> LeaveGroupRequest:
        """It says good-bye, and is answered."""
        request: LeaveGroupRequest = self.asks(LeaveGroupRequest)
        self.member.response_received(LeaveGroupResponse(), self.now)
        return request

    def settle(self, *share: TopicPartition, **fields: Any) -> None:
        """From before it joins to where it reads its share."""
        self.gives_up()
        if not self.member.metadata.member_id and "group_instance_id" not in fields:
            self.is_told_its_id()
        self.join_answered(**fields)
        self.sync_answered(share)
        if isinstance(self.step(), Revoke):
            self.gives_up()
        self.takes()
        if isinstance(self.step(), Wait):
            assert self.state() is State.STABLE
