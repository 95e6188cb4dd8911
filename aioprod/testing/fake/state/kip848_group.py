"""A consumer group whose partitions the broker divides (KIP-848, Kafka's `ConsumerGroup`)."""

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
from aioprod.testing.fake.state.server_assignors import SERVER_ASSIGNORS, Place, Shares
from aioprod.testing.fake.state.timers import CallOff
from aioprod.testing.fake.state.topics import Topics

__all__ = ["JOINS", "LEAVES", "LEAVES_FOR_NOW", "ConsumerGroup", "refusal"]

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
"""Epochs of requests; a static member that comes back has the last meanwhile."""


class Progress(enum.Enum):
    """How far a member is with its share: it has it; it has to give something up; others have to."""

    STABLE = enum.auto()
    UNREVOKED = enum.auto()
    UNRELEASED = enum.auto()


@dataclass
class Member:
    """A member: `assigned` is what it may hold, `revoking` what it has to give up first."""

    id: str
    instance_id: str | None
    rebalance_timeout_s: float = 0.0
    topics: frozenset[str] = frozenset()
    assignor: str | None = None
    epoch: int = JOINS
    previous_epoch: int = JOINS
    progress: Progress = Progress.STABLE
    assigned: set[Place] = field(default_factory=set)
    revoking: set[Place] = field(default_factory=set)
    end_session: CallOff = lambda: None
    end_patience: CallOff = lambda: None

    def reach(self, epoch: int, progress: Progress, assigned: set[Place], revoking: Iterable[Place] = ()) -> None:
        """Be as far as that."""
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch
        self.progress, self.assigned, self.revoking = progress, assigned, set(revoking)


