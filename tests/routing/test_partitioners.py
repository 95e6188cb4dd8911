from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from aioprod import routing
from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.config import KNOWN_CLASSES, load_class
from aioprod.routing import (
    ClassicPartitioner,
    Crc32Partitioner,
    Crc32RandomPartitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    Murmur2Partitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
    Partitioner,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
)
from aioprod.routing.hashes import crc32_partition, fnv1a_partition, murmur2_partition, murmur3_partition

NODE = Node(1, "one", 9092)


def cluster_of(count: int, *, leaderless: tuple[int, ...] = (), topics: tuple[str, ...] = ("t",)) -> Cluster:
    return Cluster(
        [NODE],
        [
            PartitionInfo(topic, index, None if index in leaderless else NODE, (NODE,), (NODE,))
            for topic in topics
            for index in range(count)
        ],
    )


def chosen(
    partitioner: Partitioner, cluster: Cluster, times: int, key: bytes | None = None, topic: str = "t"
) -> list[int]:
    return [partitioner.partition(topic, key, b"value", cluster) for _ in range(times)]


HASHING = [
    (DefaultPartitioner, murmur2_partition),
    (ClassicPartitioner, murmur2_partition),
    (Murmur2Partitioner, murmur2_partition),
    (Murmur2RandomPartitioner, murmur2_partition),
    (Crc32Partitioner, crc32_partition),
    (Crc32RandomPartitioner, crc32_partition),
    (Fnv1aPartitioner, fnv1a_partition),
    (Murmur3Partitioner, murmur3_partition),
]


@pytest.mark.parametrize(("kind", "rule"), HASHING)
def test_a_key_goes_by_its_hash_over_all_partitions(
    kind: type[DefaultPartitioner], rule: Callable[[bytes, int], int]
) -> None:
    partitioner = kind()
    cluster = cluster_of(12, leaderless=(0, 3, 5, 6, 11))
    for number in range(200):
        key = f"key-{number}".encode()
        assert partitioner.partition("t", key, None, cluster) == rule(key, 12)


@pytest.mark.parametrize(("kind", "rule"), [row for row in HASHING if row[0] is not Crc32RandomPartitioner])
def test_an_empty_key_is_a_key(kind: type[DefaultPartitioner], rule: Callable[[bytes, int], int]) -> None:
    assert set(chosen(kind(), cluster_of(1000), 20, b"")) == {rule(b"", 1000)}


@pytest.mark.parametrize("kind", [Murmur2Partitioner, Crc32Partitioner])
def test_no_key_counts_as_an_empty_one_where_librdkafka_hashes_it(kind: type[DefaultPartitioner]) -> None:
    cluster = cluster_of(12)
    assert set(chosen(kind(), cluster, 20)) == set(chosen(kind(), cluster, 20, b""))


SPREADING = [
    (Murmur2RandomPartitioner, None),
    (Crc32RandomPartitioner, None),
    (Crc32RandomPartitioner, b""),
    (Fnv1aPartitioner, None),
    (Murmur3Partitioner, None),
]


@pytest.mark.parametrize(("kind", "key"), SPREADING)
def test_random_choices_spread_over_the_partitions_with_a_leader(
    kind: type[DefaultPartitioner], key: bytes | None
) -> None:
    counts = Counter(chosen(kind(Random(1)), cluster_of(5, leaderless=(1, 4)), 3000, key))
    assert counts.keys() == {0, 2, 3}
    assert all(900 < count < 1100 for count in counts.values())
    assert set(chosen(kind(Random(1)), cluster_of(3, leaderless=(0, 1, 2)), 100, key)) == {0, 1, 2}


def test_the_same_seed_makes_the_same_choices() -> None:
    cluster = cluster_of(100)
    first = chosen(Murmur2RandomPartitioner(Random(3)), cluster, 20)
    assert chosen(Murmur2RandomPartitioner(Random(3)), cluster, 20) == first
    assert chosen(Murmur2RandomPartitioner(), cluster, 20) != first


def test_round_robin_counts_per_topic_whatever_the_key() -> None:
    partitioner = RoundRobinPartitioner()
    cluster = cluster_of(3, topics=("t", "u"))
    assert chosen(partitioner, cluster, 4) == [0, 1, 2, 0]
    assert chosen(partitioner, cluster, 2, topic="u") == [0, 1]
    assert chosen(partitioner, cluster, 3, b"same key") == [1, 2, 0]


