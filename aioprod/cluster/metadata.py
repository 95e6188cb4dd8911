"""What the client knows of the cluster, and when it has to ask again. No I/O: the time is an argument, in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from aioprod.cluster.model import Cluster, Node
from aioprod.cluster.topic_metadata import FINAL_ERRORS, KnownPartition, KnownTopic, NodeTable, refusal_of, snapshot_of
from aioprod.errors import AioprodError, ErrorCode
from aioprod.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aioprod.types import TopicPartition

__all__ = ["Metadata", "MetadataUpdate"]

TRUSTED_EPOCHS_VERSION: Final = 9
"""The first Metadata version whose leader epochs are right (KAFKA-9212)."""

PARTITIONS_AT_ONCE: Final = 1000
"""How many partitions one answer should describe: to take over the answer holds the loop for a few milliseconds."""

PARTITIONS_GUESSED: Final = 10
"""How many partitions a topic is taken to have until it was described."""


@dataclass(frozen=True, slots=True)
class MetadataUpdate:
    """What an answer brought.

    `changed_topics`: partitions, leaders, epochs or the id differ from before, or the topic was forgotten because
    nobody used it. `recreated`: the topic has another id, so it is another topic of the same name. `errors`: what the
    answer says instead of partitions, by topic. `error`: why the whole answer was refused; it changed nothing then.
    """

    changed_topics: AbstractSet[str] = frozenset()
    recreated: AbstractSet[str] = frozenset()
    errors: Mapping[str, ErrorCode | int] = field(default_factory=dict)
    error: AioprodError | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request on its way: `full` ones begin to refresh everything that is wanted, `more` leaves out what is due."""

    topics: AbstractSet[str] = frozenset()
    full: bool = False
    more: bool = False


