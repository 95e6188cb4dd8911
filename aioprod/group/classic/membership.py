"""The classic group protocol as a state machine: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, eager and cooperative.

What Java's consumer does, but for one thing: Java keeps partitions while it joins anew only if all of its assignors are
cooperative, ours if the one that the group chose last is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, ErrorCode, ProtocolError, UsageError
from aioprod.group.assignors import Assignor, Subscription
from aioprod.group.classic.leader import divided, is_cooperative
from aioprod.group.classic.requests import PROTOCOL_TYPE, farewell, heartbeat_request, join_request, sync_request
from aioprod.group.classic.states import TRANSITIONS, Event, Meaning, State, Subject, meaning_of
from aioprod.group.errors import may_pass, member_refusal
from aioprod.group.membership import Ask, Describe, Failed, GiveUp, Left, Step, Take, Wait
from aioprod.group.settings import MemberConfig
from aioprod.group.subscription_codec import decode_assignment, decode_subscription
from aioprod.messages import HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = ["ClassicMembership"]

_JOIN_GRACE_S: Final = 5.0
"""How much longer than the others may take to join the answer may take, as in Java."""

_SILENT: Final = frozenset({State.JOINING, State.SYNCING, State.PARTING, State.LEFT})
"""Where no heartbeats are due: whoever waits for the answer to JoinGroup or SyncGroup is known to be alive."""

_GIVES_UP: Final = frozenset({State.PREPARING, State.YIELDING, State.REVOKING, State.QUITTING})
_GOES: Final = frozenset({State.QUITTING, State.PARTING, State.LEFT})
_UNSETTLED: Final = frozenset({State.JOINING, State.DIVIDING, State.SYNCING})
_HAS_JOINED: Final = _UNSETTLED | {State.YIELDING}


class ClassicMembership:
    """One member of a group; a `Membership`, whose times are monotonic seconds.

    `assignors` in order of preference. `backoff` is the wait in seconds after so many failures before the last one.
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
        self.state = State.PREPARING
        self.owned: frozenset[TopicPartition] = frozenset()
        self._group_id = group_id
        self._topics = topics
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._config = config
        self._backoff = backoff
        self._member_id = ""
        self._generation = -1
        self._chosen: Assignor = assignors[0]
        self._ask: Ask | None = None
        self._giving: tuple[TopicPartition, ...] = ()
        self._held: frozenset[TopicPartition] = frozenset()
        self._share: tuple[TopicPartition, ...] | None = None
        self._share_generation = -1
        self._joined_topics: frozenset[str] = frozenset()
        self._retry_at = -math.inf
        self._failures = 0
        # As the leader.
        self._members: dict[str, Subscription] = {}
        self._assignment: Mapping[str, Sequence[TopicPartition]] = {}
        self._skips_assignment = False
        self._counts: dict[str, int] | None = None
        self._told: Mapping[str, int] = {}
        self._is_lost = False
        self._rejoins = False
        self._leaves = False
        self._error: AioprodError | None = None
        self._heartbeat_at = math.inf
        self._beating_as = GroupMetadata(group_id)
        self._away_at = now + config.max_poll_interval_ms / 1000

    def __repr__(self) -> str:
        return f"<ClassicMembership of {self._group_id!r}: {self.state.value}>"

    @property
    def metadata(self) -> GroupMetadata:
        """Who it is now."""
        return GroupMetadata(self._group_id, self._generation, self._member_id, self._config.group_instance_id)

    @property
    def is_rebalancing(self) -> bool:
        """Whether it has joined anew and does not know its generation yet."""
        return self.state in _UNSETTLED

    @property
    def is_settled(self) -> bool:
        """Whether it reads its share."""
        return self.state is State.STABLE

    @property
    def standing(self) -> str:
        """Where it stands, in words."""
        return self.state.value

    # -- the main lane

    def step(self, now: float) -> Step:
        """What to do now; where there is nothing to do it goes on by itself."""
        if self._leaves and self.state not in _GOES and not self._is_awaited:
            self._move(Event.QUIT)
        if self.state is State.STABLE and self._has_to_join_anew:
            self._move(Event.REJOIN)
        if self.state in _GIVES_UP:
            return self._giving_up(now)
        if self.state is State.JOINING:
            return self._joining(now)
        if self.state is State.SYNCING:
            return self._syncing()
        if self.state is State.DIVIDING:
            return Describe(frozenset(topic for one in self._members.values() for topic in one.topics))
        if self.state is State.TAKING:
            return Take(tuple(tp for tp in self._share or () if tp not in self.owned))
        if self.state is State.PARTING and not self._parting():
            self._move(Event.GONE)
        if self.state is State.LEFT:
            return Left() if self._error is None else Failed(self._error)
        return self._ask or Wait(math.inf)

    def _giving_up(self, now: float) -> Step:
        self._giving = self._to_give_up()
        # It joins between two records only, and only while its user is at hand.
        if self._giving or (self.state is State.PREPARING and now < self._away_at):
            return GiveUp(self._giving, self._is_lost)
        if self.state is State.PREPARING:
            return Wait(math.inf)
        self._go_on()
        return self.step(now)

    def _to_give_up(self) -> tuple[TopicPartition, ...]:
        if self.state is State.REVOKING:
            share = frozenset(self._share or ())
            kept = self.owned & share
        elif self.state is State.PREPARING and not self._is_lost and is_cooperative(self._chosen):
            kept = frozenset(tp for tp in self.owned if tp.topic in self._topics)
        else:
            kept = frozenset()
        return tuple(sorted(self.owned - kept))

    def gave_up(self, now: float) -> None:
        """What was last asked to be given up is."""
        self.owned -= frozenset(self._giving)
        is_away = self.state is State.PREPARING and now >= self._away_at
        if self.state in _GIVES_UP and not self._to_give_up() and not is_away:
            self._go_on()

    def _go_on(self) -> None:
        self._is_lost = False
        self._move(Event.GAVE_UP)
        if self.state is State.JOINING:
            self._joined_topics = self._topics
            self._rejoins = False
            self._failures = 0
            self._retry_at = -math.inf
            self._ask = None

    def took(self, now: float) -> None:
        """What is new is read from now on."""
        self.owned |= frozenset(self._share or ())
        if self.state is State.TAKING:
            self._move(Event.TOOK)

    @property
    def _has_to_join_anew(self) -> bool:
        counts = self._counts or {}
        has_other_partitions = any(self._told.get(topic, count) != count for topic, count in counts.items())
        return self._rejoins or has_other_partitions or self._topics != self._joined_topics

    # -- joining

    def _joining(self, now: float) -> Step:
        if now < self._retry_at:
            return Wait(self._retry_at)
        if self._ask is None:
            last = (self._share, self._share_generation)
            request = join_request(
                self.metadata, self._config, self._assignors.values(), self._joined_topics, self.owned, last
            )
            self._ask = Ask(request, self._join_timeout_s)
        return self._ask

    def _syncing(self) -> Step:
        if self._ask is None:
            request = sync_request(self.metadata, self._chosen.name, self._assignment)
            self._ask = Ask(request, self._join_timeout_s)
        return self._ask

    @property
    def _join_timeout_s(self) -> float:
        config = self._config
        return max(config.max_poll_interval_ms / 1000 + _JOIN_GRACE_S, config.request_timeout_ms / 1000)

    def answered(self, response: Response, now: float) -> None:
        """The answer to JoinGroup, SyncGroup or LeaveGroup."""
        self._ask = None
        if isinstance(response, JoinGroupResponse):
            self._join_answered(response, now)
        elif isinstance(response, SyncGroupResponse):
            self._sync_answered(response, now)
        else:
            self._move(Event.GONE)

    def unanswered(self, error: AioprodError, now: float) -> None:
        """Nobody knows what came of it: it joins anew, which the coordinator understands in any case."""
        self._ask = None
        if self.state is State.PARTING:
            self._move(Event.GONE)
        elif not may_pass(error):
            self._break(error)
        elif self.state is State.SYNCING:
            self._move(Event.REJOIN)
        else:
            self._join_later(now)

    def _join_later(self, now: float) -> None:
        self._retry_at = now + self._backoff(self._failures)
        self._failures += 1

    def _join_answered(self, answer: JoinGroupResponse, now: float) -> None:
        code = ErrorCode.of(answer.error_code)
        meaning = meaning_of(Subject.JOIN, code)
        if meaning is Meaning.NAMED:
            self._member_id = answer.member_id
        elif meaning is Meaning.AGAIN:
            self._join_later(now)
        elif meaning is not Meaning.DONE:
            self._refused(Subject.JOIN, code, meaning)
        elif (answer.protocol_type or PROTOCOL_TYPE) != PROTOCOL_TYPE or answer.protocol_name not in self._assignors:
            self._refused(Subject.JOIN, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Meaning.FATAL)
        else:
            self._member_id, self._generation = answer.member_id, answer.generation_id
            self._chosen = self._assignors[answer.protocol_name]
            self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
            self._counts = None
            self._assignment = {}
            self._held = self.owned
            if answer.leader == answer.member_id:
                self._lead(answer)
            else:
                self._move(Event.FOLLOWS if is_cooperative(self._chosen) or not self.owned else Event.YIELDS)

    def _lead(self, answer: JoinGroupResponse) -> None:
        try:
            self._members = {
                one.member_id: decode_subscription(one.metadata, one.group_instance_id) for one in answer.members
            }
        except ProtocolError as error:
            self._break(error)
            return
        self._skips_assignment = answer.skip_assignment
        self._move(Event.LEADS)

    def described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """Divide these partitions among the members, and remember how many there were."""
        members, self._members = self._members, {}
        try:
            assignment = {} if self._skips_assignment else divided(self._chosen, members, topics)
        except AioprodError as error:
            self._break(error)
            return
        except Exception as error:
            failure = UsageError(f"Assignor {self._chosen.name!r} failed: {error!r}.")
            failure.__cause__ = error
            self._break(failure)
            return
        wanted = {topic for one in members.values() for topic in one.topics}
        self._counts = {topic: len(topics.get(topic, ())) for topic in wanted}
        self._assignment = assignment
        self._move(Event.DIVIDED)

    def _sync_answered(self, answer: SyncGroupResponse, now: float) -> None:
        code = ErrorCode.of(answer.error_code)
        meaning = meaning_of(Subject.SYNC, code)
        if meaning is Meaning.REJOIN:
            self._move(Event.REJOIN)
        elif meaning is not Meaning.DONE:
            self._refused(Subject.SYNC, code, meaning)
        elif answer.protocol_type not in (None, PROTOCOL_TYPE) or answer.protocol_name not in (None, self._chosen.name):
            self._refused(Subject.SYNC, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Meaning.FATAL)
        else:
            try:
                self._share = decode_assignment(answer.assignment)
            except ProtocolError as error:
                self._break(error)
                return
            self._share_generation = self._generation
            # What was held and is not in the share may be another one's as soon as it is free: join for that again.
            self._rejoins |= bool(self._held.difference(self._share))
            self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
            self._move(Event.SHARED)

    # -- the lane of heartbeats

    @property
    def heartbeat_at(self) -> float:
        """When the next heartbeat is due, or when the user has been away for too long."""
        if self._generation < 0 or self._error is not None or self.state in _SILENT:
            return math.inf
        return self._heartbeat_at if self.state is State.QUITTING else min(self._heartbeat_at, self._away_at)

    def heartbeat(self, now: float) -> Request[Any] | ByVersion[Any] | None:
        """A heartbeat, or good-bye if the user has been away for too long; a static member goes without a word."""
        if now >= self._away_at and self.state is not State.QUITTING:
            said = farewell(self.metadata, "max.poll.interval.ms has passed between two records.")
            self._lose(keeps_id=False)
            return said
        self._heartbeat_at = now + self._config.heartbeat_interval_ms / 1000
        self._beating_as = self.metadata
        return heartbeat_request(self.metadata)

    def heartbeat_answered(self, response: Response, now: float) -> None:
        """Nothing new, or the group divides its partitions anew, or it has gone on without this member."""
        if not isinstance(response, HeartbeatResponse) or self._beating_as != self.metadata:
            return
        code = ErrorCode.of(response.error_code)
        meaning = meaning_of(Subject.HEARTBEAT, code)
        if meaning is Meaning.REJOIN:
            # While it joins it is told of a rebalance that it takes part in.
            self._rejoins |= self.state not in _HAS_JOINED
        elif meaning is Meaning.AGAIN:
            self._heartbeat_at = now + self._backoff(0)
        elif meaning is not Meaning.DONE:
            self._refused(Subject.HEARTBEAT, code, meaning)

    def heartbeat_unanswered(self, error: AioprodError, now: float) -> None:
        """Asked again soon, for the time of the session is running."""
        if not may_pass(error):
            self._break(error)
        self._heartbeat_at = now + self._backoff(0)

    # -- what else happens

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Read these topics from now on: it joins anew."""
        self._topics = topics

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """The leader has the partitions divided anew when there are more, or a topic has come or gone."""
        # What it is told while it divides counts as well, once it is done.
        self._told = dict(counts)

    def polled(self, now: float) -> None:
        """The user is at hand."""
        self._away_at = now + self._config.max_poll_interval_ms / 1000

    def leave(self, now: float) -> None:
        """Give up all and go; while the coordinator counts on it only after that, or when it is told again."""
        if self._is_awaited and not self._leaves:
            self._leaves = True
            return
        self._ask = None
        self._move(Event.QUIT)

    @property
    def _is_awaited(self) -> bool:
        """Whether the coordinator may have counted it in already: it would wait for one whose id it has just made up,
        and takes commits of the new generation only."""
        is_unnamed = self.state is State.JOINING and self._ask is not None and not self._member_id
        return is_unnamed or (self.state in _UNSETTLED and bool(self.owned))

    def _parting(self) -> bool:
        """Whether there is somebody to tell."""
        if self._ask is None and (request := farewell(self.metadata, "The member is closed.")) is not None:
            self._ask = Ask(request, self._config.request_timeout_ms / 1000)
        return self._ask is not None

    def _refused(self, subject: Subject, code: ErrorCode | int, meaning: Meaning) -> None:
        if meaning is Meaning.FATAL:
            self._break(member_refusal(self._group_id, subject.value, code))
        else:
            self._lose(keeps_id=meaning is Meaning.EXPIRED)

    def _lose(self, *, keeps_id: bool) -> None:
        """It is no member any more: what it has may be another one's already."""
        self._ask = None
        self._generation = -1
        if not keeps_id:
            self._member_id = ""
        self._counts = None
        self._is_lost = True
        self._move(Event.LOST)

    def _break(self, error: AioprodError) -> None:
        if self.state in _GOES:
            return
        self._ask = None
        self._error = error
        self._is_lost = True
        self._move(Event.BROKEN)

    def _move(self, event: Event) -> None:
        self.state = TRANSITIONS[self.state, event]
