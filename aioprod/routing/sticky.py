"""Where records without key go: to one partition at a time, the less loaded ones more often (KIP-794)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from random import Random
from types import MappingProxyType
from typing import Final

__all__ = ["StickyChoice"]

TRIES_MAX: Final = 32
"""After so many draws the weights are summed up instead. That happens only if nearly every partition is the fullest one
or excluded."""

PARTITIONS_PER_SURVEY: Final = 64
"""One look at all queues serves one choice for each so many partitions, so that the cost of a choice has a bound."""

_NO_QUEUES: Final[Mapping[int, int]] = MappingProxyType({})


class StickyChoice:
    """The partition that takes a topic's keyless records now, as Java's built-in partitioner chooses it.

    It changes when `batch_size` bytes went there since it was chosen. The next one is drawn among the partitions whose
    leader is near (KIP-1123); if there are none, among those that have a leader, and else among all. With `adaptive`,
    each of them has the weight longest queue + 1 - its queue, counted in batches that wait to be sent. Java sums the
    weights of all partitions up; here one is drawn and kept with a probability of its weight, which has the same
    distribution and does not depend on how many there are.
    """

    __slots__ = (
        "_adaptive",
        "_available",
        "_batch_size",
        "_bytes",
        "_candidates",
        "_choices",
        "_led",
        "_longest",
        "_random",
        "_shortest",
        "_table",
        "partition",
    )

    def __init__(self, random: Random, *, batch_size: int, adaptive: bool) -> None:
        self._random = random
        self._batch_size = batch_size
        self._adaptive = adaptive
        self._candidates: Sequence[int] = ()
        self._available: frozenset[int] = frozenset()
        self._led: Sequence[int] = ()
        self._bytes = 0
        self._longest = 0
        self._shortest = 0
        self._choices = 0
        self._table: tuple[list[int], list[int]] | None = None
        self.partition = -1
        """The current choice; -1 before the partitions are known. Read for each record."""

    def set_partitions(self, count: int, available: Sequence[int], near: Sequence[int] = ()) -> None:
        """The topic has `count` partitions now; those in `available` have a leader, those in `near` one that is near.

        The current choice stays if it still can be made: one that lost its leader is left while others have one, and
        one with a distant leader while others have a near one.
        """
        self._led = tuple(available)
        self._candidates = tuple(near) or self._led or range(count)
        self._available = frozenset(near or available)
        self._choices = 0
        if self.partition not in (self._available or range(count)):
            self.switch()

    def batch_closed(
        self, size_bytes: int, queues: Mapping[int, int], excluded: Callable[[int], bool] | None = None
    ) -> None:
        """A batch of the current choice is closed; moves on after `batch_size` bytes.

        `queues`: batches that wait, by partition; 0 where it has none. `excluded`: partitions whose broker accepts
        nothing (`partitioner.availability.timeout.ms`); counts with `adaptive` only, and unless it excludes all. While
        it excludes all near partitions, distant ones are chosen.
        """
        self._bytes += size_bytes
        if self._bytes >= self._batch_size:
            self.switch(queues, excluded)

    def switch(self, queues: Mapping[int, int] = _NO_QUEUES, excluded: Callable[[int], bool] | None = None) -> None:
        """Choose again, perhaps the same partition; arguments as in `batch_closed`."""
        self._bytes = 0
        is_choice = len(self._candidates) > 1 or len(self._led) > 1
        if is_choice and self._adaptive and self._available and (queues or excluded is not None):
            self.partition = self._weighted(queues, excluded)
        else:
            self.partition = self._any()

    def _any(self) -> int:
        candidates = self._candidates
        return candidates[int(self._random.random() * len(candidates))]

    def _weighted(self, queues: Mapping[int, int], excluded: Callable[[int], bool] | None) -> int:
        if self._choices == 0:
            self._survey(queues, excluded)
            self._choices = 1 + len(self._candidates) // PARTITIONS_PER_SURVEY
        self._choices -= 1
        most = self._longest + 1
        heaviest = most - self._shortest
        for _ in range(TRIES_MAX):
            partition = self._any()
            if excluded is not None and excluded(partition):
                continue
            if self._random.random() * heaviest < max(1, most - queues.get(partition, 0)):
                return partition
        return self._summed(queues, excluded)

    def _survey(self, queues: Mapping[int, int], excluded: Callable[[int], bool] | None) -> None:
        lengths = [
            length
            for partition, length in queues.items()
            if partition in self._available and (excluded is None or not excluded(partition))
        ]
        self._longest = max(lengths, default=0)
        # A bound for the weights is enough where some are left out: equally full queues are then drawn more often.
        self._shortest = min(lengths) if len(lengths) == len(self._candidates) else 0
        self._table = None

    def _summed(self, queues: Mapping[int, int], excluded: Callable[[int], bool] | None) -> int:
        """Java's way: the running sums of all weights, kept until the next survey."""
        if self._table is None:
            chosen_from = [p for p in self._candidates if excluded is None or not excluded(p)]
            if not chosen_from:
                chosen_from = [p for p in self._led if excluded is None or not excluded(p)]
            weights = (max(1, self._longest + 1 - queues.get(partition, 0)) for partition in chosen_from)
            self._table = chosen_from, list(accumulate(weights))
        chosen_from, sums = self._table
        if not sums:
            return self._any()
        return chosen_from[bisect_right(sums, int(self._random.random() * sums[-1]))]