class Metadata:
    """The newest cluster snapshot, the topics that are wanted, and the time of the next request.

    A full refresh is due after `max_age_s` and after `request_update` without a topic; it leaves out topics that nobody
    used for `max_idle_s`. In between only those topics are asked for that are new, that have no leaders yet, or that an
    error named. `backoff(n)` is the wait in seconds after n + 1 failures, fruitless answers, or unchanged answers in a
    row; jitter is its own affair.
    """

    def __init__(self, *, max_age_s: float, max_idle_s: float, backoff: Callable[[int], float]) -> None:
        self._max_age_s = max_age_s
        self._max_idle_s = max_idle_s
        self._backoff = backoff
        self._topics: dict[str, KnownTopic] = {}
        self._pending: set[str] = set()
        self._ask_at = math.inf
        self._is_ask_at_stale = False
        self._full_at = -math.inf
        self._update_after = -math.inf
        self._blocked_until = -math.inf
        self._asked: _Asked | None = None
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

    # --- what is known

    @property
    def cluster(self) -> Cluster:
        """The current snapshot."""
        if self._dirty or not self._is_composed:
            self._cluster = self._composed()
            self._is_composed = True
            self._dirty.clear()
        return self._cluster

    @property
    def wanted(self) -> AbstractSet[str]:
        """The topics that are kept up to date."""
        return self._topics.keys()

    def age(self, now: float) -> float:
        """Seconds since the last answer, infinite before the first."""
        return math.inf if self.last_success is None else now - self.last_success

    def topic_error(self, topic: str) -> ErrorCode | int | None:
        """What the last answer said of the topic instead of its partitions."""
        known = self._topics.get(topic)
        return None if known is None or known.error == ErrorCode.NONE else known.error

    def unknown_since(self, topic: str) -> float | None:
        """Since when no answer told the partitions of a wanted topic; None if the last one did, or it is not wanted."""
        known = self._topics.get(topic)
        return None if known is None else known.unknown_since

    def unknown_attempts(self, topic: str) -> int:
        """How many answers in a row said that the topic does not exist."""
        known = self._topics.get(topic)
        return 0 if known is None else known.unknown_attempts

    def told_at(self, topic: str) -> float:
        """When the last answer spoke of a wanted topic, minus infinity if none did."""
        known = self._topics.get(topic)
        return -math.inf if known is None else known.told_at

    def attempts(self, topic: str) -> int:
        """How often a wanted topic was asked for since its partitions were told last."""
        known = self._topics.get(topic)
        return 0 if known is None else known.attempts

    # --- what is wanted

    def add_topic(self, topic: str, now: float) -> None:
        """Want this topic: ask at once if it is new, and as soon as the backoff allows if it was refused before."""
        known = self._topics.get(topic)
        if known is None:
            self._topics[topic] = KnownTopic(now, now)
            self._ask(topic, -math.inf)
            return
        known.last_used = now
        if known.error in FINAL_ERRORS:
            self.request_update(now, topic)

    def touch(self, topic: str, now: float) -> None:
        """The topic was used again, so it is not idle."""
        known = self._topics.get(topic)
        if known is None:
            self.add_topic(topic, now)
        else:
            known.last_used = now

    def forget_topic(self, topic: str) -> None:
        """Nobody wants the topic any more, or it was given up; what is known of it is dropped."""
        if self._topics.pop(topic, None) is not None:
            self._pending.discard(topic)
            self._is_ask_at_stale = True
            self._dirty.add(topic)

    def lose_topic(self, topic: str) -> None:
        """The topic was deleted: it has no partitions any more, but is asked for until it is forgotten."""
        known = self._topics.get(topic)
        if known is not None:
            known.partitions = {}
            known.topic_id = None
            self._dirty.add(topic)

    def request_update(self, now: float, topic: str | None = None) -> None:
        """An error says that our view of `topic`, or of everything, is stale: ask as soon as the backoff allows."""
        at = max(now, self._update_after)
        if topic is None:
            self._full_at = min(self._full_at, at)
        elif topic in self._topics:
            self._ask(topic, at)

    def apply_leader_hint(
        self, tp: TopicPartition, leader_id: int, leader_epoch: int, endpoint: Node | None, now: float
    ) -> bool:
        """Take over a leader that a Produce or Fetch answer named (KIP-951); False if it is no news or not usable.

        The epoch has to be newer than ours, and the broker known or described by `endpoint`.
        """
        known = self._topics.get(tp.topic)
        old = None if known is None else known.partitions.get(tp.partition)
        if known is None or old is None or leader_id < 0 or leader_epoch <= old.leader_epoch:
            return False
        leader = endpoint or self._nodes.get(leader_id)
        if leader is None:
            return False
        known.last_used = now
        self._set_nodes({**self._nodes, leader_id: leader})
        info = known.partitions[tp.partition].info._replace(leader=leader)
        known.partitions[tp.partition] = KnownPartition(leader_id, leader_epoch, info)
        self._dirty.add(tp.topic)
        self.version += 1
        return True

    # --- asking

    def next_refresh(self, now: float) -> float:
        """When a request is due: `now` at the earliest, infinite while one is on its way."""
        if self._asked is not None:
            return math.inf
        if self._is_ask_at_stale:
            self._set_ask_at()
        return max(now, self._blocked_until, min(self._full_at, self._ask_at))

    @property
    def is_asking(self) -> bool:
        """Whether a request is on its way."""
        return self._asked is not None

    def ask_again(self) -> None:
        """There is no answer yet: what was asked for is due again, so that another broker can be asked too."""
        asked, self._asked = self._asked or _Asked(), None
        self._reopen(asked)

    def _reopen(self, asked: _Asked) -> None:
        if asked.full:
            self._full_at = -math.inf
        for name in asked.topics & self._topics.keys():
            self._ask(name, -math.inf)

    def build_request(self, now: float, allow_auto_create: bool) -> MetadataRequest:
        """The request that is due, or a full one if none is; `handle_response` or `handle_failure` has to follow.

        It asks for as many topics as may have `PARTITIONS_AT_ONCE` partitions together, for one at least: the others
        stay due and are asked for next.
        """
        due = [name for name in self._pending if self._topics[name].ask_at <= now]
        full = self._full_at <= now or not due
        if full:
            self._full_at = math.inf
            due = [name for name, known in self._topics.items() if now - known.last_used < self._max_idle_s]
            for name in due:
                self._ask(name, now)
        names = self._first_of(due)
        for name in names:
            known = self._topics[name]
            known.ask_at = math.inf
            known.is_settled = False
            known.attempts += 1
        self._pending.difference_update(names)
        self._asked = _Asked(frozenset(names), full, more=len(names) < len(due))
        return MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=allow_auto_create,
        )

    def _first_of(self, due: list[str]) -> list[str]:
        """Those that are due longest, as many as one request asks for; new topics come before all others."""
        due.sort(key=lambda name: (self._topics[name].ask_at, name))
        size = 0
        for count, name in enumerate(due):
            size += len(self._topics[name].partitions) or PARTITIONS_GUESSED
            if size > PARTITIONS_AT_ONCE and count > 0:
                return due[:count]
        return due

    def handle_failure(self, error: Exception, now: float) -> None:
        """The request got no answer: everything that it asked for is due again after the backoff."""
        asked, self._asked = self._asked or _Asked(), None
        self._reopen(asked)
        self._set_ask_at()
        self._blocked_until = now + self._backoff(self._failures)
        self._failures += 1
        self.last_failure = error

    def handle_response(
        self, response: MetadataResponse, now: float, *, version: int, late: bool = False
    ) -> MetadataUpdate:
        """Take over an answer in the given version of Metadata.

        A `late` one belongs to an earlier request than the last: `ask_again` was called meanwhile.
        """
        error = refusal_of(response)
        if error is not None:
            if not late:
                self.handle_failure(error, now)
            return MetadataUpdate(error=error)
        asked = _Asked(more=True)
        if not late:
            asked, self._asked = self._asked or _Asked(), None
        self._failures = 0
        self._blocked_until = -math.inf
        self.last_success = now
        self.last_failure = None
        self.version += 1
        changed, news = self._take_brokers(response)
        recreated: set[str] = set()
        errors: dict[str, ErrorCode | int] = {}
        table = NodeTable(self._nodes)
        for answer in response.topics:
            name = answer.name or ""
            known = self._topics.get(name)
            if known is None:
                continue
            partitions, topic_id, old_error = known.partitions, known.topic_id, known.error
            if known.take(answer, table, epochs=version >= TRUSTED_EPOCHS_VERSION, now=now):
                recreated.add(name)
            if known.error != ErrorCode.NONE:
                errors[name] = known.error
            if known.error != old_error:
                news = True
                self._dirty.add(name)
            if known.partitions != partitions or known.topic_id != topic_id:
                changed.add(name)
        changed |= recreated
        if asked.full:
            changed |= self._forget_idle(asked.topics, now)
        self._dirty |= changed
        if news or changed:
            self._unchanged = 0
        elif not asked.more:
            self._unchanged += 1
        self._schedule(asked, now)
        return MetadataUpdate(frozenset(changed), frozenset(recreated), errors)

    @property
    def is_behind(self) -> bool:
        """Whether topics are left that don't know yet which brokers are alive: `rebind` is to be called."""
        return bool(self._unbound)

    def rebind(self) -> set[str]:
        """Tell topics which brokers are alive, as many as one turn of the loop allows; names of those that changed."""
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

    # --- inside

    def _ask(self, topic: str, at: float) -> None:
        known = self._topics[topic]
        known.ask_at = min(known.ask_at, at)
        self._pending.add(topic)
        self._ask_at = min(self._ask_at, at)

    def _set_ask_at(self) -> None:
        self._ask_at = min((self._topics[name].ask_at for name in self._pending), default=math.inf)
        self._is_ask_at_stale = False

    def _take_brokers(self, response: MetadataResponse) -> tuple[set[str], bool]:
        """Names of the topics whose partitions look different now, and whether the brokers are news at all."""
        nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in response.brokers}
        cluster_id = response.cluster_id or self._cluster_id
        told = (nodes, cluster_id, response.controller_id)
        if told == (self._nodes, self._cluster_id, self._controller_id):
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

    def _schedule(self, asked: _Asked, now: float) -> None:
        """What is still open after an answer is asked for again, though not at once."""
        self._update_after = now + self._backoff(self._unchanged)
        if asked.full:
            self._full_at = min(self._full_at, now + self._max_age_s)
        self._full_at = max(self._full_at, self._update_after)
        for name in sorted(asked.topics & self._topics.keys()):
            known = self._topics[name]
            if known.is_settled:
                known.unsettled = 0
            else:
                self._ask(name, now + self._backoff(known.unsettled))
                known.unsettled += 1
            known.ask_at = max(known.ask_at, self._update_after)
        self._set_ask_at()

    def _forget_idle(self, asked: AbstractSet[str], now: float) -> set[str]:
        idle = {
            name
            for name, known in self._topics.items()
            if name not in asked and now - known.last_used >= self._max_idle_s
        }
        for name in idle:
            self.forget_topic(name)
        return idle

    def _composed(self) -> Cluster:
        topics = {name: self._topics[name] for name in sorted(self._dirty) if name in self._topics}
        newer = snapshot_of(topics, self._nodes, self._cluster_id, self._controller_id)
        return self._cluster.merged(newer, without=self._dirty)
