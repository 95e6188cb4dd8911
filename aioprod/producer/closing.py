"""What a closing producer waits for, how long at most, and the errors of the records that it fails."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from aioprod._logger import Logger
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, ProducerClosedError
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.explain import Explainer

__all__ = ["CLOSE_QUIET_S", "CloseLimit", "Ending", "Remainder"]

_logger = Logger("aioprod.producer")

CLOSE_QUIET_S: Final = 0.5
"""After so long a close says what it waits for: with brokers that answer it takes some milliseconds."""


class CloseLimit:
    """How long a close may take: `timeout` seconds, or by `close.timeout.ms` where that is None.

    `seconds` is None where only the records' own deadlines end it; `name` is how messages call it.
    """

    def __init__(self, timeout: float | None, config: ProducerConfig) -> None:
        self.seconds = timeout
        self.name = f"close(timeout={timeout:g})" if timeout is not None else "close()"
        if timeout is None and config.close_timeout_ms is not None:
            self.seconds = config.close_timeout_ms / 1000
            self.name = f"close.timeout.ms={config.close_timeout_ms}"
        elif timeout == math.inf:
            self.seconds = None


class Remainder:
    """What has no outcome yet while a producer closes; `ends_at` is when that ends at the latest, None for never."""

    def __init__(
        self, accumulator: Accumulator, explainer: Explainer, clock: Callable[[], float], ends_at: float | None
    ) -> None:
        self._accumulator = accumulator
        self._explainer = explainer
        self._clock = clock
        self._ends_at = math.inf if ends_at is None else ends_at

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
        return "the transaction to be ended"


class Ending:
    """Why a producer fails the records without outcome, in a sentence; `error` is for those that were not accepted.

    With an `explainer` the errors also say what the records waited for until `now`.
    """

    def __init__(
        self,
        why: str,
        error: AioprodError,
        *,
        cause: BaseException | None = None,
        explainer: Explainer | None = None,
        now: float = 0.0,
    ) -> None:
        self.cause = cause
        self._why = why
        self._error = error
        self._explainer = explainer
        self._now = now
        self._reasons: dict[Partition, str] = {}

    def of_batch(self, batch: Batch) -> str:
        """Why the records of a batch fail: what the first batch of its partition waited for."""
        if self._explainer is None:
            return self._why
        partition = batch.partition
        if partition not in self._reasons:
            self._reasons[partition] = f"{self._why} {self._explainer.why_expired(batch, self._now)}"
        return self._reasons[partition]

    def of_topic(self, topic: Topic) -> AioprodError:
        """The error for the records of a topic that is not known yet."""
        if self._explainer is None:
            return self._error
        text = f"{self._error.message} {self._explainer.topic_unknown(topic, self._now)}"
        return ProducerClosedError(text, hint=self._error.hint)
