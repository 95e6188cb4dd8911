"""The metadata of a client and the schedule of its refreshes, without I/O: the time is an argument, in seconds.

The owner calls `next_refresh` for the time of the next request, sends the result of `build_request`, and passes the
response to `handle_response`, or the error to `handle_failure`. A refresh is full (every tracked topic) or partial
(topics that are new, without a leader, or reported stale by an error). One request carries about a thousand partitions;
the rest stays due. `cluster` is composed on first access after a change, from the changed topics alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, NamedTuple

from aioprod.cluster.model import Cluster, Node
from aioprod.cluster.names import address_fault
from aioprod.cluster.topic_metadata import (
    FINAL_ERRORS,
    KnownPartition,
    KnownTopic,
    NodeTable,
    response_error,
    snapshot_of,
)
from aioprod.errors import AioprodError, ErrorCode
from aioprod.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aioprod.types import TopicPartition

__all__ = ["Metadata", "MetadataUpdate"]

_TRUSTED_EPOCHS_VERSION: Final = 9
"""The first Metadata version whose leader epochs are right (KAFKA-9212)."""

PARTITIONS_AT_ONCE: Final = 1000
"""How many partitions one response should describe: applying it blocks the event loop for a few milliseconds."""

PARTITIONS_GUESSED: Final = 10
"""How many partitions an unknown topic is assumed to have."""


class MetadataUpdate(NamedTuple):
    """What a response changed."""

    changed_topics: AbstractSet[str] = frozenset()
    """Topics whose partitions, leaders, epochs or id changed, and idle topics that were dropped."""
    recreated: AbstractSet[str] = frozenset()
    """Topics with a new id: each is another topic of the same name."""
    errors: Mapping[str, ErrorCode | int] = MappingProxyType({})
    """Error codes by topic."""
    error: AioprodError | None = None
    """Why the whole response is invalid; then it changed nothing."""
    unusable: Mapping[int, str] = MappingProxyType({})
    """What is wrong with the addresses of brokers that were left out, by broker id."""

    def after(self, earlier: MetadataUpdate | None) -> MetadataUpdate:
        """This update together with an earlier one."""
        if earlier is None:
            return self
        changed, recreated = self.changed_topics | earlier.changed_topics, self.recreated | earlier.recreated
        return self._replace(changed_topics=changed, recreated=recreated)


class _Request(NamedTuple):
    """The request in flight."""

    topics: AbstractSet[str] = frozenset()
    full: bool = False
    """It begins a full refresh."""
    more: bool = False
    """Topics that are due did not fit in it."""


class Metadata:
    """The newest cluster snapshot, the tracked topics, and the time of the next request.

    A full refresh is due after `max_age_s` and after `request_update` without a topic; it drops topics that were not
    used for `max_idle_s`. Between two of them a request names only topics that are new, that have no leaders yet, or
    that an error named. `backoff(n)` is the wait in seconds, jitter included, after n + 1 failures, useless responses,
    or unchanged responses in a row. `request_update` calls `due` with the time of the next request.
    """

    def __init__(
        self,
        *,
        max_age_s: float,
        max_idle_s: float,
        backoff: Callable[[int], float],
        due: Callable[[float], object] = lambda at: None,
    ) -> None:
        self._max_age_s = max_age_s
        self._due = due
        self._max_idle_s = max_idle_s
        self._backoff = backoff
        self._topics: dict[str, KnownTopic] = {}
        self._pending: set[str] = set()
        self._topics_due_at = math.inf
        self._is_due_stale = False
        self._full_at = -math.inf
        self._update_after = -math.inf
        self._blocked_until = -math.inf
        self._in_flight: _Request | None = None
        self._failures = 0
        self._unchanged = 0
        self._nodes: dict[int, Node] = {}
        self._unbound: list[str] = []
        self._cluster_id: str | None = None
        self._controller_id = -1
        self._cluster = Cluster()
        self._is_composed = True
        self._dirty: set[str] = set()
        self.version = 0
        self.last_success: float | None = None
        self.last_failure: Exception | None = None

    # --- snapshot and topics

    @property
    def cluster(self) -> Cluster:
        """The current snapshot."""
        if self._dirty or not self._is_composed:
            self._cluster = self._composed()
            self._is_composed = True
            self._dirty.clear()
        return self._cluster

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster; None before the first response, and where brokers have none."""
        return self._cluster_id

    @property
    def tracked(self) -> AbstractSet[str]:
        """The topics that are kept up to date."""
        return self._topics.keys()

    def age(self, now: float) -> float:
        """Seconds since the last valid response, infinite before the first."""
        return math.inf if self.last_success is None else now - self.last_success

    def topic_error(self, topic: str) -> ErrorCode | int | None:
        """The topic's error code in the last response, None if it had none."""
        known = self._topics.get(topic)
        return None if known is None or known.error == ErrorCode.NONE else known.error

    def unknown_since(self, topic: str) -> float | None:
        """Since when responses have lacked the partitions of a tracked topic; None if the last one had them."""
        known = self._topics.get(topic)
        return None if known is None else known.unknown_since

    def unknown_attempts(self, topic: str) -> int:
        """How many responses in a row said that the topic does not exist."""
        known = self._topics.get(topic)
        return 0 if known is None else known.unknown_attempts

    def answered_at(self, topic: str) -> float:
        """When the last response with this tracked topic came, minus infinity before the first."""
        known = self._topics.get(topic)
        return -math.inf if known is None else known.answered_at

    def attempts(self, topic: str) -> int:
        """How often a tracked topic was requested since a response last had its partitions."""
        known = self._topics.get(topic)
        return 0 if known is None else known.attempts

    # --- tracked topics

    def add_topic(self, topic: str, now: float) -> None:
        """Track a topic: request it at once if it is new, after the backoff if its last response was a final error."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = KnownTopic(now, now)
            self._request_at(topic, -math.inf)
            return
        known.last_used = now
        if known.error in FINAL_ERRORS:
            self.request_update(now, topic)

    def touch(self, topic: str, now: float) -> None:
        """Track a topic and mark it as used now."""
        known = self._topics.get(topic)
        if known is None:
            self.add_topic(topic, now)
        else:
            known.last_used = now

    def forget_topic(self, topic: str) -> None:
        """Stop tracking a topic and drop its metadata."""
        if self._topics.pop(topic, None) is not None:
            self._pending.discard(topic)
            self._is_due_stale = True
            self._dirty.add(topic)

    def lose_topic(self, topic: str) -> None:
        """Drop the partitions of a deleted topic, but keep tracking it."""
        known = self._topics.get(topic)
        if known is not None:
            known.partitions = {}
            known.topic_id = None
            self._dirty.add(topic)

    def request_update(self, now: float, topic: str | None = None) -> None:
        """Refresh `topic`, or everything, as soon as the backoff allows: an error showed that our metadata is stale."""
        at = max(now, self._update_after)
        if topic is None:
            self._full_at = min(self._full_at, at)
        elif topic in self._topics:
            self._request_at(topic, at)
        self._due(self.next_refresh(now))

    def apply_leader_hint(
        self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoint: Node | None, now: float
    ) -> bool:
        """Apply the leader that a Produce or Fetch response named (KIP-951); return whether it was applied.

        Its epoch has to be newer than ours, and the broker known or described by `endpoint`. It counts until
        responses name another one (`LowerEpochs`): a hint alone confirms no epoch.
        """
        known = self._topics.get(tp.topic)
        old = None if known is None else known.partitions.get(tp.partition)
        if known is None or old is None or leader_id < 0 or leader_epoch <= old.leader_epoch:
            return False
        leader = endpoint or self._nodes.get(leader_id)
        if leader is None or address_fault(leader.host, leader.port) is not None:
            return False
        known.last_used = now
        self._set_nodes({**self._nodes, leader_id: leader})
        info = known.partitions[tp.partition].info._replace(leader=leader)
        known.partitions[tp.partition] = KnownPartition(leader_id, leader_epoch, info)
        self._dirty.add(tp.topic)
        self.version += 1
        return True

    # --- requests and responses

    def next_refresh(self, now: float) -> float:
        """When a request is due: `now` at the earliest, infinite while one is in flight."""
        if self._in_flight is not None:
            return math.inf
        if self._is_due_stale:
            self._set_topics_due()
        return max(now, self._blocked_until, min(self._full_at, self._topics_due_at))

    @property
    def is_refreshing(self) -> bool:
        """Whether a request is in flight."""
        return self._in_flight is not None

    def hedge(self) -> None:
        """Make the topics of the request in flight due again, so that it can be hedged with another broker."""
        request, self._in_flight = self._in_flight or _Request(), None
        self._reopen(request)

    def _reopen(self, request: _Request) -> None:
        if request.full:
            self._full_at = -math.inf
        for name in request.topics & self._topics.keys():
            self._request_at(name, -math.inf)

    def build_request(self, now: float, allow_auto_create: bool) -> MetadataRequest:
        """Build the request that is due, or a full one; `handle_response` or `handle_failure` has to follow.

        It has at least one topic, and no more than have `PARTITIONS_AT_ONCE` partitions together; the others stay due.
        """
        due = [name for name in self._pending if self._topics[name].due_at <= now]
        full = self._full_at <= now or not due
        if full:
            self._full_at = math.inf
            due = [name for name, known in self._topics.items() if now - known.last_used < self._max_idle_s]
            for name in due:
                self._request_at(name, now)
        names = self._first_of(due)
        for name in names:
            known = self._topics[name]
            known.due_at = math.inf
            known.is_complete = False
            known.attempts += 1
        self._pending.difference_update(names)
        self._in_flight = _Request(frozenset(names), full, more=len(names) < len(due))
        return MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=allow_auto_create,
        )

    def _first_of(self, due: list[str]) -> list[str]:
        """The topics that are due longest, as many as fit in one request; new topics come first."""
        due.sort(key=lambda name: (self._topics[name].due_at, name))
        size = 0
        for count, name in enumerate(due):
            size += len(self._topics[name].partitions) or PARTITIONS_GUESSED
            if size > PARTITIONS_AT_ONCE and count > 0:
                return due[:count]
        return due

    def handle_failure(self, error: Exception, now: float) -> None:
        """The request failed: its topics are due again after the backoff."""
        request, self._in_flight = self._in_flight or _Request(), None
        self._reopen(request)
        self._set_topics_due()
        self._blocked_until = now + self._backoff(self._failures)
        self._failures += 1
        self.last_failure = error

    def handle_response(
        self, response: MetadataResponse, now: float, *, version: int, late: bool = False
    ) -> MetadataUpdate:
        """Apply a response in the given version of Metadata.

        A `late` one belongs to an earlier request than the last: `hedge` was called in between.
        """
        unusable = {
            row.node_id: fault for row in response.brokers if (fault := address_fault(row.host, row.port)) is not None
        }
        error = response_error(response, unusable)
        if error is not None:
            if not late:
                self.handle_failure(error, now)
            return MetadataUpdate(error=error)
        request = _Request(more=True)
        if not late:
            request, self._in_flight = self._in_flight or _Request(), None
        self._failures = 0
        self._blocked_until = -math.inf
        self.last_success = now
        self.last_failure = None
        self.version += 1
        changed, is_news = self._apply_brokers(response, unusable)
        recreated: set[str] = set()
        errors: dict[str, ErrorCode | int] = {}
        table = NodeTable(self._nodes)
        for row in response.topics:
            name = row.name or ""
            known = self._topics.get(name)
            if known is None:
                continue
            partitions, topic_id, old_error = known.partitions, known.topic_id, known.error
            if known.apply(row, table, epochs=version >= _TRUSTED_EPOCHS_VERSION, now=now):
                recreated.add(name)
            if known.error != ErrorCode.NONE:
                errors[name] = known.error
            if known.error != old_error:
                is_news = True
                self._dirty.add(name)
            if known.partitions != partitions or known.topic_id != topic_id:
                changed.add(name)
        changed |= recreated
        if request.full:
            changed |= self._forget_idle(request.topics, now)
        self._dirty |= changed
        if is_news or changed:
            self._unchanged = 0
        elif not request.more:
            self._unchanged += 1
        self._schedule(request, now)
        return MetadataUpdate(frozenset(changed), frozenset(recreated), errors, unusable=unusable)

    @property
    def is_behind(self) -> bool:
        """Whether the partitions of some topics still refer to old brokers, so that `rebind` has to be called."""
        return bool(self._unbound)

    def rebind(self) -> set[str]:
        """Rebuild the partitions of some topics with the live brokers; return the names of those that changed."""
        table = NodeTable(self._nodes)
        changed: set[str] = set()
        size = 0
        while self._unbound and size < PARTITIONS_AT_ONCE:
            name = self._unbound.pop()
            known = self._topics.get(name)
            if known is not None:
                size += len(known.partitions)
                if known.rebind(table):
                    changed.add(name)
        self._dirty |= changed
        return changed

    # --- schedule and snapshot

    def _request_at(self, topic: str, at: float) -> None:
        known = self._topics[topic]
        known.due_at = min(known.due_at, at)
        self._pending.add(topic)
        self._topics_due_at = min(self._topics_due_at, at)

    def _set_topics_due(self) -> None:
        self._topics_due_at = min((self._topics[name].due_at for name in self._pending), default=math.inf)
        self._is_due_stale = False

    def _apply_brokers(self, response: MetadataResponse, unusable: Collection[int]) -> tuple[set[str], bool]:
        """Apply the brokers; return the topics whose partitions changed, and whether anything changed."""
        nodes = {
            row.node_id: Node(row.node_id, row.host, row.port, row.rack)
            for row in response.brokers
            if row.node_id not in unusable
        }
        cluster_id = response.cluster_id or self._cluster_id
        new = (nodes, cluster_id, response.controller_id)
        if new == (self._nodes, self._cluster_id, self._controller_id):
            return set(), False
        self._cluster_id, self._controller_id = cluster_id, response.controller_id
        self._is_composed = False
        return self._set_nodes(nodes), True

    def _set_nodes(self, nodes: dict[int, Node]) -> set[str]:
        if nodes == self._nodes:
            return set()
        self._nodes = nodes
        self._is_composed = False
        self._unbound = list(self._topics)
        return self.rebind()

    def _schedule(self, request: _Request, now: float) -> None:
        """Schedule the next refreshes: incomplete topics are requested again after a backoff."""
        self._update_after = now + self._backoff(self._unchanged)
        if request.full:
            self._full_at = min(self._full_at, now + self._max_age_s)
        self._full_at = max(self._full_at, self._update_after)
        for name in sorted(request.topics & self._topics.keys()):
            known = self._topics[name]
            if known.is_complete:
                known.incomplete_count = 0
            else:
                self._request_at(name, now + self._backoff(known.incomplete_count))
                known.incomplete_count += 1
            known.due_at = max(known.due_at, self._update_after)
        self._set_topics_due()

    def _forget_idle(self, requested: AbstractSet[str], now: float) -> set[str]:
        idle = {
            name
            for name, known in self._topics.items()
            if name not in requested and now - known.last_used >= self._max_idle_s
        }
        for name in idle:
            self.forget_topic(name)
        return idle

    def _composed(self) -> Cluster:
        topics = {name: self._topics[name] for name in sorted(self._dirty) if name in self._topics}
        newer = snapshot_of(topics, self._nodes, self._cluster_id, self._controller_id)
        return self._cluster.merged(newer, without=self._dirty)
