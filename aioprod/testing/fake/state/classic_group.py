"""A consumer group of the classic protocol, whose leader divides the partitions (Kafka's `ClassicGroup`)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from aioprod.errors import ErrorCode
from aioprod.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse
from aioprod.messages.join_group import JoinGroupResponseMember
from aioprod.messages.leave_group import MemberIdentity
from aioprod.testing.fake.state.classic_members import Member, Members, Reply, Terms, refusal_to_join, timeouts_s
from aioprod.testing.fake.state.group_host import GroupHost
from aioprod.testing.fake.state.timers import CallOff

__all__ = ["ClassicGroup", "State"]


class State(enum.Enum):
    """Where a group stands: nobody is in it; members are awaited; their leader is to divide; all is divided."""

    EMPTY = enum.auto()
    PREPARING = enum.auto()
    COMPLETING = enum.auto()
    STABLE = enum.auto()


@dataclass(frozen=True)
class Saved:
    """What outlives a coordinator: the last generation that was divided."""

    generation: int = 0
    protocol: str | None = None
    leader: str = ""
    members: tuple[Member, ...] = ()


class ClassicGroup:
    """Members, and how they come to a generation that all agree on. Answers that have to wait go to a `reply`."""

    def __init__(self, host: GroupHost) -> None:
        self.state = State.EMPTY
        self.generation = 0
        self.leader = ""
        self.protocol: str | None = None
        self.members = Members()
        self._protocol_type = ""
        self._host = host
        self._expected: dict[str, CallOff] = {}
        self._is_first = False
        self._has_grown = False
        self._saved = Saved()
        self._call_off: CallOff = lambda: None

    # -- JoinGroup ---------------------------------------------------------------------------------------------------

    def join(self, request: JoinGroupRequest, terms: Terms, reply: Reply[JoinGroupResponse]) -> None:
        """Become a member, or join anew."""
        error = self._why_not_join(request)
        if error != ErrorCode.NONE:
            reply(refusal_to_join(error, request.member_id))
        elif not request.member_id:
            self._join_first(request, terms, reply)
        elif request.member_id in self._expected:
            self._expected.pop(request.member_id)()
            self._add(request.member_id, request, reply)
        else:
            self._join_again(self.members[request.member_id], request, reply)

    def _why_not_join(self, request: JoinGroupRequest) -> ErrorCode:
        is_known = request.member_id in self.members
        size_max = self._host.settings.size_max
        if size_max is not None and not is_known and len(self.members) >= size_max:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        is_suitable = bool(request.protocol_type and request.protocols)
        if self.members:
            is_suitable = request.protocol_type == self._protocol_type and self.members.supports(request.protocols)
        if not is_suitable:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.member_id and request.member_id not in self._expected:
            return self.members.stranger(request.member_id, request.group_instance_id)
        return ErrorCode.NONE

    def _join_first(self, request: JoinGroupRequest, terms: Terms, reply: Reply[JoinGroupResponse]) -> None:
        instance_id = request.group_instance_id
        member_id = self._host.new_member_id(terms.client_id if instance_id is None else instance_id)
        known = self.members.static(instance_id)
        if known is not None:
            self._replace(known, member_id, request, terms, reply)
        elif instance_id is None and terms.requires_id:
            forget = partial(self._forget, member_id)
            self._expected[member_id] = self._host.later(request.session_timeout_ms / 1000, forget)
            reply(refusal_to_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(member_id, request, reply)

    def _forget(self, member_id: str) -> None:
        """Who was told its id has not come back."""
        del self._expected[member_id]
        self._go_on()

    def _add(self, member_id: str, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        session_s, rebalance_s = timeouts_s(request)
        member = Member(member_id, request.group_instance_id, session_s, rebalance_s, request.protocols, joining=reply)
        if not self.members:
            self._protocol_type, self.leader = request.protocol_type, member_id
        self.members[member_id] = member
        self._has_grown = True
        self._rebalance()

    def _join_again(self, member: Member, request: JoinGroupRequest, reply: Reply[JoinGroupResponse]) -> None:
        is_same = member.protocols == request.protocols
        is_leader = member.id == self.leader
        if (self.state is State.COMPLETING and is_same) or (self.state is State.STABLE and is_same and not is_leader):
            reply(self._joined(member))
        else:
            member.update(request, reply)
            self._rebalance()

    def _replace(
        self, old: Member, member_id: str, request: JoinGroupRequest, terms: Terms, reply: Reply[JoinGroupResponse]
    ) -> None:
        """A static member has started anew (KIP-345): it gets what it had."""
        old.refuse(ErrorCode.FENCED_INSTANCE_ID)
        old.call_off()
        leader_before = self.leader
        if self.leader == old.id:
            self.leader = member_id
        member = replace(old, id=member_id, joining=None, syncing=None)
        member.update(request, reply)
        self.members.replace(old, member)
        self._renew(member)
        if self.state is not State.STABLE or self.members.choice != self.protocol:
            self._rebalance()
            return
        member.joining = None
        self._save()
        answer = self._joined(member)
        is_leader = self.leader == member_id
        if is_leader and not terms.may_skip:
            # It would divide anew what nobody else is going to ask for: it is told that another one leads.
            answer = replace(answer, leader=leader_before, members=())
        reply(replace(answer, skip_assignment=is_leader and terms.may_skip))

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
            protocol_type=self._protocol_type,
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=member.id,
            members=tuple(rows) if member.id == self.leader else (),
        )

    # -- from one generation to the next -----------------------------------------------------------------------------

    def _rebalance(self) -> None:
        """Begin a rebalance, or end the one that runs if all are there."""
        if self.state is State.PREPARING:
            self._complete_if_all_joined()
            return
        if self.state is State.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    member.refuse(ErrorCode.REBALANCE_IN_PROGRESS)
                    self._renew(member)
        self._call_off()
        self._is_first = self.state is State.EMPTY
        self.state = State.PREPARING
        if self._is_first:
            self._gather(self.members.rebalance_timeout_s)
        else:
            self._call_off = self._host.later(self.members.rebalance_timeout_s, self._complete)
            self._complete_if_all_joined()

    def _gather(self, left_s: float) -> None:
        """Wait for more members of a new group, as long as they keep coming (`group.initial.rebalance.delay.ms`)."""
        delay_s = min(self._host.settings.initial_delay_s, left_s)
        self._has_grown = False
        self._call_off = self._host.later(delay_s, partial(self._gathered, left_s - delay_s))

    def _gathered(self, left_s: float) -> None:
        if self._has_grown and left_s > 0.0:
            self._gather(left_s)
        else:
            self._complete()

    def _complete_if_all_joined(self) -> None:
        have_joined = all(one.joining is not None for one in self.members.values())
        if have_joined and not self._expected and not self._is_first:
            self._complete()

    def _complete(self) -> None:
        """Begin a generation with those who have joined; static members stay in it without."""
        self._call_off()
        for member in list(self.members.values()):
            if member.joining is None and member.instance_id is None:
                self._remove(member)
        joined = [one for one in self.members.values() if one.joining is not None]
        if self.members and not joined:
            self._call_off = self._host.later(self.members.rebalance_timeout_s, self._complete)
            return
        self.generation += 1
        if not self.members:
            self.state, self.protocol, self.leader = State.EMPTY, None, ""
            self._save()
            return
        if self.members[self.leader].joining is None:
            self.leader = joined[0].id
        self.state, self.protocol = State.COMPLETING, self.members.choice
        self._call_off = self._host.later(self.members.rebalance_timeout_s, self._drop_those_without_sync)
        for member in self.members.values():
            member.has_synced = False
            self._renew(member)
            reply, member.joining = member.joining, None
            if reply is not None:
                reply(self._joined(member))

    # -- SyncGroup, Heartbeat, LeaveGroup ----------------------------------------------------------------------------

    def sync(self, request: SyncGroupRequest, reply: Reply[SyncGroupResponse]) -> None:
        """Learn one's own assignment; the leader brings those of all."""
        error = self._refusal(request.member_id, request.group_instance_id, request.generation_id)
        told = (request.protocol_type, self._protocol_type), (request.protocol_name, self.protocol)
        if error == ErrorCode.NONE and any(theirs not in (None, ours) for theirs, ours in told):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if error == ErrorCode.NONE and self.state is State.PREPARING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error != ErrorCode.NONE:
            reply(SyncGroupResponse(error_code=error, assignment=b""))
            return
        member = self.members[request.member_id]
        member.has_synced, member.syncing = True, reply
        if self.state is State.COMPLETING and member.id == self.leader:
            given = {one.member_id: one.assignment for one in request.assignments}
            for one in self.members.values():
                one.assignment = given.get(one.id, b"")
            self.state = State.STABLE
            self._save()
        if self.state is State.STABLE:
            self._hand_out()

    def _hand_out(self) -> None:
        for member in self.members.values():
            reply, member.syncing = member.syncing, None
            if reply is not None:
                self._renew(member)
                answer = SyncGroupResponse(
                    error_code=ErrorCode.NONE,
                    protocol_type=self._protocol_type,
                    protocol_name=self.protocol,
                    assignment=member.assignment,
                )
                reply(answer)
        if all(member.has_synced for member in self.members.values()):
            self._call_off()

    def _drop_those_without_sync(self) -> None:
        for member in list(self.members.values()):
            if not member.has_synced:
                self._remove(member)
        self._rebalance()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Whether the generation goes on."""
        error = self._refusal(member_id, instance_id, generation)
        if error == ErrorCode.NONE:
            self._renew(self.members[member_id])
        return ErrorCode.REBALANCE_IN_PROGRESS if not error and self.state is State.PREPARING else error

    def leave(self, leaving: Iterable[MemberIdentity]) -> list[ErrorCode]:
        """Let members go, static ones by their instance ids; what becomes of each."""
        errors = [self._leave(one) for one in leaving]
        if ErrorCode.NONE in errors:
            self._go_on()
        return errors

    def _leave(self, leaving: MemberIdentity) -> ErrorCode:
        if leaving.member_id in self._expected:
            self._expected.pop(leaving.member_id)()
            return ErrorCode.NONE
        known = self.members.static(leaving.group_instance_id)
        member_id = known.id if known is not None and not leaving.member_id else leaving.member_id
        error = self.members.stranger(member_id, leaving.group_instance_id)
        if error == ErrorCode.NONE:
            self._remove(self.members[member_id])
        return error

    # -- members -----------------------------------------------------------------------------------------------------

    def _refusal(self, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        error = self.members.stranger(member_id, instance_id)
        return error or (ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION)

    def refusal_to_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """Why this member may not commit, NONE if it may."""
        if generation < 0 and self.state is State.EMPTY:
            return ErrorCode.NONE
        if generation >= 0 or member_id or instance_id is not None:
            error = self._refusal(member_id, instance_id, generation)
        else:
            error = ErrorCode.NONE if transactional or self.state is State.EMPTY else ErrorCode.UNKNOWN_MEMBER_ID
        if error == ErrorCode.NONE and not transactional and self.state is State.COMPLETING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def _renew(self, member: Member) -> None:
        """Let its session begin anew."""
        member.call_off()
        member.call_off = self._host.later(member.session_timeout_s, partial(self._expire, member))

    def _expire(self, member: Member) -> None:
        if not member.is_waiting:
            self._remove(member)
            self._go_on()

    def _remove(self, member: Member) -> None:
        member.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        member.call_off()
        del self.members[member.id]
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")

    def _go_on(self) -> None:
        """Somebody has gone who was in the way, or had partitions."""
        if self.state is not State.EMPTY:
            self._rebalance()

    # -- another broker takes over -----------------------------------------------------------------------------------

    def _save(self) -> None:
        members = tuple(replace(one, joining=None, syncing=None, has_synced=True) for one in self.members.values())
        self._saved = Saved(self.generation, self.protocol, self.leader, members)

    def unload(self) -> None:
        """Be what another broker knows of it: all that was divided, nothing of who waits."""
        self._call_off()
        for call_off in self._expected.values():
            call_off()
        self._expected.clear()
        for member in self.members.values():
            member.call_off()
            member.refuse(ErrorCode.NOT_COORDINATOR)
        saved = self._saved
        self.generation, self.protocol, self.leader = saved.generation, saved.protocol, saved.leader
        self.members = Members({one.id: replace(one) for one in saved.members})
        self.state = State.STABLE if self.members else State.EMPTY
        for member in self.members.values():
            self._renew(member)