def refusal(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    """What is answered when nothing comes of it."""
    return ConsumerGroupHeartbeatResponse(
        error_code=error, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


class ConsumerGroup:
    """Members, what each shall hold as of `epoch`, and how they come to it."""

    def __init__(self, host: GroupHost, topics: Topics) -> None:
        self.epoch = 1
        self.members: dict[str, Member] = {}
        self.shares: Shares = {}
        self._host = host
        self._topics = topics
        self._divided: dict[str, tuple[object, int]] = {}

    # -- ConsumerGroupHeartbeat --------------------------------------------------------------------------------------

    def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """A member joins, stays, goes on towards its share, or leaves."""
        if request.member_epoch == JOINS:
            error = self._why_not_join(request)
        else:
            error = self._stranger(request.member_id, request.instance_id)
        if error == ErrorCode.NONE and request.member_epoch > JOINS:
            error = self._fence(self.members[request.member_id], request)
        if error != ErrorCode.NONE:
            return refusal(error, error.name)
        if request.member_epoch < JOINS:
            return self._leave(self.members[request.member_id], request.member_epoch)
        member = self._joined(request) if request.member_epoch == JOINS else self.members[request.member_id]
        is_new = member.epoch == JOINS and not member.topics
        before = set(member.assigned)
        topics = member.topics if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names)
        is_changed, member.topics = topics != member.topics, topics
        if request.rebalance_timeout_ms >= 0:
            member.rebalance_timeout_s = request.rebalance_timeout_ms / 1000
        member.assignor = request.server_assignor or member.assignor
        if is_new or is_changed or self._described() != self._divided:
            self._divide()
        held = request.topic_partitions
        self._reconcile(member, None if held is None else {(t.topic_id, p) for t in held for p in t.partitions})
        self._renew(member)
        is_full = request.rebalance_timeout_ms >= 0 and None not in (request.subscribed_topic_names, held)
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=member.id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=round(self._host.settings.heartbeat_interval_s * 1000),
            assignment=_assignment(member.assigned) if is_full or member.assigned != before else None,
        )

    def _why_not_join(self, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
        size_max = self._host.settings.size_max
        if size_max is not None and request.member_id not in self.members and len(self.members) >= size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        known = self._static(request.instance_id)
        if known is not None and known.epoch != LEAVES_FOR_NOW:
            return ErrorCode.UNRELEASED_INSTANCE_ID
        return ErrorCode.NONE

    def _stranger(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Why this is no member, NONE if it is."""
        known = self._static(instance_id)
        if known is not None and known.id != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
        is_known = member_id in self.members and (instance_id is None or known is not None)
        return ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_MEMBER_ID

    def _fence(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> ErrorCode:
        """Why its epoch won't do. That before is that of a member which missed the last answer."""
        if request.member_epoch == member.epoch:
            return ErrorCode.NONE
        rows = request.topic_partitions
        held = None if rows is None else {(row.topic_id, index) for row in rows for index in row.partitions}
        is_late = member.previous_epoch == request.member_epoch < member.epoch
        is_behind = is_late and held is not None and held <= member.assigned
        return ErrorCode.NONE if is_behind else ErrorCode.FENCED_MEMBER_EPOCH

    def _joined(self, request: ConsumerGroupHeartbeatRequest) -> Member:
        """The member that joins: a new one, one that was there before, or one in a static member's place."""
        known = self._static(request.instance_id)
        if known is not None:
            self._drop(known)
            member = replace(known, id=request.member_id, epoch=JOINS, previous_epoch=JOINS)
            self.shares[member.id] = self.shares.pop(known.id, set())
        else:
            member = self.members.get(request.member_id) or Member(request.member_id, request.instance_id)
        self.members[member.id] = member
        return member

    def _leave(self, member: Member, epoch: int) -> ConsumerGroupHeartbeatResponse:
        if epoch == LEAVES_FOR_NOW and member.instance_id is not None:
            member.end_patience()
            member.epoch = LEAVES_FOR_NOW
        else:
            self._remove(member)
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE, member_id=member.id, member_epoch=epoch, heartbeat_interval_ms=0
        )

    # -- what each shall hold ----------------------------------------------------------------------------------------

    def _described(self) -> dict[str, tuple[object, int]]:
        """The topics that members want and that exist."""
        wanted = sorted({name for member in self.members.values() for name in member.topics})
        found = {name: self._topics[name] for name in wanted if name in self._topics}
        return {name: (topic.id, len(topic.partitions)) for name, topic in found.items()}

    def _divide(self) -> None:
        """Divide all partitions anew: another epoch."""
        self.epoch += 1
        self._divided = self._described()
        ids = {name: self._topics[name].id for name in self._divided}
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        name = votes.most_common(1)[0][0] if votes else next(iter(SERVER_ASSIGNORS))
        wanted = {
            member.id: frozenset(ids[topic] for topic in member.topics if topic in ids)
            for member in self.members.values()
        }
        counts = {ids[topic]: count for topic, (_, count) in self._divided.items()}
        self.shares = SERVER_ASSIGNORS[name](wanted, counts, self.shares)

    def _reconcile(self, member: Member, held: set[Place] | None) -> None:
        """Let a member go on towards its share, as far as it and the others have given up what is not theirs."""
        if member.progress is Progress.STABLE and member.epoch == self.epoch:
            return
        if member.progress is Progress.UNREVOKED and (held is None or held & member.revoking):
            return
        share = self.shares.get(member.id, set())
        kept = member.assigned & share
        revoking = member.assigned - share
        if revoking and (held is None or held & revoking):
            member.reach(member.epoch, Progress.UNREVOKED, kept, revoking)
            self._wait_for(member)
            return
        member.end_patience()
        others = (one for one in self.members.values() if one is not member)
        taken = {place for other in others for place in other.assigned | other.revoking}
        progress = Progress.UNRELEASED if share & taken else Progress.STABLE
        member.reach(self.epoch, progress, kept | (share - taken))

    def _wait_for(self, member: Member) -> None:
        """It has to give up within its time, or is out."""
        epoch = member.epoch

        def look() -> None:
            if member.epoch == epoch and member.progress is Progress.UNREVOKED:
                self._remove(member)

        member.end_patience()
        member.end_patience = self._host.later(member.rebalance_timeout_s, look)

    # -- members -----------------------------------------------------------------------------------------------------

    def _static(self, instance_id: str | None) -> Member | None:
        members = self.members.values() if instance_id is not None else ()
        return next((one for one in members if one.instance_id == instance_id), None)

    def _renew(self, member: Member) -> None:
        """Let its session begin anew."""
        member.end_session()
        member.end_session = self._host.later(self._host.settings.session_timeout_s, partial(self._remove, member))

    def _drop(self, member: Member) -> None:
        member.end_session()
        member.end_patience()
        del self.members[member.id]

    def _remove(self, member: Member) -> None:
        """It is out: what it had is free."""
        self._drop(member)
        self.shares.pop(member.id, None)
        self._divide()

    def refusal_to_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool
    ) -> ErrorCode:
        """Why this member may not commit, NONE if it may."""
        if epoch < 0 and not self.members:
            return ErrorCode.NONE
        error = self.refusal_to_fetch(member_id, epoch)
        if error == ErrorCode.STALE_MEMBER_EPOCH and transactional:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    def refusal_to_fetch(self, member_id: str, epoch: int) -> ErrorCode:
        """Why this member may not see offsets, NONE if it may."""
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member.epoch == epoch else ErrorCode.STALE_MEMBER_EPOCH

    def unload(self) -> None:
        """Be what another broker knows of it: everything, but sessions begin anew."""
        for member in self.members.values():
            self._renew(member)
            if member.progress is Progress.UNREVOKED:
                self._wait_for(member)


def _assignment(places: set[Place]) -> Assignment:
    indexes: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(places):
        indexes.setdefault(topic_id, []).append(index)
    rows = [TopicPartitions(topic_id=topic_id, partitions=tuple(found)) for topic_id, found in indexes.items()]
    return Assignment(topic_partitions=tuple(rows))
