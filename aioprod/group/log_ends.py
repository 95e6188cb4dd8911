"""Where the logs of a member's partitions end, and how far its positions are behind that."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from aioprod.calls.session import Session
from aioprod.types import TopicPartition

__all__ = ["LogEnds"]

_OLD_S: Final = 10.0
"""An end is unknown when its broker has not answered for so long, beside the time that a fetch may wait."""


class LogEnds:
    """The log ends of the last Fetch responses. One is old when its broker has not answered for a while.

    A follower's end is that of the records which it returns: its high watermark may be behind the leader's.
    """

    def __init__(self, session: Session, fetch_wait_s: float) -> None:
        self.answered_at: float | None = None
        """When a broker answered a Fetch request last, in monotonic seconds; None before the first answer."""
        self._session = session
        self._old_s = fetch_wait_s + _OLD_S
        self._ends: dict[TopicPartition, tuple[int, int]] = {}
        """The end of each log, and the id of the broker that reported it."""
        self._answers: dict[int, float] = {}
        """When each broker answered last."""

    def note(self, node_id: int, ends: Mapping[TopicPartition, int]) -> None:
        """A broker has answered; `ends` are those that have changed."""
        self.answered_at = self._answers[node_id] = self._session.clock()
        self._ends.update({tp: (end, node_id) for tp, end in ends.items()})

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions are not read any more."""
        for tp in partitions:
            self._ends.pop(tp, None)

    def lag(
        self, partitions: Iterable[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The offsets between each position and its log end; None while one of them is unknown or old."""
        ends = {tp: self._end(tp) for tp in partitions}
        return {
            tp: None if end is None or tp not in positions else max(0, end - positions[tp]) for tp, end in ends.items()
        }

    def _end(self, tp: TopicPartition) -> int | None:
        end, node_id = self._ends.get(tp, (None, -1))
        is_old = self._session.clock() - self._answers.get(node_id, -math.inf) > self._old_s
        return None if is_old else end
