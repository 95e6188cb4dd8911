"""The least loaded subscriber of a topic, by heaps instead of a scan over all members."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sized
from heapq import heapify, heappop, heappush, heapreplace

from aioprod.group.assignors.model import Group
from aioprod.group.assignors.sticky.racks import Racks
from aioprod.types import TopicPartition

__all__ = ["LeastLoaded"]


class LeastLoaded:
    """Finds the subscriber of a topic with the fewest partitions, and of several the first by name.

    Each topic in use has a heap of (load, index of the member). An entry whose load has grown is corrected when it
    comes to the top; a load that `fell` is added as a second entry.
    """

    def __init__(self, group: Group, assigned: Mapping[str, Sized]) -> None:
        self._group = group
        self._assigned = assigned
        self._members = list(group.members)
        self._indexes = {member: index for index, member in enumerate(self._members)}
        self._heaps: dict[Hashable, list[tuple[int, int]]] = {}

    def reader(self, topic: str) -> str:
        """The least loaded subscriber of a topic."""
        heap = self._heaps.get(topic)
        if heap is None:
            heap = self._heaps[topic] = self._heap(self._group.readers[topic])
        return self._first(heap)

    def within_rack(self, tp: TopicPartition, racks: Racks) -> str | None:
        """The least loaded of the subscribers that can read it within their rack, or have no rack."""
        key = (tp.topic, self._group.racks.get(tp))
        heap = self._heaps.get(key)
        if heap is None:
            fitting = [member for member in self._group.readers[tp.topic] if not racks.mismatch(member, tp)]
            heap = self._heaps[key] = self._heap(fitting)
        return self._first(heap) if heap else None

    def fell(self, member: str) -> None:
        """Note that the load of the member is smaller than before."""
        entry = (len(self._assigned[member]), self._indexes[member])
        for topic in self._group.subscribed[member]:
            if (heap := self._heaps.get(topic)) is not None:
                heappush(heap, entry)

    def _heap(self, members: Iterable[str]) -> list[tuple[int, int]]:
        heap = [(len(self._assigned[member]), self._indexes[member]) for member in members]
        heapify(heap)
        return heap

    def _first(self, heap: list[tuple[int, int]]) -> str:
        while True:
            load, index = heap[0]
            member = self._members[index]
            load_now = len(self._assigned[member])
            if load == load_now:
                return member
            if load < load_now:
                heapreplace(heap, (load_now, index))
            else:
                heappop(heap)  # the load fell: its new value is another entry
