"""The broker's own group protocol (KIP-848) as a state machine, with one request: ConsumerGroupHeartbeat.

1. A heartbeat with epoch 0 joins and carries the whole subscription; the response gives the member's epoch.
2. A response may carry a target assignment: the partitions, by topic id, that this member is to own.
3. The member reconciles: it revokes what is not in the target, then adds what is new.
4. Its next heartbeat, sent at once, reports what it owns. The coordinator assigns a partition to its next owner only
   when the last owner has reported that it is revoked.
5. Later heartbeats carry only what has changed since the last one that was answered; after one without an answer the
   next is a full one, since the coordinator sends a target once, but again in response to a full heartbeat.
6. FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID: the partitions are lost, back to 1.
7. A heartbeat with epoch -1 leaves. A static member (KIP-345) sends -2, and the group keeps its partitions for it.

`states.py` explains the states. The coordinator notices new partitions and subscriptions by itself: no member leads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError, ErrorCode, ProtocolError, UnsupportedVersionError
from aioprod.group.config import MemberConfig
from aioprod.group.errors import is_retriable, log_retry, member_error
from aioprod.group.kip848.states import TRANSITIONS, Event, Meaning, State, meaning_of
from aioprod.group.member_log import MemberLog
from aioprod.group.membership import Assign, DescribeTopics, Failed, LeftGroup, Revoke, SendRequest, Step, Wait
from aioprod.group.subscription_codec import check_count
from aioprod.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from aioprod.messages.consumer_group_heartbeat import TopicPartitions
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Response

__all__ = ["ConsumerMembership"]

_JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_LEAVE_STATIC_EPOCH: Final = -2
"""The epochs that join and leave; with the last one the group keeps a static member's partitions (KIP-345)."""

_FIRST_WITH_OWN_ID: Final = 1
"""The version from which the member generates its own id (KIP-1082)."""

_INTERVAL_MIN_S: Final = 0.1
"""The shortest heartbeat interval, whatever the coordinator says."""

_UNSUPPORTED_HINT: Final = (
    "Use group.protocol=classic, or brokers from 4.0 on whose group.coordinator.rebalance.protocols has consumer in it."
)


class _Report(NamedTuple):
    """What a heartbeat reports of the member."""

    epoch: int
    topics: frozenset[str] = frozenset()
    owned: frozenset[tuple[TopicPartition, UUID]] = frozenset()


