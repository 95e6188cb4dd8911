"""Which keys go elsewhere when a topic grows: those that the partitioner sends elsewhere, and as many as expected."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.config import load_class
from aioprod.errors import AioprodError, ConfigError, InvalidRecordError
from aioprod.routing import (
    HASH_PARTITIONERS,
    Crc32Partitioner,
    Fnv1aPartitioner,
    Move,
    RoundRobinPartitioner,
    UniformStickyPartitioner,
    moved_keys,
    moved_share,
)
from tests.support.arrow import OnlyArray, OnlyStream

KEYS = [b"order %d" % number for number in range(20_000)]
NODE = Node(1, "one", 9092)
COUNTS = st.integers(1, 300)


class Own:
    """Nobody knows what it looks at."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        return 0


def cluster_of(count: int) -> Cluster:
    return Cluster([NODE], [PartitionInfo("t", index, NODE, (NODE,), (NODE,)) for index in range(count)])


@pytest.mark.parametrize("name", HASH_PARTITIONERS)
@given(keys=st.lists(st.binary(min_size=1, max_size=12), max_size=20), before=COUNTS, after=COUNTS)
@settings(max_examples=25, deadline=None)
def test_those_move_that_the_partitioner_itself_sends_elsewhere(
    name: str, keys: list[bytes], before: int, after: int
) -> None:
    partitioner = load_class(name, "partitioner")()
    found = moved_keys(keys, name, before=before, after=after)
    places = {
        key: Move(*(partitioner.partition("t", key, None, cluster_of(count)) for count in (before, after)))
        for key in keys
    }
    assert found.moves == {key: move for key, move in places.items() if move.before != move.after}
    assert (found.before, found.after, found.keys) == (before, after, len(set(keys)))


@given(before=COUNTS, after=COUNTS)
def test_the_expected_share_is_that_of_all_remainders(before: int, after: int) -> None:
    cases = lcm(before, after)
    moving = sum(case % before != case % after for case in range(cases))
    assert moved_share(before, after) == moved_share(after, before) == pytest.approx(moving / cases, abs=1e-12)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        (12, 12, Fraction(0)),
        (12, 13, Fraction(12, 13)),
        (12, 18, Fraction(2, 3)),
        (12, 24, Fraction(1, 2)),
        (12, 36, Fraction(2, 3)),
        (1, 8, Fraction(7, 8)),
    ],
)
@pytest.mark.parametrize("name", ["murmur2", "crc32", "fnv1a", "murmur3"])
def test_many_keys_move_as_expected(name: str, before: int, after: int, share: Fraction) -> None:
    found = moved_keys(KEYS, name, before=before, after=after)
    assert found.expected_share == pytest.approx(float(share))
    assert found.share == pytest.approx(float(share), abs=0.02)
    assert found.share == len(found.moves) / len(KEYS)


def test_twice_as_many_partitions_divide_each_in_two() -> None:
    moves = moved_keys(KEYS, before=6, after=12).moves
    assert {(move.before, move.after) for move in moves.values()} == {(index, index + 6) for index in range(6)}


def test_a_known_key() -> None:
    # Java: toPositive(murmur2("foobar")) = 1357151166.
    assert moved_keys([b"foobar"], before=100, after=7).moves == {b"foobar": Move(66, 1357151166 % 7)}


def test_keys_that_come_again_count_once() -> None:
    found = moved_keys(["tea", b"tea", "milk", "tea"], before=1, after=1_000_003)
    assert (found.keys, list(found.moves), found.share) == (2, [b"tea", b"milk"], 1.0)


def test_the_keys_of_an_arrow_column() -> None:
    texts = ["tea", None, "milk", "", "tea", "søt"]
    expected = moved_keys(texts, before=5, after=7)
    assert expected.moves
    columns: list[Any] = [
        pa.array(texts),
        pa.array([text and text.encode() for text in texts], pa.large_binary()),
        pa.array(texts).dictionary_encode(),
        pa.chunked_array([texts[:2], [], texts[2:]], pa.string()),
        OnlyArray(pa.array(texts)),
        OnlyStream(pa.chunked_array([texts])),
    ]
    for column in columns:
        assert moved_keys(column, before=5, after=7) == expected


@pytest.mark.parametrize(
    ("partitioner", "keys"),
    [
        (None, {b"", b"tea"}),
        ("murmur2_random", {b"", b"tea"}),
        ("fnv1a", {b"", b"tea"}),
        ("murmur2", {None, b"", b"tea"}),
        ("consistent_random", {b"tea"}),
    ],
)
def test_what_the_partitioner_spreads_is_not_counted(partitioner: str | None, keys: set[bytes | None]) -> None:
    found = moved_keys([None, b"", b"tea"], partitioner, before=1, after=1_000_003)
    assert (found.keys, set(found.moves)) == (len(keys), keys)


def test_crc32_of_nothing_is_0_and_stays() -> None:
    found = moved_keys([None, b""], "consistent", before=5, after=7)
    assert (found.keys, found.moves) == (2, {})


def test_no_keys() -> None:
    found = moved_keys([], before=12, after=18)
    assert (found.keys, found.moves, found.share) == (0, {}, 0.0)
    assert moved_keys([None], before=12, after=18).keys == 0


@pytest.mark.parametrize(
    "partitioner", ["crc32", "consistent", "aioprod.routing:Crc32Partitioner", Crc32Partitioner, Crc32Partitioner()]
)
def test_a_partitioner_is_given_as_in_the_configuration(partitioner: object) -> None:
    keys = KEYS[:100]
    expected = moved_keys(keys, "crc32", before=5, after=7)
    assert moved_keys(keys, partitioner, before=5, after=7) == expected
    assert expected != moved_keys(keys, Fnv1aPartitioner(), before=5, after=7) != moved_keys(keys, before=5, after=7)


def test_javas_is_the_default() -> None:
    java = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
    assert moved_keys(KEYS[:100], java, before=5, after=7) == moved_keys(KEYS[:100], before=5, after=7)


def test_the_result_can_not_be_changed() -> None:
    found: Any = moved_keys([b"tea"], before=1, after=1_000_003)
    with pytest.raises(AttributeError):
        found.before = 2
    with pytest.raises(TypeError):
        found.moves[b"milk"] = Move(0, 1)


@pytest.mark.parametrize(
    "partitioner",
    ["sticky", "round_robin", RoundRobinPartitioner, UniformStickyPartitioner(), Own()],
)
def test_a_partitioner_that_does_not_hash_is_refused(partitioner: object) -> None:
    name = partitioner if isinstance(partitioner, str) else getattr(partitioner, "__name__", type(partitioner).__name__)
    with pytest.raises(ConfigError, match=f"'{name}' does not choose by a hash of the key"):
        moved_keys([b"tea"], partitioner, before=1, after=2)


@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (-1, 2), (2, 1 << 31), (True, 2), ("1", 2), (1.0, 2)])
def test_numbers_of_partitions_that_no_topic_has(before: Any, after: Any) -> None:
    with pytest.raises(ConfigError, match="partitions"):
        moved_keys([b"tea"], before=before, after=after)
    with pytest.raises(ConfigError, match="partitions"):
        moved_share(before, after)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("tea", "'tea' is one key"),
        (b"tea", "b'tea' is one key"),
        ([b"tea", 7], "A key of type int"),
        (pa.array([7]), "Arrow data of type"),
    ],
)
def test_what_is_no_key(keys: Any, said: str) -> None:
    with pytest.raises(AioprodError, match=said) as failure:
        moved_keys(keys, before=1, after=2)
    assert isinstance(failure.value, (ConfigError, InvalidRecordError))