def test_round_robin_takes_the_counter_modulo_the_partitions_with_a_leader() -> None:
    partitioner = RoundRobinPartitioner()
    assert chosen(partitioner, cluster_of(5, leaderless=(1, 3)), 7) == [0, 2, 4, 0, 2, 4, 0]
    assert chosen(partitioner, cluster_of(5, leaderless=(0, 1, 2, 3, 4)), 3) == [2, 3, 4]


def test_a_new_batch_does_not_advance_round_robin() -> None:
    assert not hasattr(RoundRobinPartitioner(), "on_new_batch")
    assert not hasattr(ClassicPartitioner(), "on_new_batch")


def test_classic_goes_round_from_a_random_start_without_a_key() -> None:
    cluster = cluster_of(4, leaderless=(2,), topics=("t", "u"))
    partitioner = ClassicPartitioner(Random(0))
    turns = chosen(partitioner, cluster, 6)
    assert sorted(turns[:3]) == [0, 1, 3]
    assert turns[3:] == turns[:3]
    later = chosen(partitioner, cluster, 3, topic="u")
    assert sorted(later) == [0, 1, 3]
    starts = {chosen(ClassicPartitioner(Random(seed)), cluster, 1)[0] for seed in range(20)}
    assert starts == {0, 1, 3}


def test_sticky_stays_until_a_new_batch_and_never_takes_the_same_again() -> None:
    partitioner = UniformStickyPartitioner(Random(0))
    cluster = cluster_of(4, leaderless=(3,))
    seen = Counter[int]()
    for _ in range(300):
        current, *others = chosen(partitioner, cluster, 5, b"key")
        assert set(others) == {current}
        seen[current] += 1
        partitioner.on_new_batch("t", cluster, current)
        assert chosen(partitioner, cluster, 1)[0] != current
    assert seen.keys() == {0, 1, 2}
    assert all(count > 80 for count in seen.values())


def test_sticky_moves_once_for_one_full_batch() -> None:
    partitioner = DefaultPartitioner(Random(0))
    cluster = cluster_of(4)
    (before,) = chosen(partitioner, cluster, 1)
    partitioner.on_new_batch("t", cluster, before)
    (after,) = chosen(partitioner, cluster, 1)
    partitioner.on_new_batch("t", cluster, before)
    assert chosen(partitioner, cluster, 1) == [after]
    partitioner.on_new_batch("u", cluster, 0)
    assert chosen(partitioner, cluster, 1) == [after]


def test_sticky_takes_what_there_is() -> None:
    partitioner = UniformStickyPartitioner(Random(0))
    one_left = cluster_of(3, leaderless=(0, 2))
    assert chosen(partitioner, one_left, 1) == [1]
    partitioner.on_new_batch("t", one_left, 1)
    assert chosen(partitioner, one_left, 1) == [1]
    other_left = cluster_of(3, leaderless=(1, 2))
    assert chosen(partitioner, other_left, 1) == [1], "it sticks until the batch is full"
    partitioner.on_new_batch("t", other_left, 1)
    assert chosen(partitioner, other_left, 1) == [0]
    none_left = cluster_of(3, leaderless=(0, 1, 2))
    partitioner.on_new_batch("t", none_left, 0)
    assert chosen(partitioner, none_left, 1)[0] in {1, 2}
    assert chosen(partitioner, cluster_of(1), 1) == [0], "the topic was created again with fewer partitions"


def test_topics_have_their_own_sticky_partition() -> None:
    partitioner = DefaultPartitioner(Random(2))
    cluster = cluster_of(50, topics=("t", "u"))
    assert chosen(partitioner, cluster, 1) != chosen(partitioner, cluster, 1, topic="u")


def test_every_partitioner_has_a_name_in_the_configuration() -> None:
    named = {load_class(name, "partitioner") for name in KNOWN_CLASSES["partitioner"]}
    assert {kind.__name__ for kind in named} == {
        name for name in routing.__all__ if name.endswith("Partitioner") and name != "Partitioner"
    }
    for kind in named:
        assert 0 <= kind().partition("t", b"key", b"value", cluster_of(3)) < 3
