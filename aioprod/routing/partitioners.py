"""The partitioners to choose from, and the protocol of a partitioner.

All hash a key modulo the number of all partitions, with or without a leader, so that a key keeps its partition.
A choice that no key dictates is made among the partitions that have a leader, or among all if none has one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar, Protocol, runtime_checkable

from aioprod.cluster.model import Cluster, PartitionInfo
from aioprod.routing.hashes import crc32_partition, fnv1a_partition, murmur2_partition, murmur3_partition

__all__ = [
    "ClassicPartitioner",
    "Crc32Partitioner",
    "Crc32RandomPartitioner",
    "DefaultPartitioner",
    "Fnv1aPartitioner",
    "HashPartitioner",
    "Murmur2Partitioner",
    "Murmur2RandomPartitioner",
    "Murmur3Partitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
]


@runtime_checkable
class Partitioner(Protocol):
    """Chooses the partition of each record that does not name one.

    It may also have `on_new_batch(topic, cluster, previous)`: the record would open a new batch in partition
    `previous`, and `partition` is called once more; `configure(config)`, called once before use; and `close()`.
    """

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """Index of the partition, from the serialized key and value; the topic is known to `cluster`."""
        ...


def _random(given: Random | None) -> Random:
    return Random() if given is None else given  # noqa: S311 - it spreads records, it guards no secret


def _candidates(topic: str, cluster: Cluster) -> tuple[PartitionInfo, ...]:
    return cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)


def _anywhere(random: Random, topic: str, cluster: Cluster) -> int:
    return random.choice(_candidates(topic, cluster)).partition


class _StickyPartitions:
    """One partition per topic, kept until a batch of it is full (KIP-480)."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._current: dict[str, int] = {}

    def partition(self, topic: str, cluster: Cluster) -> int:
        """The current partition; a first one is drawn, or another one if the topic was created again with fewer."""
        current = self._current.get(topic, -1)
        if 0 <= current < cluster.partition_count(topic):
            return current
        self._current[topic] = chosen = _anywhere(self._random, topic, cluster)
        return chosen

    def move(self, topic: str, cluster: Cluster, previous: int) -> None:
        """Change to another partition, unless that happened already."""
        if self._current.get(topic) != previous:
            return
        candidates = _candidates(topic, cluster)
        chosen = candidates[0].partition if len(candidates) == 1 else previous
        while chosen == previous and len(candidates) > 1:
            chosen = self._random.choice(candidates).partition
        self._current[topic] = chosen


class _Counters:
    """Takes the partitions of each topic in turn."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, cluster: Cluster, start: Callable[[], int] = int) -> int:
        """The partition after the last one; `start` is where a new topic begins."""
        turn = self._next.get(topic)
        if turn is None:
            turn = start()
        self._next[topic] = turn + 1
        candidates = _candidates(topic, cluster)
        return candidates[turn % len(candidates)].partition


class UniformStickyPartitioner:
    """Java's class of that name: whatever the key, one partition until a batch of it is full, then another one."""

    def __init__(self, random: Random | None = None) -> None:
        self._sticky = _StickyPartitions(_random(random))

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """The topic's current partition."""
        return self._sticky.partition(topic, cluster)

    def on_new_batch(self, topic: str, cluster: Cluster, previous: int) -> None:
        """Change to another partition."""
        self._sticky.move(topic, cluster, previous)


class DefaultPartitioner(UniformStickyPartitioner):
    """Java's default from 2.4 to 3.2: murmur2 of the key, sticky without one."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """By the key's hash, else the topic's current partition."""
        if key is None:
            return self._sticky.partition(topic, cluster)
        return murmur2_partition(key, cluster.partition_count(topic))


class RoundRobinPartitioner:
    """Java's class of that name: whatever the key, each record goes to the next partition that has a leader."""

    def __init__(self) -> None:
        self._counters = _Counters()

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """The next partition of the topic."""
        return self._counters.partition(topic, cluster)


class ClassicPartitioner:
    """Java's default before 2.4: murmur2 of the key, round-robin from a random start without one."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = _random(random)
        self._counters = _Counters()

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """By the key's hash, else the next partition of the topic."""
        if key is None:
            return self._counters.partition(topic, cluster, self._start)
        return murmur2_partition(key, cluster.partition_count(topic))

    def _start(self) -> int:
        return self._random.getrandbits(31)


class HashPartitioner:
    """By the key's hash."""

    by_key = staticmethod(murmur2_partition)
    hashes_null: ClassVar[bool] = False
    """No key counts as an empty one."""
    hashes_empty: ClassVar[bool] = True
    """An empty key is hashed."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = _random(random)

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        """By the key's hash, or any partition where the key is not hashed."""
        is_hashed = self.hashes_null if key is None else self.hashes_empty or len(key) > 0
        if is_hashed:
            return self.by_key(key or b"", cluster.partition_count(topic))
        return _anywhere(self._random, topic, cluster)


class Murmur2Partitioner(HashPartitioner):
    """librdkafka's `murmur2`: Java's hash; records without key all go where the empty key goes."""

    hashes_null = True


class Murmur2RandomPartitioner(HashPartitioner):
    """librdkafka's `murmur2_random`: Java's hash, an empty key included; any partition without key."""


class Crc32Partitioner(HashPartitioner):
    """librdkafka's `consistent`: CRC-32; records without key all go where the empty key goes."""

    by_key = staticmethod(crc32_partition)
    hashes_null = True


class Crc32RandomPartitioner(HashPartitioner):
    """librdkafka's default, `consistent_random`: CRC-32; any partition for an empty key and without one."""

    by_key = staticmethod(crc32_partition)
    hashes_empty = False


class Fnv1aPartitioner(HashPartitioner):
    """sarama's hash partitioner and librdkafka's `fnv1a_random`: FNV-1a; any partition without key."""

    by_key = staticmethod(fnv1a_partition)


class Murmur3Partitioner(HashPartitioner):
    """MurmurHash3 with seed 0; any partition without key."""

    by_key = staticmethod(murmur3_partition)
