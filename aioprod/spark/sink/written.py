"""What tasks report of the rows that they wrote."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aioprod.types import SendResult, TopicPartition

__all__ = ["Written", "sums_by_partition"]


@dataclass(frozen=True, slots=True)
class Written:
    """The rows of one task in one partition: how many, and the offsets of the first and the last; -1 with acks=0.

    Others may have written between them.
    """

    topic: str
    partition: int
    count: int
    first: int
    last: int


def sums_by_partition(results: Iterable[SendResult]) -> tuple[Written, ...]:
    """The sum of some calls, in the order of their partitions."""
    sums: dict[TopicPartition, Written] = {}
    for result in results:
        for tp, ranges in result.offsets.items():
            count = sum(map(len, ranges))
            if not count:
                continue
            first, last = ranges[0][0], ranges[-1][-1]
            before = sums.get(tp)
            if before is not None:
                count, first = count + before.count, before.first
            sums[tp] = Written(tp.topic, tp.partition, count, first, last)
    return tuple(sums[tp] for tp in sorted(sums))
