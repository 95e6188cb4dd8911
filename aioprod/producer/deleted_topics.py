"""Topics that are deleted while they are in use: their batches fail, soon and with the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod.cluster.topic_errors import UNKNOWN_S, deletion
from aioprod.errors import UnknownTopicError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.batching.topic_updates import forget
from aioprod.producer.outcomes import FAILED_PER_TURN, Outcomes
from aioprod.producer.unknown_topics import UnknownTopics

__all__ = ["DeletedTopics"]

_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The codes of a leader that does not know the topic of a batch."""


class DeletedTopics:
    """Watches the topics with known partitions that brokers have begun to call unknown.

    The metadata alone is not enough, as the broker that returned it may be behind: a leader has to say the same, or to
    accept nothing. Batches in flight are waited for.
    """

    def __init__(self, accumulator: Accumulator, outcomes: Outcomes, topics: UnknownTopics) -> None:
        self._accumulator = accumulator
        self._outcomes = outcomes
        self._topics = topics
        self._suspects: dict[str, bool] = {}
        """The watched topics: True once the deletion is certain, as some of the batches have failed."""

    def suspect(self, errors: Mapping[str, ErrorCode | int]) -> None:
        """Watch the topics in use that a metadata response calls unknown."""
        for name, code in errors.items():
            topic = self._accumulator.topics.get(name)
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic is not None and topic.count:
                self._suspects.setdefault(name, False)

    def fail_held(self, now: float) -> float:
        """Fail up to `FAILED_PER_TURN` batches of deleted topics; returns `now` if there are more, else infinity."""
        metadata = self._accumulator.metadata
        for name, is_certain in list(self._suspects.items()):
            topic = self._accumulator.topics.get(name)
            if topic is None or not topic.count or not metadata.unknown_attempts(name):
                del self._suspects[name]
                continue
            deleted = deletion(metadata, name, now)
            if deleted is not None and (is_certain or _is_confirmed(topic, now)):
                held = [batch for partition in topic.partitions for batch in _held(partition)]
                if not is_certain:
                    self._outcomes.event_log.deleted(name, len(held), now)
                self._fail(held[:FAILED_PER_TURN], deleted, now)
                self._suspects[name] = len(held) > FAILED_PER_TURN
                if self._suspects[name]:
                    return now
                self._forget(topic, now)
        return math.inf

    def _fail(self, batches: list[Batch], deleted: UnknownTopicError, now: float) -> None:
        for batch in batches:
            last = "" if batch.cause is None else f" Last: {batch.cause}"
            error = deleted.again()
            error.__cause__, batch.cause = batch.cause, error
            self._outcomes.fail(batch, now, f"{_in_sentence(deleted.message)}{last}")

    def _forget(self, topic: Topic, now: float) -> None:
        """Forget the topic: the next record for its name looks it up again."""
        self._outcomes.topic_deleted(topic)
        forget(self._accumulator, topic, now)
        if topic.name not in self._accumulator.topics:
            self._accumulator.metadata.lose_topic(topic.name)
            self._topics.remember(topic.name, now)


def _held(partition: Partition) -> list[Batch]:
    """The batches of a partition that wait to be sent, in order."""
    return [*partition.queued, *([partition.open] if partition.open is not None else [])]


def _is_confirmed(topic: Topic, now: float) -> bool:
    """Whether a leader does not know the topic either, or no leader accepts any of its batches."""
    waiting = [partition for partition in topic.partitions if partition.queued or partition.open is not None]
    if any(batch.code in _GONE for partition in waiting for batch in partition.queued):
        return True
    return bool(waiting) and all(_is_stuck(partition, now) for partition in waiting)


def _is_stuck(partition: Partition, now: float) -> bool:
    queue = partition.queue
    if queue is None:
        return True
    is_stalled = queue.stalled_since is not None and now - queue.stalled_since >= UNKNOWN_S
    return (partition.suspended or is_stalled) and not partition.in_flight


def _in_sentence(message: str) -> str:
    return message[0].lower() + message[1:]