class ConsumerMembership:
    """One member of a group; a `Membership`, so its times are monotonic seconds.

    `member_id` is unique. `topic_id` returns the id of a topic, None while it is unknown; `backoff(failures)` is the
    wait in seconds before the next try.
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
        self._log = MemberLog(group_id, config.client_id)
        self._heartbeat_request = ByVersion(ConsumerGroupHeartbeatRequest, self._build)
        self._topic_id = topic_id
        self._backoff = backoff
        self._epoch = _JOIN_EPOCH
        self._has_id_from_broker = False
        self._error: AioprodError | None = None
        # Owned and target partitions by topic id: another topic may have the same name later.
        self._owned: dict[TopicPartition, UUID] = {}
        self._target: frozenset[tuple[UUID, int]] | None = None
        self._topic_names: dict[UUID, str] = {}
        self._has_run_callback = False
        self._revoking: tuple[TopicPartition, ...] = ()
        self._adding: dict[TopicPartition, UUID] = {}
        # The heartbeat that has no response yet, and the last one that has one.
        self._in_flight: _Report | None = None
        self._confirmed: _Report | None = None
        # Whether the coordinator may have this member in the group, and its instance id from an earlier membership.
        self._may_be_registered = False
        self._may_hold_instance_id = self._releases_instance_id = False
        self._next_heartbeat_at = now
        self._session_ends_at = math.inf
        self._poll_deadline = now + config.max_poll_interval_ms / 1000
        self._failures = 0
        self._describe_at = now
        self._descriptions = 0

    def __repr__(self) -> str:
        return f"<ConsumerMembership of {self._group_id!r}: {self.state.value}>"

    @property
    def metadata(self) -> GroupMetadata:
        """Current group id, member epoch (offsets are committed with it), member id and instance id."""
        instance_id = self._config.group_instance_id
        if self._epoch <= _JOIN_EPOCH:
            return GroupMetadata(self._group_id, group_instance_id=instance_id)
        return GroupMetadata(self._group_id, self._epoch, self._member_id, instance_id)

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that were assigned and not revoked."""
        return frozenset(self._owned)

    @property
    def is_rebalancing(self) -> bool:
        """Whether it joins and can't commit yet.

        With its epoch a member can commit at any time, also while it reconciles.
        """
        return self.state is State.JOINING

    @property
    def is_stable(self) -> bool:
        """Whether it owns its target assignment."""
        owned = frozenset((topic_id, tp.partition) for tp, topic_id in self._owned.items())
        return self.state is State.MEMBER and self._target == owned

    @property
    def description(self) -> str:
        """The state, as a sentence about "it" without its stop."""
        return "it reads its partitions" if self.is_stable else self.state.value

    # --- steps

    def step(self, now: float) -> Step:
        """The step to do now: revoke and add until the target is owned; heartbeats do the joining."""
        if self.state is State.MEMBER:
            if now < self._session_ends_at:
                return self._reconcile(now)
            self._handle_fenced(now)
        if self.state in (State.FENCED, State.STALE, State.PREPARING_TO_LEAVE):
            self._revoking = tuple(sorted(self._owned))
            # A stale member runs its callback, and joins again, at the next poll.
            if self._revoking or (self.state is State.STALE and now < self._poll_deadline):
                return Revoke(self._revoking, is_lost=self._epoch <= _JOIN_EPOCH)
            if self.state is State.STALE:
                return Wait(math.inf)
            self._move(Event.REVOKED, now)
        if self.state is State.LEAVING:
            if self._may_be_registered:
                return SendRequest(self._heartbeat_request, self._config.request_timeout_ms / 1000)
            self._move(Event.LEFT, now)
        if self.state is State.LEFT:
            return LeftGroup() if self._error is None else Failed(self._error)
        return Wait(math.inf)

    def _reconcile(self, now: float) -> Step:
        if self._target is None:
            return Wait(self._session_ends_at)
        owned = set(self._owned.items())
        self._revoking = tuple(sorted(tp for tp, topic_id in owned if (topic_id, tp.partition) not in self._target))
        if self._revoking:
            return Revoke(self._revoking)
        named = [(self._topic_names.get(topic_id), topic_id, partition) for topic_id, partition in self._target]
        target = {TopicPartition(name, partition): topic_id for name, topic_id, partition in named if name is not None}
        has_unknown_topic = len(target) < len(named)
        if has_unknown_topic and now >= self._describe_at:
            return DescribeTopics(self._topics)
        self._adding = {tp: topic_id for tp, topic_id in sorted(target.items()) if tp not in self._owned}
        if self._adding or not self._has_run_callback:
            return Assign(tuple(self._adding))
        return Wait(min(self._session_ends_at, self._describe_at) if has_unknown_topic else self._session_ends_at)

    def response_received(self, response: Response, now: float) -> None:
        """The leave request is answered."""
        self._leave_done(now)

    def request_failed(self, error: AioprodError, now: float) -> None:
        """End without an answer: the coordinator drops the member when its session times out."""
        self._leave_done(now)

    def _leave_done(self, now: float) -> None:
        if self.state is State.LEAVING:
            self._reset_epoch()
            self._move(Event.LEFT, now)

    def topics_described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """Look again for the names of assigned topic ids; ids that are still unknown are described again later."""
        self._learn_topic_ids()
        self._describe_at = now + self._backoff(self._descriptions)
        self._descriptions += 1

    def _learn_topic_ids(self) -> None:
        """Note the ids of the subscribed topics."""
        for name in self._topics:
            topic_id = self._topic_id(name)
            if topic_id is not None:
                self._topic_names[topic_id] = name

    def revoked(self, now: float) -> None:
        """The partitions of the last `Revoke` are revoked: report it at once, so that the next owner can start."""
        for tp in self._revoking:
            self._owned.pop(tp, None)
        self._revoking = ()
        if self.state in (State.FENCED, State.STALE, State.PREPARING_TO_LEAVE):
            if not self._owned:
                self._move(Event.REVOKED, now)
        else:
            self._next_heartbeat_at = now

    def assigned(self, now: float) -> None:
        """The partitions of the last `Assign` are being read: send a heartbeat at once."""
        self._owned.update(self._adding)
        self._adding, self._has_run_callback = {}, True
        self._next_heartbeat_at = now

    # --- heartbeats

    @property
    def heartbeat_at(self) -> float:
        """The time of the next heartbeat (joining and leaving ones included), or the end of max.poll.interval.ms."""
        if self.state in (State.JOINING, State.MEMBER):
            return min(self._next_heartbeat_at, self._poll_deadline)
        is_due = self.state is State.STALE or (self.state is State.PREPARING_TO_LEAVE and self._epoch > _JOIN_EPOCH)
        return self._next_heartbeat_at if is_due else math.inf

    def heartbeat(self, now: float) -> ByVersion[Any] | None:
        """The request, whose content is built when it is sent; it leaves after max.poll.interval.ms without a poll."""
        if self.state in (State.JOINING, State.MEMBER) and now >= self._poll_deadline:
            self._reset_epoch()
            self._move(Event.POLL_TIMEOUT, now)
        # The response, or an event meanwhile, sets the time of the next one.
        self._next_heartbeat_at = math.inf
        return self._heartbeat_request if self.state is not State.STALE or self._may_be_registered else None

    def _build(self, version: int) -> ConsumerGroupHeartbeatRequest:
        """Build the heartbeat of this moment: full if the last one has no response, else only the changes."""
        config = self._config
        last = self._confirmed if self._in_flight is None else None
        joins = self.state is State.JOINING and not self._releases_instance_id
        if joins or (self._epoch > _JOIN_EPOCH and self.state in (State.MEMBER, State.PREPARING_TO_LEAVE)):
            heartbeat = _Report(self._epoch, self._topics, frozenset(self._owned.items()))
            self._may_hold_instance_id, self._may_be_registered = self._may_be_registered, True
        else:
            heartbeat = _Report(_LEAVE_EPOCH if config.group_instance_id is None else _LEAVE_STATIC_EPOCH)
        self._in_flight = heartbeat
        is_full = last is None and heartbeat.epoch >= _JOIN_EPOCH
        before = heartbeat if last is None or heartbeat.epoch < _JOIN_EPOCH else last
        has_new_topics = is_full or heartbeat.topics != before.topics
        has_new_owned = is_full or heartbeat.owned != before.owned
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id if version >= _FIRST_WITH_OWN_ID or self._has_id_from_broker else "",
            member_epoch=heartbeat.epoch,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if is_full else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else -1,
            server_assignor=config.group_remote_assignor if is_full else None,
            subscribed_topic_names=tuple(sorted(heartbeat.topics)) if has_new_topics else None,
            topic_partitions=_by_topic(heartbeat.owned) if has_new_owned else None,
        )

    def heartbeat_response_received(self, response: Response, now: float) -> None:
        """Handle the epoch and the target assignment of a response, or its error."""
        if self.state is State.LEAVING:
            # The response to the leave request comes by `response_received`.
            return
        sent, self._in_flight, self._confirmed = self._in_flight, None, None
        if sent is None or not isinstance(response, ConsumerGroupHeartbeatResponse):
            return
        if sent.epoch < _JOIN_EPOCH or (self.state is State.JOINING and sent.epoch > _JOIN_EPOCH):
            # A response to a heartbeat of an earlier membership.
            self._may_be_registered = self._releases_instance_id = False
            self._next_heartbeat_at = now if self.state is State.JOINING else math.inf
            return
        if self.state not in (State.JOINING, State.MEMBER, State.PREPARING_TO_LEAVE):
            return
        code = ErrorCode.of(response.error_code)
        meaning = meaning_of(code, joins=sent.epoch == _JOIN_EPOCH)
        if meaning is Meaning.DONE:
            self._confirmed = sent
            self._heartbeat_accepted(response, now)
        elif meaning is Meaning.RETRY:
            if ErrorCode.is_unclear(code):
                log_retry(self._log, self._error_of(response, code), self._failures)
            self._retry_later(now)
        elif meaning is Meaning.FENCED:
            self._handle_fenced(now)
            self._may_be_registered = code == ErrorCode.FENCED_MEMBER_EPOCH
        elif self.state is State.JOINING and code == ErrorCode.UNRELEASED_INSTANCE_ID and self._may_hold_instance_id:
            # This very member holds the instance id, by an earlier membership or a request that has no response.
            self._releases_instance_id, self._next_heartbeat_at = True, now
        else:
            error = self._error_of(response, code)
            self._fail(_unsupported_error(error.message) if code == ErrorCode.UNSUPPORTED_VERSION else error, now)

    def _error_of(self, response: ConsumerGroupHeartbeatResponse, code: ErrorCode | int) -> AioprodError:
        return member_error(self._group_id, "be in the group", code, response.error_message, self._topics)

    def heartbeat_failed(self, error: AioprodError, now: float) -> None:
        """Send the heartbeat again after a backoff, until the session timeout is over."""
        if isinstance(error, UnsupportedVersionError):
            error = _unsupported_error(error.message)
        if is_retriable(error):
            self._retry_later(now)
        else:
            self._fail(error, now)

    def _retry_later(self, now: float) -> None:
        self._confirmed = None
        self._next_heartbeat_at = now + self._backoff(self._failures)
        self._failures += 1

    def _heartbeat_accepted(self, response: ConsumerGroupHeartbeatResponse, now: float) -> None:
        self._failures = 0
        self._epoch = response.member_epoch
        if response.member_id:
            self._member_id, self._has_id_from_broker = response.member_id, True
        if self.state is State.JOINING:
            self._move(Event.JOINED, now)
        if response.assignment is not None:
            try:
                check_count(sum(len(topic.partitions) for topic in response.assignment.topic_partitions))
            except ProtocolError as error:
                self._fail(error, now)
                return
            self._target = frozenset(
                (topic.topic_id, partition)
                for topic in response.assignment.topic_partitions
                for partition in topic.partitions
            )
            self._learn_topic_ids()
            self._describe_at, self._descriptions = now, 0
        self._session_ends_at = now + self._config.session_timeout_ms / 1000
        reported = self._confirmed is not None and (self._confirmed.topics, self._confirmed.owned)
        has_changed = reported != (self._topics, frozenset(self._owned.items()))
        interval_s = max(_INTERVAL_MIN_S, response.heartbeat_interval_ms / 1000)
        self._next_heartbeat_at = now if has_changed else now + interval_s

    # --- events

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Change the subscription: send a heartbeat at once."""
        self._topics = topics
        self._next_heartbeat_at = now

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """Note the topic ids; the coordinator itself assigns new partitions."""
        self._learn_topic_ids()

    def polled(self, now: float) -> None:
        """The application polled: restart the max.poll.interval.ms timer."""
        self._poll_deadline = now + self._config.max_poll_interval_ms / 1000

    def leave(self, now: float) -> None:
        """Revoke all partitions and leave; a static member leaves with epoch -2."""
        self._move(Event.CLOSE, now)

    def _handle_fenced(self, now: float) -> None:
        """Drop the epoch: the partitions may have another owner already, so they are lost."""
        self._reset_epoch()
        self._move(Event.FENCED, now)

    def _fail(self, error: AioprodError, now: float) -> None:
        self._error = self._error or error
        self._reset_epoch()
        self._may_be_registered = False
        self._move(Event.FAILED, now)

    def _reset_epoch(self) -> None:
        self._epoch, self._target, self._confirmed, self._has_run_callback = _JOIN_EPOCH, None, None, False
        self._session_ends_at = math.inf

    def _move(self, event: Event, now: float) -> None:
        self.state = TRANSITIONS[self.state, event]
        # A joining member sends a heartbeat at once; the responses set the times of later ones.
        self._next_heartbeat_at = now if self.state is State.JOINING else self._next_heartbeat_at


def _unsupported_error(reason: str) -> UnsupportedVersionError:
    text = f"The brokers don't offer group.protocol=consumer (KIP-848): {reason}"
    return UnsupportedVersionError(text, hint=_UNSUPPORTED_HINT)


def _by_topic(owned: frozenset[tuple[TopicPartition, UUID]]) -> tuple[TopicPartitions, ...]:
    """The owned partitions as the request lists them."""
    indexes: dict[UUID, list[int]] = {}
    for tp, topic_id in sorted(owned):
        indexes.setdefault(topic_id, []).append(tp.partition)
    return tuple(TopicPartitions(topic_id=topic_id, partitions=tuple(rows)) for topic_id, rows in indexes.items())
