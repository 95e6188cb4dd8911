"""What a closing producer waits for, and how long at most."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.explain import Explainer

if TYPE_CHECKING:
    from aioprod.producer.held_outcomes import HeldOutcomes

__all__ = ["CLOSE_QUIET_S", "CloseLimit", "Remainder", "end_in_time"]

_logger = Logger("aioprod.producer")

CLOSE_QUIET_S: Final = 0.5
"""After so long a close says what it waits for: with brokers that answer it takes some milliseconds."""


class CloseLimit:
    """How long a close may take: `timeout` seconds, or by `close.timeout.ms` where that is None."""

    def __init__(self, timeout: float | None, config: ProducerConfig) -> None:
        self.seconds = timeout
        """None where only the deadlines of the records end the close."""
        self.name = f"close(timeout={timeout:g})" if timeout is not None else "close()"
        """What messages call it."""
        if timeout is None and config.close_timeout_ms is not None:
            self.seconds = config.close_timeout_ms / 1000
            self.name = f"close.timeout.ms={config.close_timeout_ms}"
        elif timeout == math.inf:
            self.seconds = None


class Remainder:
    """What has no outcome yet while a producer closes."""

    def __init__(
        self,
        accumulator: Accumulator,
        held: HeldOutcomes | None,
        explainer: Explainer,
        clock: Callable[[], float],
        ends_at: float | None,
    ) -> None:
        self._accumulator = accumulator
        self._held = held
        self._explainer = explainer
        self._clock = clock
        self._ends_at = math.inf if ends_at is None else ends_at
        """When the close ends at the latest, in monotonic seconds."""

    def log(self) -> None:
        """Log what the close waits for."""
        now = self._clock()
        _logger.info("Closing: waiting up to %.0f s for %s", max(0.0, self._limit() - now), self._what(now))

    def _limit(self) -> float:
        """When the last record has its outcome, or the close ends without."""
        accumulator = self._accumulator
        accumulator.sort_incomplete()
        deadlines = [batch.deadline for batch in list(accumulator.incomplete)[-1:]]
        deadlines += [topic.parked[-1].deadline for topic in accumulator.parked_topics.values() if topic.parked]
        if self._held is not None and (last_due := self._held.last_due) is not None:
            deadlines.append(last_due)
        return min(self._ends_at, max(deadlines, default=self._ends_at))

    def _what(self, now: float) -> str:
        accumulator = self._accumulator
        records = counted(accumulator.budget.records, "record")
        for batch in accumulator.incomplete:
            partition = batch.partition
            return f"{records}, the oldest of {partition.topic.name}-{partition.index}: " + (
                self._explainer.why(partition, now)
            )
        for topic in accumulator.parked_topics.values():
            return f"{records}, the oldest for topic {topic.name!r}: {self._explainer.topic_unknown(topic, now)}"
        if self._held is not None and self._held.last_due is not None:
            return f"{records}, whose answers were lost: whether they are stored is being found out"
        return "the transaction to be ended"


async def end_in_time(
    ending: Coroutine[Any, Any, None], timeout_s: float | None, cancelled: asyncio.Future[None]
) -> float | None:
    """Await `ending`, which ends the open transaction as its producer closes; returns the time that is left.

    After `timeout_s`, or when `cancelled` is done, it is cancelled: the brokers abort the transaction then.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    task = loop.create_task(ending, name="aioprod end of transactions")
    try:
        await asyncio.wait([task, cancelled], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        task.cancel()
        await asyncio.wait([task])
    if task.cancelled():
        _logger.warning("The open transaction was not ended in time: it is left to transaction.timeout.ms.")
    elif (error := task.exception()) is not None:
        _logger.warning("The open transaction was not ended: %s", error)
    return None if timeout_s is None else max(0.0, timeout_s - (loop.time() - start))
