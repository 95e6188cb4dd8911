"""The partition moves of one rebalance, to avoid that two partitions of a topic swap places between two members."""

from __future__ import annotations

from aioprod.group.assignors.java_order import HashOrdered
from aioprod.types import TopicPartition

__all__ = ["Movements"]


class Movements:
    """The moves so far, each from the first owner of the partition to the present one."""

    def __init__(self) -> None:
        self._move: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], HashOrdered] = {}

    def better(self, tp: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move instead: one of the topic that moved from `target` to `source`, if there is one."""
        origin, _ = self._move.get(tp, (source, target))
        returning = self._moved.get((tp.topic, target, origin))
        return tp if returning is None else returning.first()

    def record(self, tp: TopicPartition, source: str, target: str) -> None:
        """Note a move; a partition that returns to its first owner has not moved."""
        if (earlier := self._move.pop(tp, None)) is not None:
            key = (tp.topic, *earlier)
            self._moved[key].remove(tp)
            if not self._moved[key]:
                del self._moved[key]
            source = earlier[0]
            if source == target:
                return
        self._move[tp] = (source, target)
        self._moved.setdefault((tp.topic, source, target), HashOrdered()).add(tp)
