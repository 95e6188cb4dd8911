"""The brokers' own group protocol (KIP-848) as a state machine: one request, ConsumerGroupHeartbeat, does it all.

The coordinator says in an answer what the member shall hold; the member gives up what is not among it, takes what is
new to it, and says in the next heartbeat what it holds. A partition goes to its next owner once the last one has said
so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, ErrorCode, UnsupportedVersionError
from aioprod.group.errors import may_pass, member_refusal
from aioprod.group.kip848.states import TRANSITIONS, Event, Meaning, State, meaning_of
from aioprod.group.membership import Ask, Describe, Failed, GiveUp, Left, Step, Take, Wait
from aioprod.group.settings import MemberConfig
from aioprod.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from aioprod.messages.consumer_group_heartbeat import TopicPartitions
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Response

__all__ = ["ConsumerMembership"]

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
"""Epochs of requests; the last is a static member's, which keeps its partitions for it (KIP-345)."""

_FIRST_WITH_OWN_ID: Final = 1
"""Version of the request: the member makes up its own id (KIP-1082)."""

_INTERVAL_MIN_S: Final = 0.001
"""However soon the coordinator wants the next heartbeat."""

_WHERE_OFFERED: Final = (
    "Use group.protocol=classic, or brokers from 4.0 on whose group.coordinator.rebalance.protocols has consumer in it."
)


class _Told(NamedTuple):
    """What a heartbeat says of the member."""

    epoch: int
    topics: frozenset[str] = frozenset()
    owned: frozenset[tuple[TopicPartition, UUID]] = frozenset()


