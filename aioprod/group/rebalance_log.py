"""Logs what a member is assigned and what is taken from it: one line per rebalance, ten in ten seconds at most."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from aioprod._log_rate_limit import LogRateLimit
from aioprod._logger import Logger
from aioprod.types import TopicPartition

__all__ = ["RebalanceLog", "partitions_in_words"]

_logger = Logger("aioprod.group")

_NAMED_MAX: Final = 20
"""How many partitions a line names."""


class RebalanceLog:
    """Writes to the logger `aioprod.group`. `clock` is in monotonic seconds. What is over the limit is DEBUG."""

    def __init__(self, group_id: str, clock: Callable[[], float]) -> None:
        self._group_id = group_id
        self._clock = clock
        self._limit = LogRateLimit()

    def assigned(self, partitions: Iterable[TopicPartition], owned: int) -> None:
        """The member was assigned these, and owns so many in all."""
        named = partitions_in_words(partitions)
        self._say(logging.INFO, f"is assigned {named}" if named else "is assigned nothing new", f", and owns {owned}")

    def revoked(self, partitions: Iterable[TopicPartition], *, is_lost: bool) -> None:
        """These were taken from the member; lost ones may have another owner already."""
        named = partitions_in_words(partitions)
        if is_lost:
            self._say(logging.WARNING, f"has lost {named}", ": another member may own them already")
        else:
            self._say(logging.INFO, f"has revoked {named}")

    def _say(self, level: int, what: str, more: str = "") -> None:
        line = self._limit.take(str(level), self._clock())
        if line.left_out:
            _logger.info(
                "%d more lines about rebalances of group %r are logged as DEBUG only", line.left_out, self._group_id
            )
        _logger.log(level if line.is_logged else logging.DEBUG, "Member of group %r %s%s", self._group_id, what, more)


def partitions_in_words(partitions: Iterable[TopicPartition]) -> str:
    """Partitions by topic, the first `_NAMED_MAX` of them."""
    ordered = sorted(partitions)
    by_topic = groupby(ordered[:_NAMED_MAX], key=lambda tp: tp.topic)
    named = ", ".join(f"{topic} {[tp.partition for tp in each]}" for topic, each in by_topic)
    left_out = len(ordered) - _NAMED_MAX
    return f"{named} and {left_out} more" if left_out > 0 else named
