"""Logs the events of partitions: leaders that move, retries, new epochs."""

from __future__ import annotations

import logging
from typing import Final

from aioprod._log_rate_limit import LogRateLimit
from aioprod._logger import Logger
from aioprod._words import counted, seconds_of
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import BrokerQueue, Partition

__all__ = ["EventLog"]

_logger = Logger("aioprod.producer")

PAUSE_S: Final = 60.0
"""The cause of a retry is logged again after this time without it, in seconds."""

PARTITIONS_MAX: Final = 1000
"""Of how many partitions the last cause is kept."""


class EventLog:
    """Writes to the logger `aioprod.producer`; `now` is in monotonic seconds. What is over the limit is DEBUG."""

    def __init__(self) -> None:
        self.limit = LogRateLimit()
        self._causes: dict[tuple[str, int], tuple[str, int, float]] = {}
        """Of a partition: why a batch was retried, how often in a row for this reason, and when last."""

    def moved(self, partition: Partition, old: BrokerQueue | None, now: float) -> None:
        """A partition has another leader than `old`; None stands for no leader."""
        if _logger.isEnabledFor(logging.INFO):
            names = ["no broker" if queue is None else f"broker {queue.node_id}" for queue in (old, partition.queue)]
            self._say(
                "leader moves",
                f"{partition.topic.name}-{partition.index} is led by {names[1]} now, was by {names[0]} "
                f"(leader epoch {partition.leader_epoch})",
                now,
            )

    def retried(self, batch: Batch, delay_s: float, now: float) -> None:
        """A batch is retried after a backoff; the same cause is logged the 1st, 2nd, 4th, 8th ... time in a row."""
        if _logger.isEnabledFor(logging.DEBUG):
            partition = batch.partition
            when = "at once" if delay_s <= 0.0 else f"in {seconds_of(delay_s)}"
            why = str(batch.cause).rstrip(".")
            text = (
                f"A batch of {partition.topic.name}-{partition.index} with {counted(batch.records, 'record')} goes "
                f"again {when}, as attempt {batch.attempts + 1}: {why}"
            )
            times = self._times_in_a_row(partition, why, now)
            if times & (times - 1) == 0:
                _logger.debug("%s", text)

    def _times_in_a_row(self, partition: Partition, why: str, now: float) -> int:
        """How often batches of a partition were retried for this reason, now included."""
        place = (partition.topic.name, partition.index)
        before, times, last = self._causes.pop(place, ("", 0, now))
        if before != why or now - last >= PAUSE_S:
            times = 0
        if len(self._causes) == PARTITIONS_MAX:
            del self._causes[next(iter(self._causes))]
        self._causes[place] = why, times + 1, now
        return times + 1

    def bumped(self, partition: Partition, now: float) -> None:
        """A partition began a new epoch of the producer, with sequence number 0."""
        if _logger.isEnabledFor(logging.INFO):
            self._say(
                "epoch bumps",
                f"{partition.topic.name}-{partition.index}: new producer epoch {partition.epoch} after a batch was "
                "lost or rejected (no duplicates, order kept)",
                now,
            )

    def recreated(self, topic: str, followers: int, now: float) -> None:
        """A topic was deleted and created again."""
        follow = f": {counted(followers, 'batch')} of the old one {'follows' if followers == 1 else 'follow'}"
        self._say("new topics", f"Topic {topic!r} was deleted and created again{follow if followers else ''}", now)

    def deleted(self, topic: str, count: int, now: float) -> None:
        """A topic was deleted, so that its batches can't be sent."""
        self._say("deleted topics", f"Topic {topic!r} was deleted: {counted(count, 'batch')} for it can't be sent", now)

    def throttled(self, broker: str, throttle_time_ms: int, now: float) -> None:
        """A broker wants no requests for a time, as this client is over its quota."""
        when = f"{broker} throttles this client for {throttle_time_ms} ms: it is over its quota"
        self._say("throttles", when, now, logging.WARNING)

    def found_out(self, stored: int, absent: int, unknown: int, now: float) -> None:
        """What became of records whose answers were lost."""
        records = counted(stored + absent + unknown, "record")
        text = (
            f"The answers for {records} were lost: {stored} are stored, {absent} are in no log, and of {unknown} it is "
            "still unknown"
        )
        self._say("lost answers", text, now, logging.WARNING)

    def _say(self, kind: str, text: str, now: float, level: int = logging.INFO) -> None:
        line = self.limit.take(kind, now)
        if line.left_out:
            _logger.info("%d more %s in %s are logged as DEBUG only", line.left_out, kind, seconds_of(line.window_s))
        _logger.log(level if line.is_logged else logging.DEBUG, "%s", text)
