"""The classic group protocol as a state machine: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, eager and cooperative.

1. JoinGroup carries the subscription; the first answer to a new member only gives it its id (KIP-394).
2. The coordinator answers when all members have joined: the generation, the assignor, and the leader.
3. The leader assigns the partitions and sends them with SyncGroup; each member's answer holds its own.
4. Heartbeats carry the generation. REBALANCE_IN_PROGRESS in an answer means: start again with 1, as the same member.
5. Eager members revoke all partitions before 1. Cooperative ones (KIP-429) keep them, revoke after 3 those that they
   lose, and then rejoin, so that the next generation can assign them.
6. A member that does not poll for max.poll.interval.ms, or closes, sends LeaveGroup; a static one (KIP-345) does not.

`states.py` explains the states. One difference from Java's consumer: Java keeps partitions while it rejoins only if all
of its assignors are cooperative; here it is enough that the assignor that the group chose last is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, ErrorCode, ProtocolError
from aioprod.group.assignors import Assignor
from aioprod.group.classic.leader import Leader, is_cooperative
from aioprod.group.classic.requests import PROTOCOL_TYPE, heartbeat_request, join_request, leave_request, sync_request
from aioprod.group.classic.states import TRANSITIONS, Event, Meaning, State, Subject, meaning_of
from aioprod.group.config import MemberConfig
from aioprod.group.errors import is_retriable, log_retry, member_error
from aioprod.group.member_log import MemberLog
from aioprod.group.membership import Assign, Failed, LeftGroup, Revoke, SendRequest, Step, Wait
from aioprod.group.subscription_codec import decode_assignment
from aioprod.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = ["ClassicMembership"]

_JOIN_GRACE_S: Final = 5.0
"""The time that the response to JoinGroup may take beyond the rebalance timeout, as in Java."""

_JOINS_AT_ONCE: Final = 5
"""After so many JoinGroup requests without a heartbeat between them the next one waits for a backoff."""

_NO_HEARTBEATS: Final = frozenset({State.JOINING, State.COMPLETING_REBALANCE, State.LEAVING, State.LEFT})
"""States without heartbeats: the coordinator takes a member with a pending JoinGroup or SyncGroup for alive."""

_REVOKING_STATES: Final = frozenset(
    {State.PREPARING_REBALANCE, State.REVOKING_ALL, State.REVOKING, State.PREPARING_TO_LEAVE}
)
_LEAVING_STATES: Final = frozenset({State.PREPARING_TO_LEAVE, State.LEAVING, State.LEFT})
_REBALANCING: Final = frozenset({State.JOINING, State.ASSIGNING, State.COMPLETING_REBALANCE})
_TAKES_PART: Final = _REBALANCING | {State.REVOKING_ALL}


class ClassicMembership:
    """One member of a classic group; a `Membership`, so its times are monotonic seconds.

    `assignors` are in order of preference. `backoff(failures)` is the wait in seconds before the next try.
    """

    def __init__(
        self,
        group_id: str,
        topics: frozenset[str],
        assignors: Sequence[Assignor],
        config: MemberConfig,
        backoff: Callable[[int], float],
        now: float,
    ) -> None:
        self.state = State.PREPARING_REBALANCE
        self.owned: frozenset[TopicPartition] = frozenset()
        self._group_id = group_id
        self._topics = topics
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._config = config
        self._log = MemberLog(group_id, config.client_id)
        self._backoff = backoff
        self._member_id = ""
        self._generation = -1
        self._assignor: Assignor = assignors[0]
        self._request: SendRequest | None = None
        self._revoking: tuple[TopicPartition, ...] = ()
        self._owned_at_join: frozenset[TopicPartition] = frozenset()
        self._assigned: tuple[TopicPartition, ...] | None = None
        self._assigned_generation = -1
        self._joined_topics: frozenset[str] = frozenset()
        self._retry_at = -math.inf
        self._failures = 0
        self._joins = 0
        self._leader: Leader | None = None
        self._counts_now: Mapping[str, int] = {}
        self._is_lost = False
        self._needs_rejoin = False
        self._is_leaving = False
        self._error: AioprodError | None = None
        self._heartbeat_at = math.inf
        self._heartbeat_sent_as = GroupMetadata(group_id)
        self._poll_deadline = now + config.max_poll_interval_ms / 1000

    def __repr__(self) -> str:
        return f"<ClassicMembership of {self._group_id!r}: {self.state.value}>"

    @property
    def metadata(self) -> GroupMetadata:
        """Current group id, generation, member id and instance id."""
        return GroupMetadata(self._group_id, self._generation, self._member_id, self._config.group_instance_id)

    @property
    def is_rebalancing(self) -> bool:
        """Whether it is rejoining and does not know its generation yet, so that it can't commit."""
        return self.state in _REBALANCING

    @property
    def is_stable(self) -> bool:
        """Whether it has its assignment and nothing is pending."""
        return self.state is State.STABLE

    @property
    def description(self) -> str:
        """The state, as a sentence about "it" without its stop."""
        return self.state.value

    # --- steps

    def step(self, now: float) -> Step:
        """The step to do now; states in which nothing has to be done are passed at once."""
        if self._is_leaving and self.state not in _LEAVING_STATES and not self._has_join_pending:
            self._move(Event.CLOSE)
        if self.state is State.STABLE and self._has_to_rejoin:
            self._move(Event.REJOIN)
        if self.state in _REVOKING_STATES:
            return self._revoke(now)
        if self.state is State.JOINING:
            return self._join_step(now)
        if self.state is State.COMPLETING_REBALANCE:
            return self._sync_step()
        if self.state is State.ASSIGNING and self._leader is not None:
            self._after_leading()
            return self._leader.step() if self.state is State.ASSIGNING else self.step(now)
        if self.state is State.ADDING_PARTITIONS:
            return Assign(tuple(tp for tp in self._assigned or () if tp not in self.owned))
        if self.state is State.LEAVING and not self._prepare_leave_group():
            self._move(Event.LEFT)
        if self.state is State.LEFT:
            return LeftGroup() if self._error is None else Failed(self._error)
        return self._request or Wait(math.inf)

    def _revoke(self, now: float) -> Step:
        self._revoking = self._partitions_to_revoke()
        # It joins between two polls only, and only while the application polls.
        if self._revoking or (self.state is State.PREPARING_REBALANCE and now < self._poll_deadline):
            return Revoke(self._revoking, self._is_lost)
        if self.state is State.PREPARING_REBALANCE:
            return Wait(math.inf)
        self._after_revocation()
        return self.step(now)

    def _partitions_to_revoke(self) -> tuple[TopicPartition, ...]:
        if self.state is State.REVOKING:
            kept = self.owned & frozenset(self._assigned or ())
        elif self.state is State.PREPARING_REBALANCE and not self._is_lost and is_cooperative(self._assignor):
            kept = frozenset(tp for tp in self.owned if tp.topic in self._topics)
        else:
            kept = frozenset()
        return tuple(sorted(self.owned - kept))

    def revoked(self, now: float) -> None:
        """The partitions of the last `Revoke` step are revoked."""
        self.owned -= frozenset(self._revoking)
        is_stale = self.state is State.PREPARING_REBALANCE and now >= self._poll_deadline
        if self.state in _REVOKING_STATES and not self._partitions_to_revoke() and not is_stale:
            self._after_revocation()

    def _after_revocation(self) -> None:
        self._is_lost = False
        self._move(Event.REVOKED)
        if self.state is State.JOINING:
            self._joined_topics = self._topics
            self._needs_rejoin = False
            self._failures = 0
            self._request = None

    def assigned(self, now: float) -> None:
        """The partitions of the last `Assign` step are being read."""
        self.owned |= frozenset(self._assigned or ())
        if self.state is State.ADDING_PARTITIONS:
            self._move(Event.PARTITIONS_ADDED)

    @property
    def _has_to_rejoin(self) -> bool:
        counts = {} if self._leader is None else self._leader.counts
        has_other_partitions = any(self._counts_now.get(topic, count) != count for topic, count in counts.items())
        return self._needs_rejoin or has_other_partitions or self._topics != self._joined_topics

    # --- JoinGroup and SyncGroup

    def _join_step(self, now: float) -> Step:
        if now < self._retry_at:
            return Wait(self._retry_at)
        if self._request is None:
            last = (self._assigned, self._assigned_generation)
            request = join_request(
                self.metadata, self._config, self._assignors.values(), self._joined_topics, self.owned, last
            )
            self._request = SendRequest(request, self._join_timeout_s)
        return self._request

    def _sync_step(self) -> Step:
        if self._request is None:
            assignment = {} if self._leader is None else self._leader.assignment
            request = sync_request(self.metadata, self._assignor.name, assignment)
            self._request = SendRequest(request, self._join_timeout_s)
        return self._request

    @property
    def _join_timeout_s(self) -> float:
        config = self._config
        return max(config.max_poll_interval_ms / 1000 + _JOIN_GRACE_S, config.request_timeout_ms / 1000)

    def response_received(self, response: Response, now: float) -> None:
        """Handle the response to JoinGroup, SyncGroup or LeaveGroup."""
        self._request = None
        if isinstance(response, JoinGroupResponse):
            self._join_response_received(response, now)
        elif isinstance(response, SyncGroupResponse):
            self._sync_response_received(response, now)
        else:
            self._move(Event.LEFT)

    def request_failed(self, error: AioprodError, now: float) -> None:
        """Rejoin: the coordinator accepts that whether or not it has handled the request that failed."""
        self._request = None
        if self.state is State.LEAVING:
            self._move(Event.LEFT)
        elif not is_retriable(error):
            self._fail(error)
        elif self.state is State.COMPLETING_REBALANCE:
            self._move(Event.REJOIN)
        else:
            self._retry_join_later(now)

    def _retry_join_later(self, now: float) -> None:
        self._retry_at = now + self._backoff(self._failures)
        self._failures += 1

    def _rejoin_later(self, now: float) -> None:
        """Wait before the next JoinGroup, the longer the more there were since the last heartbeat."""
        self._retry_at = now + self._backoff(self._joins)

    def _join_response_received(self, response: JoinGroupResponse, now: float) -> None:
        code = ErrorCode.of(response.error_code)
        meaning = self._meaning_of(Subject.JOIN, code)
        self._joins += 1
        if self._joins > _JOINS_AT_ONCE:
            # No coordinator has a member join again and again, without end.
            self._retry_at = now + self._backoff(self._joins - _JOINS_AT_ONCE - 1)
        if meaning is Meaning.MEMBER_ID_GIVEN:
            self._member_id = response.member_id
        elif meaning is Meaning.RETRY:
            self._retry_join_later(now)
        elif meaning is not Meaning.DONE:
            self._rejected(Subject.JOIN, code, meaning)
        elif response.generation_id < 0 or not response.member_id:
            self._retry_join_later(now)
        elif (
            response.protocol_type or PROTOCOL_TYPE
        ) != PROTOCOL_TYPE or response.protocol_name not in self._assignors:
            self._rejected(Subject.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Meaning.FATAL)
        else:
            self._member_id, self._generation = response.member_id, response.generation_id
            self._assignor = self._assignors[response.protocol_name]
            self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
            self._leader = None
            self._failures = 0
            self._owned_at_join = self.owned
            if response.leader == response.member_id:
                self._leader = Leader(self._log, self._assignor, response)
                self._move(Event.JOINED_AS_LEADER)
                self._after_leading()
            else:
                keeps_partitions = is_cooperative(self._assignor) or not self.owned
                self._move(Event.JOINED_AS_FOLLOWER if keeps_partitions else Event.JOINED_STILL_OWNING)

    def topics_described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """Assign these partitions to the members of the group."""
        assert self._leader is not None
        self._leader.topics_described(topics)
        self._after_leading()

    def _after_leading(self) -> None:
        leader = self._leader
        assert leader is not None
        if leader.error is not None:
            self._fail(leader.error)
        elif leader.is_done:
            self._move(Event.ASSIGNMENT_MADE)

    def _sync_response_received(self, response: SyncGroupResponse, now: float) -> None:
        code = ErrorCode.of(response.error_code)
        meaning = self._meaning_of(Subject.SYNC, code)
        if meaning is Meaning.REJOIN:
            if ErrorCode.is_unclear(code):
                self._rejoin_later(now)
            self._move(Event.REJOIN)
        elif meaning is not Meaning.DONE:
            self._rejected(Subject.SYNC, code, meaning)
        elif not self._is_of_this_protocol(response):
            self._rejected(Subject.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Meaning.FATAL)
        else:
            try:
                self._assigned = decode_assignment(response.assignment)
            except ProtocolError as error:
                # Any client that joins may be the leader, so it ends no member.
                self._log.warning("is assigned nothing: %s It joins again.", error.message)
                self._assigned, self._needs_rejoin = (), True
                self._rejoin_later(now)
            self._assigned_generation = self._generation
            # Partitions that this member loses can be assigned to others in the next generation only: rejoin for that.
            self._needs_rejoin |= bool(self._owned_at_join.difference(self._assigned))
            self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
            self._move(Event.ASSIGNMENT_RECEIVED)

    def _is_of_this_protocol(self, response: SyncGroupResponse) -> bool:
        """Whether the response is for the assignor of JoinGroup; before KIP-559 it does not name the assignor."""
        is_type = response.protocol_type in (None, PROTOCOL_TYPE)
        return is_type and response.protocol_name in (None, self._assignor.name)

    # --- heartbeats

    @property
    def heartbeat_at(self) -> float:
        """The time of the next heartbeat, or of the end of max.poll.interval.ms if that comes first."""
        if self._generation < 0 or self._error is not None or self.state in _NO_HEARTBEATS:
            return math.inf
        if self.state is State.PREPARING_TO_LEAVE:
            return self._heartbeat_at
        return min(self._heartbeat_at, self._poll_deadline)

    def heartbeat(self, now: float) -> Request[Any] | ByVersion[Any] | None:
        """Heartbeat, or LeaveGroup after max.poll.interval.ms without a poll; None for a static member then."""
        if now >= self._poll_deadline and self.state is not State.PREPARING_TO_LEAVE:
            request = leave_request(self.metadata, "max.poll.interval.ms has passed between two records.")
            self._lose_membership(keep_member_id=False)
            return request
        self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
        self._heartbeat_sent_as = self.metadata
        return heartbeat_request(self.metadata)

    def heartbeat_response_received(self, response: Response, now: float) -> None:
        """Handle the response to Heartbeat: nothing new, a rebalance, or this member is fenced."""
        if not isinstance(response, HeartbeatResponse) or self._heartbeat_sent_as != self.metadata:
            return
        code = ErrorCode.of(response.error_code)
        meaning = self._meaning_of(Subject.HEARTBEAT, code)
        if meaning is Meaning.DONE:
            self._joins = self._failures = 0
        if meaning is Meaning.REJOIN:
            # After JoinGroup the code is about the rebalance that the member takes part in already.
            self._needs_rejoin |= self.state not in _TAKES_PART
        elif meaning is Meaning.RETRY:
            self._retry_heartbeat_later(now)
        elif meaning is not Meaning.DONE:
            self._rejected(Subject.HEARTBEAT, code, meaning)

    def heartbeat_failed(self, error: AioprodError, now: float) -> None:
        """Send the heartbeat again after a short backoff: the session timeout is running."""
        if not is_retriable(error):
            self._fail(error)
        self._retry_heartbeat_later(now)

    def _retry_heartbeat_later(self, now: float) -> None:
        self._heartbeat_at = now + self._backoff(self._failures)
        self._failures += 1

    # --- events

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Change the subscription: the member rejoins."""
        self._topics = topics

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """Note the partition counts: the leader rejoins, for a new assignment, when they differ from those assigned."""
        # Counts that change while it assigns are compared when that is done.
        self._counts_now = dict(counts)

    def polled(self, now: float) -> None:
        """The application polled: restart the max.poll.interval.ms timer."""
        self._poll_deadline = now + self._config.max_poll_interval_ms / 1000

    def leave(self, now: float) -> None:
        """Revoke all partitions and leave. During a rebalance it leaves when that has ended, or at the second call."""
        if self._has_join_pending and not self._is_leaving:
            self._is_leaving = True
            return
        self._request = None
        self._move(Event.CLOSE)

    @property
    def _has_join_pending(self) -> bool:
        """Whether leaving has to wait for the rebalance.

        The coordinator may have given a new member an id that is not known here yet, and would wait for that member.
        A member that owns partitions can commit their offsets in the new generation only.
        """
        has_no_id = self.state is State.JOINING and self._request is not None and not self._member_id
        return has_no_id or (self.state in _REBALANCING and bool(self.owned))

    def _prepare_leave_group(self) -> bool:
        """Prepare LeaveGroup; False if no request is needed."""
        if self._request is None and (request := leave_request(self.metadata, "The member is closed.")) is not None:
            self._request = SendRequest(request, self._config.request_timeout_ms / 1000)
        return self._request is not None

    def _meaning_of(self, subject: Subject, code: ErrorCode | int) -> Meaning:
        if ErrorCode.is_unclear(code):
            log_retry(self._log, member_error(self._group_id, subject.value, code), self._failures)
        return meaning_of(subject, code)

    def _rejected(self, subject: Subject, code: ErrorCode | int, meaning: Meaning) -> None:
        if meaning is Meaning.FATAL:
            self._fail(member_error(self._group_id, subject.value, code))
        else:
            self._lose_membership(keep_member_id=meaning is Meaning.STALE_GENERATION)

    def _lose_membership(self, *, keep_member_id: bool) -> None:
        """Drop the generation: the partitions may have another owner already, so they are lost."""
        self._request = None
        self._generation = -1
        if not keep_member_id:
            self._member_id = ""
        self._leader = None
        self._is_lost = True
        self._move(Event.LOST)

    def _fail(self, error: AioprodError) -> None:
        if self.state in _LEAVING_STATES:
            return
        self._request = None
        self._error = error
        self._is_lost = True
        self._move(Event.FAILED)

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]
