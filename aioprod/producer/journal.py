"""What the producer tells the log of its partitions: leaders that move, batches that go again, new epochs."""

from __future__ import annotations

import logging

from aioprod.core.batch import Batch
from aioprod.core.partition import BrokerQueue, Partition
from aioprod.producer.explain import counted, seconds_of

__all__ = ["LINES_MAX", "WINDOW_S", "Journal"]

log = logging.getLogger("aioprod.producer")

WINDOW_S = 10.0
LINES_MAX = 10
"""So many lines of a kind are logged as INFO within a window, in seconds; the others are DEBUG."""


class Journal:
    """Writes to the logger `aioprod.producer`, few lines whatever happens; `now` is in monotonic seconds."""

    def __init__(self) -> None:
        self._windows: dict[str, tuple[float, int]] = {}

    def moved(self, partition: Partition, old: BrokerQueue | None, now: float) -> None:
        """A partition has another leader than `old`; None stands for nobody."""
        if log.isEnabledFor(logging.INFO):
            names = ["no broker" if queue is None else f"broker {queue.node_id}" for queue in (old, partition.queue)]
            self._say(
                "leader moves",
                f"{partition.topic.name}-{partition.index} is led by {names[1]} now, was by {names[0]} "
                f"(leader epoch {partition.leader_epoch})",
                now,
            )

    def retried(self, batch: Batch, delay_s: float) -> None:
        """A batch goes again after a backoff: told as DEBUG, as in an outage there are many."""
        if log.isEnabledFor(logging.DEBUG):
            partition = batch.partition
            when = "at once" if delay_s <= 0.0 else f"in {seconds_of(delay_s)}"
            log.debug(
                "A batch of %s-%d with %s goes again %s, as attempt %d: %s",
                partition.topic.name,
                partition.index,
                counted(batch.records, "record"),
                when,
                batch.attempts + 1,
                str(batch.cause).rstrip("."),
            )

    def bumped(self, partition: Partition, now: float) -> None:
        """The sequence numbers of a partition begin anew in another epoch of the producer."""
        if log.isEnabledFor(logging.INFO):
            self._say(
                "epoch bumps",
                f"{partition.topic.name}-{partition.index} goes on with sequence 0 in epoch {partition.epoch} of "
                f"producer {partition.producer_id}, as a batch before was lost or refused",
                now,
            )

    def recreated(self, topic: str, followers: int, now: float) -> None:
        """A topic was deleted and created again."""
        follow = f": {counted(followers, 'batch')} of the old one {'follows' if followers == 1 else 'follow'}"
        self._say("new topics", f"Topic {topic!r} was deleted and created again{follow if followers else ''}", now)

    def _say(self, kind: str, text: str, now: float) -> None:
        since, count = self._windows.get(kind, (now, 0))
        if now - since >= WINDOW_S:
            if count > LINES_MAX:
                log.info("%d more %s in %s are logged as DEBUG only", count - LINES_MAX, kind, seconds_of(now - since))
            since, count = now, 0
        self._windows[kind] = since, count + 1
        log.log(logging.INFO if count < LINES_MAX else logging.DEBUG, "%s", text)
