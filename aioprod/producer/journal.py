"""What the producer tells the log of its partitions: leaders that move, batches that go again, what does not move."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice

from aioprod.core.accumulator import Accumulator
from aioprod.core.batch import Batch, ParkedRecord
from aioprod.core.partition import BrokerQueue, Partition, Topic
from aioprod.producer.explain import Explainer, counted, seconds_of

__all__ = ["Journal"]

log = logging.getLogger("aioprod.producer")

WINDOW_S = 10.0
LINES_MAX = 10
"""So many lines of a kind are logged as INFO within a window; the others are DEBUG."""

STUCK_SHARE = 0.25
STUCK_S_MIN = 5.0
"""A partition is stuck when its oldest batch stays the same for this share of `delivery.timeout.ms`, or for longer."""

LOOKED_AT = 2000
"""Among how many of the oldest batches stuck ones are looked for: less than a millisecond's work."""


class Journal:
    """Writes to the logger `aioprod.producer`, few lines whatever happens.

    `poll` looks for partitions that are stuck, and warns of each once in a while with the reason.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        explainer: Explainer,
        *,
        clock: Callable[[], float],
        delivery_timeout_s: float,
    ) -> None:
        self._accumulator = accumulator
        self._explainer = explainer
        self._clock = clock
        self._stuck_s = max(STUCK_S_MIN, STUCK_SHARE * delivery_timeout_s)
        self._look_at = clock() + self._stuck_s
        self._oldest: dict[object, object] = {}
        self._windows: dict[str, tuple[float, int]] = {}

    # --- what happens

    def moved(self, partition: Partition, old: BrokerQueue | None, new: BrokerQueue | None) -> None:
        """A partition has another leader, or none (None)."""
        if log.isEnabledFor(logging.INFO):
            names = ["no broker" if queue is None else f"broker {queue.node_id}" for queue in (old, new)]
            self._say(
                "leader moves",
                f"{partition.topic.name}-{partition.index} is led by {names[1]} now, was by {names[0]} "
                f"(leader epoch {partition.leader_epoch})",
            )

    def retried(self, batch: Batch, delay_s: float) -> None:
        """A batch goes again after a backoff."""
        if log.isEnabledFor(logging.INFO):
            partition = batch.partition
            when = "at once" if delay_s <= 0.0 else f"in {seconds_of(delay_s)}"
            self._say(
                "retries",
                f"A batch of {partition.topic.name}-{partition.index} with {counted(batch.records, 'record')} goes "
                f"again {when}, as attempt {batch.attempts + 1}: {str(batch.cause).rstrip('.')}",
            )

    def bumped(self, partition: Partition, epoch: int, why: str) -> None:
        """The sequence numbers of a partition begin anew in another epoch of the producer."""
        if log.isEnabledFor(logging.INFO):
            self._say(
                "epoch bumps",
                f"{partition.topic.name}-{partition.index} goes on with producer epoch {epoch} and sequence 0: {why}",
            )

    def _say(self, kind: str, text: str) -> None:
        now = self._clock()
        since, count = self._windows.get(kind, (now, 0))
        if now - since >= WINDOW_S:
            if count > LINES_MAX:
                log.info("%d more %s in %s are logged as DEBUG only", count - LINES_MAX, kind, seconds_of(now - since))
            since, count = now, 0
        self._windows[kind] = since, count + 1
        log.log(logging.INFO if count < LINES_MAX else logging.DEBUG, "%s", text)

    # --- what does not

    def poll(self, now: float) -> float:
        """Warn of what has not moved since the last look, if it is time to look; when to look again."""
        if now >= self._look_at:
            self._look_at = now + self._stuck_s
            before, self._oldest = self._oldest, {}
            self._look_for_partitions(before, now)
            self._look_for_topics(before, now)
        return self._look_at

    def _look_for_partitions(self, before: dict[object, object], now: float) -> None:
        self._accumulator.sort_incomplete()
        stuck: list[tuple[Partition, Batch]] = []
        for batch in islice(self._accumulator.incomplete, LOOKED_AT):
            partition = batch.partition
            if partition in self._oldest:
                continue
            self._oldest[partition] = batch
            if before.get(partition) is batch:
                stuck.append((partition, batch))
        for partition, batch in stuck[:LINES_MAX]:
            log.warning(
                "%s-%d has not moved for %s: %s",
                partition.topic.name,
                partition.index,
                seconds_of(now - batch.created),
                self._explainer.why(partition, now),
            )
        self._leave_out(len(stuck), "partitions")

    def _look_for_topics(self, before: dict[object, object], now: float) -> None:
        stuck: list[tuple[Topic, ParkedRecord]] = []
        for topic in islice(self._accumulator.parked_topics.values(), LOOKED_AT):
            if topic.parked and not topic.parked[0].withdrawn:
                self._oldest[topic] = topic.parked[0]
                if before.get(topic) is topic.parked[0]:
                    stuck.append((topic, topic.parked[0]))
        for topic, record in stuck[:LINES_MAX]:
            log.warning(
                "Records for topic %r have waited for %s: %s",
                topic.name,
                seconds_of(now - record.accepted),
                self._explainer.topic_unknown(topic, now),
            )
        self._leave_out(len(stuck), "topics")

    def _leave_out(self, count: int, what: str) -> None:
        if count > LINES_MAX:
            log.warning("%d more %s have not moved either", count - LINES_MAX, what)
