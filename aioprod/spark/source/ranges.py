"""Which offsets one task reads, and how many a micro-batch may have: arithmetic without a cluster."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from pyspark.sql.datasource import InputPartition

from aioprod.types import TopicPartition

__all__ = ["Stretch", "shares", "split_stretches"]


@dataclass(frozen=True)
class Stretch(InputPartition):
    """What one task reads: the records of a partition from offset `start` on, up to but not including `end`."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: UUID | None = None
    """None: not known."""
    from_earliest: bool = False
    """Whether the user wants what there is, wherever that begins."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of its offsets; there may be fewer records."""
        return self.end - self.start

    def parts(self, count: int) -> Iterator[Stretch]:
        """The same in `count` parts of about the same size."""
        for index in range(count):
            yield replace(
                self,
                start=self.start + self.size * index // count,
                end=self.start + self.size * (index + 1) // count,
                from_earliest=self.from_earliest and index == 0,
            )


def split_stretches(
    stretches: Iterable[Stretch], *, min_partitions: int = 1, records_per_partition: int | None = None
) -> list[Stretch]:
    """The stretches that have offsets, the largest in parts: at most `records_per_partition` offsets each, and at
    least `min_partitions` of them, if there are so many offsets."""
    found = [one for one in stretches if one.size > 0]
    if records_per_partition is not None:
        found = [part for one in found for part in one.parts(-(-one.size // records_per_partition))]
    counts = [1] * len(found)
    largest = [(-float(one.size), index) for index, one in enumerate(found)]
    heapq.heapify(largest)
    for _ in range(min_partitions - len(found)):
        if not largest or largest[0][0] >= -1.0:
            break
        index = largest[0][1]
        counts[index] += 1
        heapq.heapreplace(largest, (-found[index].size / counts[index], index))
    return [part for one, count in zip(found, counts, strict=True) for part in one.parts(count)]


def shares(sizes: Mapping[TopicPartition, int], limit: int) -> dict[TopicPartition, int]:
    """How many of its `sizes` offsets each partition may have, `limit` together, in proportion to what it has.

    Each that has any gets one at least, so that none starves: with a smaller limit than partitions that is more.
    """
    wanting = {tp: size for tp, size in sizes.items() if size > 0}
    total = sum(wanting.values())
    if total <= limit:
        return dict(sizes)
    left = max(0, limit - len(wanting))
    rest = max(1, total - len(wanting))
    return {tp: 1 + (size - 1) * left // rest if size > 0 else size for tp, size in sizes.items()}
