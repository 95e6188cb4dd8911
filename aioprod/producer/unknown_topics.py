"""Topics that are not known yet: their records, and who asks for them, go on, wait, or hear the reason why not."""

from __future__ import annotations

import math
from collections.abc import Callable

from aioprod._error_codes import ErrorCode
from aioprod.cluster import Metadata
from aioprod.cluster.topic_errors import topic_error
from aioprod.core.accumulator import Accumulator
from aioprod.core.parking import evict_first, evict_overdue, move_on
from aioprod.core.partition import Topic
from aioprod.errors import (
    AioprodError,
    MetadataTimeoutError,
    UnknownTopicError,
)
from aioprod.net.waiters import Waiters
from aioprod.producer.completions import Completions
from aioprod.producer.guard import Guard

__all__ = ["UnknownTopics"]

TURN_RECORDS = 2000
"""Parked records that are moved on in one turn of the loop: a few milliseconds' worth."""

TURN_REFUSALS = 400
"""Parked records of one topic that are refused in one turn of the loop: each gets an exception of its own."""

REMEMBERED_S = 10.0
"""So long after its last use a topic that does not exist is still asked for, at the pace of the backoff: the next
record for it fails at once, or finds that it was created meanwhile."""


def metadata_timeout(metadata: Metadata, name: str, limit: str, brokers: str) -> MetadataTimeoutError:
    """No partitions of a topic within the time of a setting; `brokers` says how it stands with them."""
    code = metadata.topic_error(name)
    said = f"the brokers say {code.name}" if isinstance(code, ErrorCode) else brokers
    return MetadataTimeoutError(
        f"The partitions of topic {name!r} could not be learned within {limit}: {said}.",
        hint="Check that the cluster is up and that the brokers' advertised.listeners can be reached from here.",
    )


class UnknownTopics:
    """Looks after the topics that are not known yet, the records parked for them and the calls that wait for them.

    `describe` says in words how it stands with the brokers.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        delivery: Completions,
        *,
        clock: Callable[[], float],
        guard: Guard,
        describe: Callable[[], str],
    ) -> None:
        self._accumulator = accumulator
        self._delivery = delivery
        self._clock = clock
        self._guard = guard
        self._describe = describe
        self._waiters = Waiters()
        # Topics that do not exist, and until when that is remembered.
        self._absent: dict[str, float] = {}

    async def known(self, name: str, timeout_s: float) -> None:
        """Wait until the partitions of a topic are known and nothing is parked for it.

        Raises InvalidTopicError, UnknownTopicError, AuthorizationError or MetadataTimeoutError.
        """
        deadline = self._clock() + timeout_s
        metadata = self._accumulator.metadata
        while (topic := self._accumulator.topic(name, self._clock())).parked is not None:
            if name in self._absent and (absence := topic_error(metadata, name, self._clock(), to_write=True)):
                self.remember(name, self._clock())
                raise absence
            remaining_s = deadline - self._clock()
            if remaining_s <= 0:
                raise metadata_timeout(metadata, name, f"max.block.ms={round(timeout_s * 1000)}", self._describe())
            await self._waiters.wait(remaining_s)
            if topic.error is not None:
                raise topic.error.again()
            self._guard.check_running()

    def changed(self) -> None:
        """Something was learned, or the producer ends: who waits looks again."""
        self._waiters.notify_all()

    def move_on(self, now: float) -> float | None:
        """Move on what can go, refuse what can't or has waited too long; when to look again."""
        due = math.inf
        turn = TURN_RECORDS
        metadata = self._accumulator.metadata
        for topic in list(self._accumulator.parked_topics.values()):
            if topic.count:
                before = len(topic.parked or ())
                for record, error in move_on(self._accumulator, topic, now, turn):
                    self._delivery.refuse([record], error)
                turn -= before - len(topic.parked or ())
                if topic.parked:
                    due = now
                else:
                    self.changed()
                continue
            if topic.name in self._absent and not topic.parked:
                due = min(due, self._forget_in_time(topic, now))
                continue
            refusal = topic_error(metadata, topic.name, now, to_write=True)
            if refusal is not None:
                self.refuse(topic, refusal, TURN_REFUSALS)
                if topic.parked:
                    due = now
            elif topic.parked:
                due = min(due, self._expire(topic, metadata, now))
        return due if due < math.inf else None

    def _expire(self, topic: Topic, metadata: Metadata, now: float) -> float:
        """Refuse the records whose time is over; when the next one's is."""
        settings = self._accumulator.settings
        limit = f"max.block.ms={round(settings.max_block_s * 1000)}"
        if settings.delivery_timeout_s < settings.max_block_s:
            limit = f"delivery.timeout.ms={round(settings.delivery_timeout_s * 1000)}"
        if overdue := evict_overdue(self._accumulator, topic, now, TURN_REFUSALS):
            self._delivery.refuse(overdue, metadata_timeout(metadata, topic.name, limit, self._describe()))
        return topic.parked[0].deadline if topic.parked else math.inf

    def remember(self, name: str, now: float) -> None:
        """A topic does not exist: who sends to it, or asks for it, hears so at once, as long as the brokers say so."""
        self._accumulator.topic(name, now).error = None
        self._absent[name] = now + REMEMBERED_S

    def _forget_in_time(self, topic: Topic, now: float) -> float:
        """Ask no more for a topic that does not exist and that nobody has used for a while; when that is due."""
        due = self._absent[topic.name]
        if now < due:
            return due
        self._forget(topic, now)
        return math.inf

    def _forget(self, topic: Topic, now: float) -> None:
        self._absent.pop(topic.name, None)
        self._accumulator.forget(topic, now)
        self._accumulator.metadata.forget_topic(topic.name)

    def refuse(self, topic: Topic, error: AioprodError, limit: int) -> int:
        """Refuse up to `limit` of the records that wait for a topic; how many.

        When none is left the topic is forgotten, and the next record asks for it anew; but that it does not exist is
        remembered for a while.
        """
        topic.error = error
        evicted = evict_first(self._accumulator, topic, limit)
        self._delivery.refuse(evicted, error)
        if not topic.parked:
            if isinstance(error, UnknownTopicError):
                self.remember(topic.name, self._clock())
            else:
                self._forget(topic, self._clock())
        self.changed()
        return len(evicted)

    def refuse_some(self, error_of: Callable[[Topic], AioprodError]) -> bool:
        """Refuse a turn's worth of what is parked, as the producer closes; whether there is more."""
        turn = TURN_REFUSALS
        for topic in list(self._accumulator.parked_topics.values()):
            turn -= self.refuse(topic, error_of(topic), turn)
            if turn <= 0:
                return True
        self.changed()
        return False