class ConsumerMembership:
    """One member of a group; a `Membership`, whose times are monotonic seconds.

    `member_id` is a name that nobody else has. `topic_id` knows the ids of topics, None where it does not; `backoff` is
    the wait in seconds after so many failures before the last one.
    """

    def __init__(
        self,
        group_id: str,
        topics: frozenset[str],
        member_id: str,
        config: MemberConfig,
        topic_id: Callable[[str], UUID | None],
        backoff: Callable[[int], float],
        now: float,
    ) -> None:
        self.state = State.JOINING
        self._group_id = group_id
        self._topics = topics
        self._member_id = member_id
        self._config = config
        self._words = ByVersion(ConsumerGroupHeartbeatRequest, self._build)
        self._topic_id = topic_id
        self._backoff = backoff
        self._epoch = JOINS
        self._is_named = False
        self._error: AioprodError | None = None
        # What it holds and what it shall hold, by the ids of topics: a name may stand for another topic later.
        self._owned: dict[TopicPartition, UUID] = {}
        self._target: frozenset[tuple[UUID, int]] | None = None
        self._names: dict[UUID, str] = {}
        self._is_called = False
        self._giving: tuple[TopicPartition, ...] = ()
        self._taking: dict[TopicPartition, UUID] = {}
        # Heartbeats: `_sent` has no answer yet, `_told` is what the coordinator knows for sure.
        self._sent: _Told | None = None
        self._told: _Told | None = None
        self._may_be_known = False
        self._may_hold_its_name = self._releases_it = False
        self._beat_at = now
        self._over_at = math.inf
        self._away_at = now + config.max_poll_interval_ms / 1000
        self._failures = 0
        self._describe_at = now
        self._descriptions = 0

    def __repr__(self) -> str:
        return f"<ConsumerMembership of {self._group_id!r}: {self.state.value}>"

    @property
    def metadata(self) -> GroupMetadata:
        """Who it is now; its epoch is what offsets are committed with."""
        instance_id = self._config.group_instance_id
        if self._epoch <= JOINS:
            return GroupMetadata(self._group_id, group_instance_id=instance_id)
        return GroupMetadata(self._group_id, self._epoch, self._member_id, instance_id)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What was taken and not given up."""
        return frozenset(self._owned)

    @property
    def is_rebalancing(self) -> bool:
        """Never while it is a member: offsets can be committed with its epoch whatever it gives up and takes."""
        return self.state is State.JOINING

    @property
    def is_settled(self) -> bool:
        """Whether it holds what it shall."""
        held = frozenset((topic_id, tp.partition) for tp, topic_id in self._owned.items())
        return self.state is State.MEMBER and self._target == held

    @property
    def standing(self) -> str:
        """Where it stands, in words."""
        return "it reads its share" if self.is_settled else self.state.value

    # -- the main lane

    def step(self, now: float) -> Step:
        """What to do now: give up and take until it holds what it shall; joining is left to the other lane."""
        if self.state is State.MEMBER:
            if now < self._over_at:
                return self._reconcile(now)
            self._lose(now)
        if self.state in (State.LOST, State.AWAY, State.QUITTING):
            self._giving = tuple(sorted(self._owned))
            # Who was away is told, and joins again, when it is back.
            if self._giving or (self.state is State.AWAY and now < self._away_at):
                return GiveUp(self._giving, is_lost=self._epoch <= JOINS)
            if self.state is State.AWAY:
                return Wait(math.inf)
            self._move(Event.GAVE_UP, now)
        if self.state is State.PARTING:
            if self._may_be_known:
                return Ask(self._words, self._config.request_timeout_ms / 1000)
            self._move(Event.GONE, now)
        if self.state is State.LEFT:
            return Left() if self._error is None else Failed(self._error)
        return Wait(math.inf)

    def _reconcile(self, now: float) -> Step:
        if self._target is None:
            return Wait(self._over_at)
        held = set(self._owned.items())
        self._giving = tuple(sorted(tp for tp, topic_id in held if (topic_id, tp.partition) not in self._target))
        if self._giving:
            return GiveUp(self._giving)
        named = [(self._names.get(topic_id), topic_id, partition) for topic_id, partition in self._target]
        shall = {TopicPartition(name, partition): topic_id for name, topic_id, partition in named if name is not None}
        is_nameless = len(shall) < len(named)
        if is_nameless and now >= self._describe_at:
            return Describe(self._topics)
        self._taking = {tp: topic_id for tp, topic_id in sorted(shall.items()) if tp not in self._owned}
        if self._taking or not self._is_called:
            return Take(tuple(self._taking))
        return Wait(min(self._over_at, self._describe_at) if is_nameless else self._over_at)

    def answered(self, response: Response, now: float) -> None:
        """It has left."""
        self._gone(now)

    def unanswered(self, error: AioprodError, now: float) -> None:
        """It goes all the same; the coordinator hears by the end of its session."""
        self._gone(now)

    def _gone(self, now: float) -> None:
        if self.state is State.PARTING:
            self._forget()
            self._move(Event.GONE, now)

    def described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """Topics have ids now that it may have been given partitions of; what is still nameless is left for later."""
        self._learn()
        self._describe_at = now + self._backoff(self._descriptions)
        self._descriptions += 1

    def _learn(self) -> None:
        """Take note of the ids that topics have now."""
        for name in self._topics:
            topic_id = self._topic_id(name)
            if topic_id is not None:
                self._names[topic_id] = name

    def gave_up(self, now: float) -> None:
        """The coordinator is told at once, so that the next owner can begin."""
        for tp in self._giving:
            self._owned.pop(tp, None)
        self._giving = ()
        if self.state in (State.LOST, State.AWAY, State.QUITTING):
            if not self._owned:
                self._move(Event.GAVE_UP, now)
        else:
            self._beat_at = now

    def took(self, now: float) -> None:
        """The coordinator is told at once."""
        self._owned.update(self._taking)
        self._taking, self._is_called = {}, True
        self._beat_at = now

    # -- the lane of heartbeats

    @property
    def heartbeat_at(self) -> float:
        """When the next heartbeat is due; the one by which it joins, and that with which it goes for a while, too."""
        if self.state in (State.JOINING, State.MEMBER):
            return min(self._beat_at, self._away_at)
        is_heard = self.state is State.AWAY or (self.state is State.QUITTING and self._epoch > JOINS)
        return self._beat_at if is_heard else math.inf

    def heartbeat(self, now: float) -> ByVersion[Any] | None:
        """What to say, made anew for each try; good-bye if the user has been away for too long."""
        if self.state in (State.JOINING, State.MEMBER) and now >= self._away_at:
            self._forget()
            self._move(Event.TIRED, now)
        # What comes of it, or happens meanwhile, says when the next one is due.
        self._beat_at = math.inf
        return self._words if self.state is not State.AWAY or self._may_be_known else None

    def _build(self, version: int) -> ConsumerGroupHeartbeatRequest:
        """What there is to say just now. All of it if a try before got no answer: the coordinator tells what it has
        assigned once only, but in answer to a request that says all."""
        config = self._config
        told = self._told if self._sent is None else None
        joins = self.state is State.JOINING and not self._releases_it
        if joins or (self._epoch > JOINS and self.state in (State.MEMBER, State.QUITTING)):
            says = _Told(self._epoch, self._topics, frozenset(self._owned.items()))
            self._may_hold_its_name, self._may_be_known = self._may_be_known, True
        else:
            says = _Told(LEAVES if config.group_instance_id is None else LEAVES_FOR_NOW)
        self._sent = says
        is_full = told is None and says.epoch >= JOINS
        before = says if told is None or says.epoch < JOINS else told
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id if version >= _FIRST_WITH_OWN_ID or self._is_named else "",
            member_epoch=says.epoch,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if is_full else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else -1,
            server_assignor=config.group_remote_assignor if is_full else None,
            subscribed_topic_names=tuple(sorted(says.topics)) if is_full or says.topics != before.topics else None,
            topic_partitions=_by_topic(says.owned) if is_full or says.owned != before.owned else None,
        )

    def heartbeat_answered(self, response: Response, now: float) -> None:
        """The member's epoch, and perhaps what it shall hold; or that it is none."""
        if self.state is State.PARTING:
            # What was asked last is that it leaves: that has an answer of its own.
            return
        sent, self._sent, self._told = self._sent, None, None
        if sent is None or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        if sent.epoch < JOINS or (self.state is State.JOINING and sent.epoch > JOINS):
            # The answer to what it said in an earlier life.
            self._may_be_known = self._releases_it = False
            self._beat_at = now if self.state is State.JOINING else math.inf
            return
        if self.state not in (State.JOINING, State.MEMBER, State.QUITTING):
            return
        code = ErrorCode.of(response.error_code)
        meaning = meaning_of(code, joins=sent.epoch == JOINS)
        if meaning is Meaning.DONE:
            self._told = sent
            self._accepted(response, now)
        elif meaning is Meaning.AGAIN:
            self._try_again(now)
        elif meaning is Meaning.LOST:
            self._lose(now)
            self._may_be_known = code == ErrorCode.FENCED_MEMBER_EPOCH
        elif self.state is State.JOINING and code == ErrorCode.UNRELEASED_INSTANCE_ID and self._may_hold_its_name:
            # It is this very member that holds the name, in an earlier life or by a request that got no answer.
            self._releases_it, self._beat_at = True, now
        else:
            refusal = member_refusal(self._group_id, "be in it", code, response.error_message, self._topics)
            self._break(_not_offered(refusal.message) if code == ErrorCode.UNSUPPORTED_VERSION else refusal, now)

    def heartbeat_unanswered(self, error: AioprodError, now: float) -> None:
        """Tried again, until its session is over."""
        if isinstance(error, UnsupportedVersionError):
            error = _not_offered(error.message)
        if may_pass(error):
            self._try_again(now)
        else:
            self._break(error, now)

    def _try_again(self, now: float) -> None:
        self._told = None
        self._beat_at = now + self._backoff(self._failures)
        self._failures += 1

    def _accepted(self, response: ConsumerGroupHeartbeatResponse, now: float) -> None:
        self._failures = 0
        self._epoch = response.member_epoch
        if response.member_id:
            self._member_id, self._is_named = response.member_id, True
        if self.state is State.JOINING:
            self._move(Event.JOINED, now)
        if response.assignment is not None:
            self._target = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
            self._learn()
            self._describe_at, self._descriptions = now, 0
        self._over_at = now + self._config.session_timeout_ms / 1000
        said = self._told is not None and (self._told.topics, self._told.owned)
        is_news = said != (self._topics, frozenset(self._owned.items()))
        self._beat_at = now if is_news else now + max(_INTERVAL_MIN_S, response.heartbeat_interval_ms / 1000)

    # -- what else happens

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Read these topics from now on: the coordinator is told at once."""
        self._topics = topics
        self._beat_at = now

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """The brokers see to it by themselves; but topics may have names now."""
        self._learn()

    def polled(self, now: float) -> None:
        """The user is at hand."""
        self._away_at = now + self._config.max_poll_interval_ms / 1000

    def leave(self, now: float) -> None:
        """Give up all and go; a static member says that it goes for now."""
        self._move(Event.QUIT, now)

    def _lose(self, now: float) -> None:
        """It is no member any more: what it has may be another one's already."""
        self._forget()
        self._move(Event.LOST, now)

    def _break(self, error: AioprodError, now: float) -> None:
        self._error = self._error or error
        self._forget()
        self._may_be_known = False
        self._move(Event.BROKEN, now)

    def _forget(self) -> None:
        self._epoch, self._target, self._told, self._is_called = JOINS, None, None, False
        self._over_at = math.inf

    def _move(self, event: Event, now: float) -> None:
        self.state = TRANSITIONS[self.state, event]
        # To join is due at once; a member hears when, and whoever is none has nothing to say.
        self._beat_at = now if self.state is State.JOINING else self._beat_at


def _not_offered(said: str) -> UnsupportedVersionError:
    text = f"The brokers don't offer group.protocol=consumer (KIP-848): {said}"
    return UnsupportedVersionError(text, hint=_WHERE_OFFERED)


def _by_topic(owned: frozenset[tuple[TopicPartition, UUID]]) -> tuple[TopicPartitions, ...]:
    """What is held, as a request says it."""
    indexes: dict[UUID, list[int]] = {}
    for tp, topic_id in sorted(owned):
        indexes.setdefault(topic_id, []).append(tp.partition)
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(rows)) for topic_id, rows in indexes.items())
