"""Topics whose partitions are not known yet: the records parked for them, and the calls that wait for them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod.cluster import Metadata
from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import (
    AioprodError,
    MetadataTimeoutError,
    UnknownTopicError,
)
from aioprod.net.waiters import Waiters
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import ParkedRecord
from aioprod.producer.batching.parking import evict_first, evict_overdue, move_on
from aioprod.producer.batching.partition import Topic
from aioprod.producer.batching.topic_updates import forget
from aioprod.producer.completions import Completions
from aioprod.producer.guard import Guard
from aioprod.producer.mass_failure import MassFailure

__all__ = ["UnknownTopics"]

_TURN_RECORDS: Final = 2000
"""Parked records that are moved to their partitions in one iteration of the loop: a few milliseconds' worth."""

_PARKED_FAILED_PER_TURN: Final = 400
"""Parked records that fail in one iteration of the loop: each gets an exception of its own."""

_REMEMBERED_S: Final = 10.0
"""How long after its last use the metadata of a missing topic is still requested, with backoff: the next record for it
fails at once, or finds that it was created meanwhile."""


def metadata_timeout(metadata: Metadata, name: str, limit: str, brokers: str) -> MetadataTimeoutError:
    """The error for a topic whose partitions were not found within a limit; `brokers` describes the connections."""
    code = metadata.topic_error(name)
    said = f"the brokers say {code.name}" if isinstance(code, ErrorCode) else brokers
    return MetadataTimeoutError(
        f"The partitions of topic {name!r} could not be learned within {limit}: {said}.",
        hint="Check that the cluster is up and that the brokers' advertised.listeners can be reached from here.",
    )


class UnknownTopics:
    """Moves the records of unknown topics on when their metadata comes, and fails them when it does not."""

    def __init__(
        self,
        accumulator: Accumulator,
        completions: Completions,
        *,
        clock: Callable[[], float],
        guard: Guard,
        describe: Callable[[], str],
    ) -> None:
        self._accumulator = accumulator
        self._completions = completions
        self._clock = clock
        self._guard = guard
        self._describe = describe
        """Describes the connections to the brokers, for errors."""
        self._waiters = Waiters()
        self._absent: dict[str, float] = {}
        """The topics that do not exist, and until when this is cached, in monotonic seconds."""

    async def known(self, name: str, timeout_s: float) -> None:
        """Wait until the partitions of a topic are known and nothing is parked for it.

        Raises InvalidTopicError, UnknownTopicError, AuthorizationError or MetadataTimeoutError.
        """
        deadline = self._clock() + timeout_s
        metadata = self._accumulator.metadata
        while (topic := self._accumulator.topic(name, self._clock())).parked is not None:
            error: AioprodError | None = None
            if name in self._absent and (error := topic_error(metadata, name, self._clock(), to_write=True)):
                self.remember(name, self._clock())
            remaining_s = deadline - self._clock()
            if error is None and remaining_s <= 0:
                error = metadata_timeout(metadata, name, f"max.block.ms={round(timeout_s * 1000)}", self._describe())
            if error is not None:
                # A caller that tries again at once lets the answer come that may change this.
                await asyncio.sleep(0)
                raise error
            await self._waiters.wait(remaining_s)
            if topic.error is not None:
                raise topic.error.again()
            self._guard.check_running()

    def changed(self) -> None:
        """Wake all waiters: metadata has changed, or the producer ends."""
        self._waiters.notify_all()

    def move_on(self, now: float) -> float | None:
        """Move on the records of known topics, fail those that can't be sent or are overdue; returns when to repeat."""
        due = math.inf
        turn = _TURN_RECORDS
        metadata = self._accumulator.metadata
        for topic in list(self._accumulator.parked_topics.values()):
            if topic.count:
                before = len(topic.parked or ())
                failed: list[tuple[ParkedRecord, AioprodError]] = []
                try:
                    move_on(self._accumulator, topic, now, turn, failed)
                finally:
                    for record, error in failed:
                        self._completions.fail_parked([record], error)
                turn -= before - len(topic.parked or ())
                if topic.parked:
                    due = now
                else:
                    self.changed()
                continue
            if topic.name in self._absent and not topic.parked:
                due = min(due, self._forget_in_time(topic, now))
                continue
            unusable = topic_error(metadata, topic.name, now, to_write=True)
            if unusable is not None:
                self.fail(topic, unusable, _PARKED_FAILED_PER_TURN)
                if topic.parked:
                    due = now
            elif topic.parked:
                due = min(due, self._expire(topic, metadata, now))
        return due if due < math.inf else None

    def _expire(self, topic: Topic, metadata: Metadata, now: float) -> float:
        """Fail the records whose deadline has passed; returns the next deadline."""
        settings = self._accumulator.settings
        limit = f"max.block.ms={round(settings.max_block_s * 1000)}"
        if settings.delivery_timeout_s < settings.max_block_s:
            limit = f"delivery.timeout.ms={round(settings.delivery_timeout_s * 1000)}"
        if overdue := evict_overdue(self._accumulator, topic, now, _PARKED_FAILED_PER_TURN):
            self._completions.fail_parked(overdue, metadata_timeout(metadata, topic.name, limit, self._describe()))
        return topic.parked[0].deadline if topic.parked else math.inf

    def remember(self, name: str, now: float) -> None:
        """Cache that a topic does not exist: sends to it fail at once, as long as the brokers say so."""
        self._accumulator.topic(name, now).error = None
        self._absent[name] = now + _REMEMBERED_S

    def _forget_in_time(self, topic: Topic, now: float) -> float:
        """Forget a missing topic that was not used for a while; returns when that is due."""
        due = self._absent[topic.name]
        if now < due:
            return due
        self._forget(topic, now)
        return math.inf

    def _forget(self, topic: Topic, now: float) -> None:
        self._absent.pop(topic.name, None)
        forget(self._accumulator, topic, now)
        self._accumulator.metadata.forget_topic(topic.name)

    def fail(self, topic: Topic, error: AioprodError, limit: int) -> int:
        """Fail up to `limit` of the records that are parked for a topic; returns how many.

        When none is left the topic is forgotten, so that the next record requests its metadata again; but a missing
        topic is cached for a while.
        """
        topic.error = error
        evicted = evict_first(self._accumulator, topic, limit)
        self._completions.fail_parked(evicted, error)
        if not topic.parked:
            if isinstance(error, UnknownTopicError):
                self.remember(topic.name, self._clock())
            else:
                self._forget(topic, self._clock())
        self.changed()
        return len(evicted)

    def fail_topics(self, reason: MassFailure) -> bool:
        """Fail up to `_PARKED_FAILED_PER_TURN` parked records, of any topic; True if there may be more."""
        turn = _PARKED_FAILED_PER_TURN
        for topic in list(self._accumulator.parked_topics.values()):
            turn -= self.fail(topic, reason.of_topic(topic), turn)
            if turn <= 0:
                return True
        self.changed()
        return False
