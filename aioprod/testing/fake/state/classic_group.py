"""A consumer group of the classic protocol (Kafka's `ClassicGroup` and its coordinator).

Each change of the members starts a rebalance. PREPARING_REBALANCE: the group waits until all members have joined or the
rebalance timeout is over, then begins the next generation and answers the JoinGroup requests, the leader's with the
subscriptions of all. COMPLETING_REBALANCE: it waits for the leader's SyncGroup with the assignments. STABLE: every
SyncGroup is answered with the member's own assignment. No I/O and no waiting: a response that is not due yet is a
callback, `reply`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from aioprod.errors import ErrorCode
from aioprod.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from aioprod.messages.join_group import JoinGroupResponseMember
from aioprod.messages.leave_group import MemberIdentity
from aioprod.testing.fake.state.classic_members import (
    JoinTerms,
    Member,
    Members,
    Reply,
    join_error_response,
    timeouts_s,
)
from aioprod.testing.fake.state.group_host import GroupHost
from aioprod.testing.fake.state.timers import Cancel

__all__ = ["ClassicGroup", "State"]


class State(enum.Enum):
    """Kafka's states: no members; waiting for joins; waiting for the leader's assignment; assigned."""

    EMPTY = enum.auto()
    PREPARING_REBALANCE = enum.auto()
    COMPLETING_REBALANCE = enum.auto()
    STABLE = enum.auto()


@dataclass(frozen=True)
class Saved:
    """What another coordinator loads: the last generation that was assigned."""

    generation: int = 0
    protocol: str | None = None
    leader: str = ""
    members: tuple[Member, ...] = ()


class ClassicGroup:
    """The members of one group and the rebalance from one generation to the next."""

    def __init__(self, host: GroupHost) -> None:
        self.state = State.EMPTY
        self.generation = 0
        self.leader = ""
        self.protocol: str | None = None
        self.members = Members()
        self.protocol_type = ""
        self._host = host
        self._pending: dict[str, Cancel] = {}
        self._is_initial = False
        self._has_grown = False
        self._saved = Saved()
        self._cancel_timer: Cancel = lambda: None

    @property
    def subscribed(self) -> frozenset[str]:
        """The topics that the members of a group of consumers read."""
        if self.protocol_type != "consumer":
            return frozenset()
        return frozenset(topic for member in self.members.values() for topic in member.topics(self.protocol))

    # --- JoinGroup

    def join(self, request: JoinGroupRequest, terms: JoinTerms, reply: Reply[JoinGroupResponse]) -> None:
        """Add a member, or let it rejoin; `reply` gets the response when the rebalance is complete."""
        error = self._join_error(request)
        if error != ErrorCode.NONE:
            reply(join_error_response(error, request.member_id))
        elif not request.member_id:
            self._join_new(request, terms, reply)
        elif request.member_id in self._pending:
            self._pending.pop(request.member_id)()
            self._add(request.member_id, request, reply)
        else:
            self._rejoin(self.members[request.member_id], request, reply)

    def _join_error(self, request: JoinGroupRequest) -> ErrorCode:
        is_known = request.member_id in self.members
        size_max = self._host.settings.size_max
        if size_max is not None and not is_known and len(self.members) >= size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        is_suitable = bool(request.protocol_type and request.protocols)
        if self.members:
            is_suitable = request.protocol_type == self.protocol_type and self.members.supports(request.protocols)
        if not is_suitable:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id and request.member_id not in self._pending:
            return self.members.member_error(request.member_id, request.group_instance_id)
        return ErrorCode.NONE

    def _join_new(self, request: JoinGroupRequest, terms: JoinTerms, reply: Reply[JoinGroupResponse]) -> None:
        instance_id = request.group_instance_id
        member_id = self._host.new_member_id(terms.client_id if instance_id is None else instance_id)
        known = self.members.static(instance_id)
        if known is not None:
            self._replace(known, member_id, request, terms, reply)
        elif instance_id is None and terms.requires_member_id:
            forget = partial(self._expire_pending, member_id)
            self._pending[member_id] = self._host.later(request.session_timeout_ms / 1000, forget)
            reply(join_error_response(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(member_id, request, reply)

    def _expire_pending(self, member_id: str) -> None:
        """Remove a member that got its id and did not join with it."""
        del self._pending[member_id]
        self._rebalance_after_removal()

    def _add(self, member_id: str, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        session_s, rebalance_s = timeouts_s(request)
        member = Member(member_id, request.group_instance_id, session_s, rebalance_s, request.protocols, joining=reply)
        if not self.members:
            self.protocol_type, self.leader = request.protocol_type, member_id
        self.members[member_id] = member
        self._has_grown = True
        self._rebalance()

    def _rejoin(self, member: Member, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        is_same = member.protocols == request.protocols
        is_leader = member.id == self.leader
        if (self.state is State.COMPLETING_REBALANCE and is_same) or (
            self.state is State.STABLE and is_same and not is_leader
        ):
            reply(self._joined(member))
        else:
            member.update(request, reply)
            self._rebalance()

    def _replace(
        self, old: Member, member_id: str, request: JoinGroupRequest, terms: JoinTerms, reply: Reply[JoinGroupResponse]
    ) -> None:
        """Give a restarted static member (KIP-345) the assignment of its predecessor, under a new member id."""
        old.fail(ErrorCode.FENCED_INSTANCE_ID)
        old.cancel_session()
        leader_before = self.leader
        if self.leader == old.id:
            self.leader = member_id
        member = replace(old, id=member_id, joining=None, syncing=None)
        member.update(request, reply)
        self.members.replace(old, member)
        self._restart_session(member)
        if self.state is not State.STABLE or self.members.choice != self.protocol:
            self._rebalance()
            return
        member.joining = None
        self._save()
        answer = self._joined(member)
        is_leader = self.leader == member_id
        if is_leader and not terms.skips_assignment:
            # As leader it would send assignments outside of a rebalance: the response names the old leader instead.
            answer = replace(answer, leader=leader_before, members=())
        reply(replace(answer, skip_assignment=is_leader and terms.skips_assignment))

    def _joined(self, member: Member) -> JoinGroupResponse:
        rows = [
            JoinGroupResponseMember(
                member_id=one.id, group_instance_id=one.instance_id, metadata=one.metadata(self.protocol)
            )
            for one in self.members.values()
        ]
        return JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=member.id,
            members=tuple(rows) if member.id == self.leader else (),
        )

    # --- rebalance

    def _rebalance(self) -> None:
        """Start a rebalance, or complete the one in progress if all members have joined."""
        if self.state is State.PREPARING_REBALANCE:
            self._complete_if_all_joined()
            return
        if self.state is State.COMPLETING_REBALANCE:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.fail(ErrorCode.REBALANCE_IN_PROGRESS)
                    self._restart_session(member)
        self._cancel_timer()
        self._is_initial = self.state is State.EMPTY
        self.state = State.PREPARING_REBALANCE
        if self._is_initial:
            self._await_more_members(self.members.rebalance_timeout_s)
        else:
            self._cancel_timer = self._host.later(self.members.rebalance_timeout_s, self._complete_join)
            self._complete_if_all_joined()

    def _await_more_members(self, left_s: float) -> None:
        """Delay the first rebalance as long as members keep joining (`group.initial.rebalance.delay.ms`)."""
        delay_s = min(self._host.settings.initial_delay_s, left_s)
        self._has_grown = False
        self._cancel_timer = self._host.later(delay_s, partial(self._end_initial_delay, left_s - delay_s))

    def _end_initial_delay(self, left_s: float) -> None:
        if self._has_grown and left_s > 0.0:
            self._await_more_members(left_s)
        else:
            self._complete_join()

    def _complete_if_all_joined(self) -> None:
        have_joined = all(one.joining is not None for one in self.members.values())
        if have_joined and not self._pending and not self._is_initial:
            self._complete_join()

    def _complete_join(self) -> None:
        """Begin a generation with the members that have joined; static members stay in it without a join."""
        self._cancel_timer()
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member)
        joined = [one for one in self.members.values() if one.joining is not None]
        if self.members and not joined:
            self._cancel_timer = self._host.later(self.members.rebalance_timeout_s, self._complete_join)
            return
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = State.EMPTY, None, ""
            self._save()
            return
        if self.members[self.leader].joining is None:
            self.leader = joined[0].id
        self.state, self.protocol = State.COMPLETING_REBALANCE, self.members.choice
        self._cancel_timer = self._host.later(self.members.rebalance_timeout_s, self._expire_pending_sync)
        for member in self.members.values():
            member.has_synced = False
            self._restart_session(member)
            reply, member.joining = member.joining, None
            if reply is not None:
                reply(self._joined(member))

    # --- SyncGroup, Heartbeat, LeaveGroup

    def sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        """Answer a member's assignment; the leader's request has those of all."""
        error = self._member_error(request.member_id, request.group_instance_id, request.generation_id)
        given = (request.protocol_type, self.protocol_type), (request.protocol_name, self.protocol)
        if error == ErrorCode.NONE and any(theirs not in (None, ours) for theirs, ours in given):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error == ErrorCode.NONE and self.state is State.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error != ErrorCode.NONE:
            reply(SyncGroupResponse(error_code=error, assignment=b""))
            return
        member = self.members[request.member_id]
        member.has_synced, member.syncing = True, reply
        if self.state is State.COMPLETING_REBALANCE and member.id == self.leader:
            assignments = {one.member_id: one.assignment for one in request.assignments}
            for one in self.members.values():
                one.assignment = assignments.get(one.id, b"")
            self.state = State.STABLE
            self._save()
        if self.state is State.STABLE:
            self._propagate_assignment()

    def _propagate_assignment(self) -> None:
        for member in self.members.values():
            reply, member.syncing = member.syncing, None
            if reply is not None:
                self._restart_session(member)
                answer = SyncGroupResponse(
                    error_code=ErrorCode.NONE,
                    protocol_type=self.protocol_type,
                    protocol_name=self.protocol,
                    assignment=member.assignment,
                )
                reply(answer)
        if all(member.has_synced for member in self.members.values()):
            self._cancel_timer()

    def _expire_pending_sync(self) -> None:
        for member in list(self.members.values()):
            if not member.has_synced:
                self._remove(member)
        self._rebalance()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Restart the member's session; REBALANCE_IN_PROGRESS if it has to rejoin."""
        error = self._member_error(member_id, instance_id, generation)
        if error == ErrorCode.NONE:
            self._restart_session(self.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if not error and self.state is State.PREPARING_REBALANCE else error

    def leave(self, leaving: Iterable[MemberIdentity]) -> list[ErrorCode]:
        """Remove members, static ones by their instance ids; returns an error for each."""
        errors = [self._leave(one) for one in leaving]
        if ErrorCode.NONE in errors:
            self._rebalance_after_removal()
        return errors

    def _leave(self, leaving: MemberIdentity) -> ErrorCode:
        if leaving.member_id in self._pending:
            self._pending.pop(leaving.member_id)()
            return ErrorCode.NONE
        known = self.members.static(leaving.group_instance_id)
        member_id = known.id if known is not None and not leaving.member_id else leaving.member_id
        error = self.members.member_error(member_id, leaving.group_instance_id)
        if error == ErrorCode.NONE:
            self._remove(self.members[member_id])
        return error

    # --- members

    def _member_error(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error = self.members.member_error(member_id, instance_id)
        return error or (ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION)

    def commit_error(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """The error if this member may not commit, else NONE."""
        if generation < 0 and self.state is State.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self._member_error(member_id, instance_id, generation)
        else:
            error = ErrorCode.NONE if transactional or self.state is State.EMPTY else ErrorCode.UNKNOWN_MEMBER_ID
        if error == ErrorCode.NONE and not transactional and self.state is State.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def _restart_session(self, member: Member) -> None:
        """Restart a member's session timeout."""
        member.cancel_session()
        member.cancel_session = self._host.later(member.session_timeout_s, partial(self._expire, member))

    def _expire(self, member: Member) -> None:
        if not member.is_waiting:
            self._remove(member)
            self._rebalance_after_removal()

    def _remove(self, member: Member) -> None:
        member.fail(ErrorCode.UNKNOWN_MEMBER_ID)
        member.cancel_session()
        del self.members[member.id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")

    def _rebalance_after_removal(self) -> None:
        """Rebalance after a member was removed."""
        if self.state is not State.EMPTY:
            self._rebalance()

    # --- change of the coordinator

    def _save(self) -> None:
        members = tuple(replace(one, joining=None, syncing=None, has_synced=True) for one in self.members.values())
        self._saved = Saved(self.generation, self.protocol, self.leader, members)

    def reload(self) -> None:
        """Become what another coordinator loads: the last generation; waiting requests fail with NOT_COORDINATOR."""
        self._cancel_timer()
        for cancel in self._pending.values():
            cancel()
        self._pending.clear()
        for member in self.members.values():
            member.cancel_session()
            member.fail(ErrorCode.NOT_COORDINATOR)
        saved = self._saved
        self.generation, self.protocol, self.leader = saved.generation, saved.protocol, saved.leader
        self.members = Members({one.id: replace(one) for one in saved.members})
        self.state = State.STABLE if self.members else State.EMPTY
        for member in self.members.values():
            self._restart_session(member)
