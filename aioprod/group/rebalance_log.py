"""Logs what a member is assigned and what is taken from it: one line per rebalance, ten in ten seconds at most."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from aioprod._log_rate_limit import LogRateLimit
from aioprod.group.member_log import MemberLog, place_fields
from aioprod.types import TopicPartition

__all__ = ["RebalanceLog", "partitions_in_words"]

_NAMED_MAX: Final = 20
"""How many partitions a line names."""


class RebalanceLog:
    """Writes to the log of a member. `clock` is in monotonic seconds. What is over the limit is DEBUG."""

    def __init__(self, log: MemberLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._limit = LogRateLimit()

    def assigned(self, partitions: Iterable[TopicPartition], owned: int) -> None:
        """The member was assigned these, and owns so many in all."""
        some = frozenset(partitions)
        if some:
            self._say(logging.INFO, "is assigned", some, f", and owns {owned}")
        else:
            # As after most rebalances of a cooperative group.
            self._log.debug("is assigned nothing new, and owns %d", owned)

    def revoked(self, partitions: Iterable[TopicPartition], *, is_lost: bool) -> None:
        """These were taken from the member; lost ones may have another owner already."""
        some = frozenset(partitions)
        if is_lost:
            self._say(logging.WARNING, "has lost", some, ": another member may own them already")
        else:
            self._say(logging.INFO, "has revoked", some)

    def _say(self, level: int, what: str, partitions: frozenset[TopicPartition], more: str = "") -> None:
        line = self._limit.take(str(level), self._clock())
        if line.left_out:
            self._log.info("has logged %d more lines about rebalances as DEBUG only", line.left_out)
        self._log.log(
            level if line.is_logged else logging.DEBUG,
            "%s %s%s",
            what,
            partitions_in_words(partitions),
            more,
            extra=place_fields(partitions),
        )


def partitions_in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, the first `_NAMED_MAX` of them."""
    ordered = sorted(partitions)
    by_topic = groupby(ordered[:_NAMED_MAX], key=lambda tp: tp.topic)
    named = ", ".join(f"{topic} {[tp.partition for tp in each]}" for topic, each in by_topic)
    left_out = len(ordered) - _NAMED_MAX
    return f"{named} and {left_out} more" if left_out > 0 else named
