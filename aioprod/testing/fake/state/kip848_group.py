"""A consumer group of KIP-848, whose coordinator assigns the partitions (Kafka's `ConsumerGroup`).

A change of the members or of their topics computes a new target assignment, under the next group epoch. Each heartbeat
then moves its member towards its target: it first revokes what is not in the target, which its own heartbeat has to
confirm, then reaches the new epoch and gets the partitions that no other member still owns.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from uuid import UUID

from aioprod.errors import ErrorCode
from aioprod.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from aioprod.messages.consumer_group_heartbeat import Assignment, TopicPartitions
from aioprod.testing.fake.state.group_host import GroupHost
from aioprod.testing.fake.state.server_assignors import SERVER_ASSIGNORS, Assignments, TopicIdPartition
from aioprod.testing.fake.state.timers import Cancel
from aioprod.testing.fake.state.topics import Topics

__all__ = ["JOIN_EPOCH", "LEAVE_STATIC_EPOCH", "ConsumerGroup", "error_response"]

JOIN_EPOCH: Final = 0
LEAVE_STATIC_EPOCH: Final = -2
"""Member epochs in requests; the last is also that of a static member that has left for a restart."""


class MemberState(enum.Enum):
    """A member has its target, has to revoke partitions first, or waits for other members to release theirs."""

    STABLE = enum.auto()
    UNREVOKED_PARTITIONS = enum.auto()
    UNRELEASED_PARTITIONS = enum.auto()


@dataclass
class Member:
    """A member: `assigned` are its partitions, `revoking` those that it has to revoke first."""

    id: str
    instance_id: str | None
    rebalance_timeout_s: float = 0.0
    topics: frozenset[str] = frozenset()
    assignor: str | None = None
    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: set[TopicIdPartition] = field(default_factory=set)
    revoking: set[TopicIdPartition] = field(default_factory=set)
    cancel_session: Cancel = lambda: None
    cancel_rebalance_timeout: Cancel = lambda: None

    def move_to(
        self, epoch: int, state: MemberState, assigned: set[TopicIdPartition], revoking: Iterable[TopicIdPartition] = ()
    ) -> None:
        """Set epoch, state and partitions."""
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch
        self.state, self.assigned, self.revoking = state, assigned, set(revoking)


def error_response(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """The response to a heartbeat that fails."""
    return ConsumerGroupHeartbeatResponse(
        error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


class ConsumerGroup:
    """The members, their target assignment as of `epoch`, and how they get there."""

    def __init__(self, host: GroupHost, topics: Topics) -> None:
        self.epoch = 1
        self.members: dict[str, Member] = {}
        self.target_assignment: Assignments = {}
        self._host = host
        self._topics = topics
        self._assigned_topics: dict[str, tuple[object, int]] = {}

    # --- ConsumerGroupHeartbeat

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Let a member join, continue towards its target, or leave."""
        if request.member_epoch == JOIN_EPOCH:
            error = self._join_error(request)
        else:
            error = self._member_error(request.member_id, request.instance_id)
        if error == ErrorCode.NONE and request.member_epoch > JOIN_EPOCH:
            error = self._epoch_error(self.members[request.member_id], request)
        if error != ErrorCode.NONE:
            return error_response(error, error.name)
        if request.member_epoch < JOIN_EPOCH:
            return self._leave(self.members[request.member_id], request.member_epoch)
        member = self._find_or_add(request) if request.member_epoch == JOIN_EPOCH else self.members[request.member_id]
        is_new = member.epoch == JOIN_EPOCH and not member.topics
        before = set(member.assigned)
        topics = member.topics if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names)
        is_changed, member.topics = topics != member.topics, topics
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_timeout_s = request.rebalance_timeout_ms / 1000
        member.assignor = request.server_assignor or member.assignor
        if is_new or is_changed or self._subscribed_topics() != self._assigned_topics:
            self._assign()
        owned = request.topic_partitions
        self._reconcile(member, None if owned is None else {(t.topic_id, p) for t in owned for p in t.partitions})
        self._restart_session(member)
        is_full = request.rebalance_timeout_ms >= 0 and None not in (request.subscribed_topic_names, owned)
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=round(self._host.settings.heartbeat_interval_s * 1000),
            assignment=_assignment(member.assigned) if is_full or member.assigned != before else None,
        )

    def _join_error(self, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
        size_max = self._host.settings.size_max
        if size_max is not None and request.member_id not in self.members and len(self.members) >= size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        known = self._static(request.instance_id)
        if known is not None and known.epoch != LEAVE_STATIC_EPOCH:
            return ErrorCode.UNRELEASED_INSTANCE_ID
        return ErrorCode.NONE

    def _member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """The error if this is not a member, else NONE."""
        known = self._static(instance_id)
        if known is not None and known.id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        is_known = member_id in self.members and (instance_id is None or known is not None)
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID

    def _epoch_error(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
        """The error of a wrong epoch, else NONE. A member that missed the last response still has the epoch before."""
        if request.member_epoch == member.epoch:
            return ErrorCode.NONE
        rows = request.topic_partitions
        owned = None if rows is None else {(row.topic_id, index) for row in rows for index in row.partitions}
        is_late = member.previous_epoch == request.member_epoch < member.epoch
        is_behind = is_late and owned is not None and owned <= member.assigned
        return ErrorCode.NONE if is_behind else ErrorCode.FENCED_MEMBER_EPOCH

    def _find_or_add(self, request: ConsumerGroupHeartbeatRequest) -> Member:
        """The member that joins: a new one, a known one, or the successor of a static member."""
        known = self._static(request.instance_id)
        if known is not None:
            self._drop(known)
            member = replace(known, id=request.member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
            self.target_assignment[member.id] = self.target_assignment.pop(known.id, set())
        else:
            member = self.members.get(request.member_id) or Member(request.member_id, request.instance_id)
        self.members[member.id] = member
        return member

    def _leave(self, member: Member, epoch: int) -> ConsumerGroupHeartbeatResponse:
        if epoch == LEAVE_STATIC_EPOCH and member.instance_id is not None:
            member.cancel_rebalance_timeout()
            member.epoch = LEAVE_STATIC_EPOCH
        else:
            self._remove(member)
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=member.id, member_epoch=epoch, heartbeat_interval_ms=0
        )

    # --- assignment

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that its members read."""
        return frozenset(name for member in self.members.values() for name in member.topics)

    def _subscribed_topics(self) -> dict[str, tuple[object, int]]:
        """The existing topics that members subscribe to, with their ids and numbers of partitions."""
        found = {name: self._topics[name] for name in sorted(self.subscribed) if name in self._topics}
        return {name: (topic.id, len(topic.partitions)) for name, topic in found.items()}

    def _assign(self) -> None:
        """Compute a target assignment under the next epoch."""
        self.epoch += 1
        self._assigned_topics = self._subscribed_topics()
        ids = {name: self._topics[name].id for name in self._assigned_topics}
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        name = votes.most_common(1)[0][0] if votes else next(iter(SERVER_ASSIGNORS))
        wanted = {
            member.id: frozenset(ids[topic] for topic in member.topics if topic in ids)
            for member in self.members.values()
        }
        counts = {ids[topic]: count for topic, (_, count) in self._assigned_topics.items()}
        self.target_assignment = SERVER_ASSIGNORS[name](wanted, counts, self.target_assignment)

    def _reconcile(self, member: Member, owned: set[TopicIdPartition] | None) -> None:
        """Move a member towards its target, as far as it and the others have revoked what is not theirs."""
        if member.state is MemberState.STABLE and member.epoch == self.epoch:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS and (owned is None or owned & member.revoking):
            return
        target = self.target_assignment.get(member.id, set())
        kept = member.assigned & target
        revoking = member.assigned - target
        if revoking and (owned is None or owned & revoking):
            member.move_to(member.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
            self._start_rebalance_timeout(member)
            return
        member.cancel_rebalance_timeout()
        others = (one for one in self.members.values() if one is not member)
        taken = {partition for other in others for partition in other.assigned | other.revoking}
        state = MemberState.UNRELEASED_PARTITIONS if target & taken else MemberState.STABLE
        member.move_to(self.epoch, state, kept | (target - taken))

    def _start_rebalance_timeout(self, member: Member) -> None:
        """Remove the member if it does not revoke its partitions within its rebalance timeout."""
        epoch = member.epoch

        def expire() -> None:
            if member.epoch == epoch and member.state is MemberState.UNREVOKED_PARTITIONS:
                self._remove(member)

        member.cancel_rebalance_timeout()
        member.cancel_rebalance_timeout = self._host.later(member.rebalance_timeout_s, expire)

    # --- members

    def _static(self, instance_id: str | None) -> Member | None:
        members = self.members.values() if instance_id is not None else ()
        return next((one for one in members if one.instance_id == instance_id), None)

    def _restart_session(self, member: Member) -> None:
        """Restart a member's session timeout."""
        member.cancel_session()
        member.cancel_session = self._host.later(self._host.settings.session_timeout_s, partial(self._remove, member))

    def _drop(self, member: Member) -> None:
        member.cancel_session()
        member.cancel_rebalance_timeout()
        del self.members[member.id]

    def _remove(self, member: Member) -> None:
        """Remove a member and assign its partitions to the others."""
        self._drop(member)
        self.target_assignment.pop(member.id, None)
        self._assign()

    def commit_error(self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool) -> ErrorCode:
        """The error if this member may not commit, else NONE."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        error = self.fetch_error(member_id, epoch)
        if error == ErrorCode.STALE_MEMBER_EPOCH and transactional:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def fetch_error(self, member_id: str, epoch: int) -> ErrorCode:
        """The error if this member may not fetch offsets, else NONE."""
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member.epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH

    def reload(self) -> None:
        """Become what another coordinator loads: everything, with restarted timeouts."""
        for member in self.members.values():
            self._restart_session(member)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self._start_rebalance_timeout(member)


def _assignment(partitions: set[TopicIdPartition]) -> Assignment:
    indexes: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        indexes.setdefault(topic_id, []).append(index)
    rows = [TopicPartitions(topic_id=topic_id, partitions=tuple(found)) for topic_id, found in indexes.items()]
    return Assignment(topic_partitions=tuple(rows))
