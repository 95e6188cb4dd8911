"""Warns in the log of partitions and topics whose records are not moving, with the reason."""

from __future__ import annotations

from itertools import islice
from typing import Final

from aioprod._logger import Logger
from aioprod._words import counted, seconds_of
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.explain import Explainer

__all__ = ["LINES_MAX", "StallMonitor"]

_logger = Logger("aioprod.producer")

_STUCK_SHARE: Final = 0.25
_STUCK_S_MIN: Final = 5.0
"""A partition is stuck when its oldest batch stays the same for this share of `delivery.timeout.ms`, or for longer."""

_LOOKED_AT: Final = 2000
"""Among how many of the oldest batches stuck ones are looked for: less than a millisecond's work."""

LINES_MAX: Final = 10
"""How many partitions, and how many topics, are named at a time."""


class StallMonitor:
    """Looks at what is held once in a while, and warns of what is the same as at the last look."""

    def __init__(self, accumulator: Accumulator, explainer: Explainer, now: float) -> None:
        self._accumulator = accumulator
        self._explainer = explainer
        self._pause_s = max(_STUCK_S_MIN, _STUCK_SHARE * accumulator.settings.delivery_timeout_s)
        self._look_at = now + self._pause_s
        self._oldest: dict[object, object] = {}

    def poll(self, now: float) -> float:
        """Warn of what has not moved since the last look, if it is time to look; when to look again."""
        if now >= self._look_at:
            self._look_at = now + self._pause_s
            before, self._oldest = self._oldest, {}
            self._look_for_partitions(before, now)
            self._look_for_topics(before, now)
        return self._look_at

    def _look_for_partitions(self, before: dict[object, object], now: float) -> None:
        self._accumulator.sort_incomplete()
        stuck: list[tuple[Partition, Batch]] = []
        for batch in islice(self._accumulator.incomplete, _LOOKED_AT):
            partition = batch.partition
            if partition in self._oldest:
                continue
            self._oldest[partition] = batch
            if before.get(partition) is batch:
                stuck.append((partition, batch))
        for partition, batch in stuck[:LINES_MAX]:
            _logger.warning(
                "%s-%d has not moved for %s: %s",
                partition.topic.name,
                partition.index,
                seconds_of(now - batch.created),
                self._explainer.why(partition, now),
            )
        self._leave_out(len(stuck), "partition")

    def _look_for_topics(self, before: dict[object, object], now: float) -> None:
        stuck: list[tuple[Topic, ParkedRecord]] = []
        for topic in islice(self._accumulator.parked_topics.values(), _LOOKED_AT):
            if topic.parked and not topic.parked[0].withdrawn:
                self._oldest[topic] = topic.parked[0]
                if before.get(topic) is topic.parked[0]:
                    stuck.append((topic, topic.parked[0]))
        for topic, record in stuck[:LINES_MAX]:
            _logger.warning(
                "Records for topic %r have waited for %s: %s",
                topic.name,
                seconds_of(now - record.accepted),
                self._explainer.topic_unknown(topic, now),
            )
        self._leave_out(len(stuck), "topic")

    def _leave_out(self, count: int, what: str) -> None:
        if count > LINES_MAX:
            _logger.warning("%s more: nothing has moved there either", counted(count - LINES_MAX, what))
