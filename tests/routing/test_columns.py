"""The partition of each key of a column is the one that the partitioner gives for it, record by record."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.config import load_class
from aioprod.errors import ConfigError, InvalidRecordError
from aioprod.routing import HASH_PARTITIONERS, Partitions, partitions_of
from tests.support.arrow import BYTES_TYPES, TEXT_TYPES, OnlyArray, OnlyStream, column

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=30)
NODE = Node(1, "one", 9092)


def wrapped(found: Partitions) -> pa.Array:
    """The array that pyarrow makes of the buffers, without a copy."""
    present = None if found.present is None else pa.py_buffer(found.present)
    array = pa.Array.from_buffers(pa.int32(), len(found), [present, pa.py_buffer(found.indexes)])
    array.validate(full=True)
    return array


def by_record(name: str, keys: list[bytes | None], count: int) -> list[int | None]:
    """What the partitioner itself says; None for a key that it spreads, which two partitioners send elsewhere."""
    cluster = Cluster([NODE], [PartitionInfo("t", index, NODE, (NODE,), (NODE,)) for index in range(count)])
    kind = load_class(name, "partitioner")
    found: list[int | None] = []
    for key in keys:
        answers = {kind().partition("t", key, None, cluster) for _ in range(8)}
        found.append(answers.pop() if len(answers) == 1 else None)
    return found


def test_the_names_are_those_of_all_partitioners_that_hash() -> None:
    assert HASH_PARTITIONERS == (
        "default",
        "classic",
        "murmur2",
        "murmur2_random",
        "crc32",
        "consistent",
        "crc32_random",
        "consistent_random",
        "fnv1a",
        "fnv1a_random",
        "murmur3",
    )


@pytest.mark.parametrize("name", HASH_PARTITIONERS)
@settings(max_examples=60, deadline=None)
@given(keys=KEYS, kind=st.sampled_from(list(BYTES_TYPES.values())), skipped=st.integers(0, 5))
def test_equal_to_the_partitioner_record_by_record(
    name: str, keys: list[bytes | None], kind: pa.DataType, skipped: int
) -> None:
    count = 1009  # so many that eight draws of a random partition are never the same
    array = column(keys, kind)[skipped:]
    found = partitions_of(array, name, count, start=None)
    assert wrapped(found).to_pylist() == by_record(name, keys[skipped:], count)
    assert found.spread == wrapped(found).null_count


@pytest.mark.parametrize("kind", TEXT_TYPES.values(), ids=TEXT_TYPES)
def test_text_is_hashed_as_utf_8(kind: pa.DataType) -> None:
    keys = ["é", "", "a-little-bit-longer-string", None]
    expected = by_record("fnv1a", [None if key is None else key.encode() for key in keys], 1009)
    assert wrapped(partitions_of(column(keys, kind), "fnv1a", 1009, start=None)).to_pylist() == expected


@pytest.mark.parametrize(
    ("name", "key", "index"),
    [
        ("murmur2", b"foobar", 1357151166 % 100),  # Java: toPositive(-790332482)
        ("default", b"21", 1173551340 % 100),
        ("org.apache.kafka.clients.producer.internals.DefaultPartitioner", b"abc", 479470107 % 100),
        ("consistent", b"23456", 0xB1B451D7 % 100),
        ("consistent_random", b"hejsan", 0xD077037E % 100),
        ("fnv1a", b"kafka", 0x0D33C4E1 % 100),
        ("Murmur3Partitioner", b"hello", 0x248BFA47 % 100),
    ],
)
def test_known_vectors(name: str, key: bytes, index: int) -> None:
    assert list(partitions_of(pa.array([key]), name, 100).indexes) == [index]


def test_without_key_the_rows_are_spread_evenly_and_the_same_each_time() -> None:
    keys = pa.array([None, b"k"] * 60)
    first = partitions_of(keys, "murmur2_random", 12)
    spread = Counter(list(first.indexes)[::2])
    assert set(spread.values()) == {5}
    assert len(spread) == 12
    assert first.indexes == partitions_of(keys, "murmur2_random", 12).indexes
    assert first.present is None
    assert first.spread == 60
    halves = [partitions_of(keys[:50], "murmur2_random", 12, start=7)]
    halves.append(partitions_of(keys[50:], "murmur2_random", 12, start=7 + halves[0].spread))
    assert list(halves[0].indexes) + list(halves[1].indexes) == list(
        partitions_of(keys, "murmur2_random", 12, start=7).indexes
    )
    assert halves[0].indexes[0] == 7


def test_no_key_is_an_empty_one_for_librdkafkas_murmur2_and_consistent() -> None:
    for name in ("murmur2", "consistent"):
        found = partitions_of(pa.array([None, b""], pa.binary()), name, 12, start=None)
        assert found.spread == 0
        assert found.indexes[0] == found.indexes[1]
    assert partitions_of(pa.array([b""]), "consistent_random", 12).spread == 1


def test_a_column_of_nothing_and_no_rows() -> None:
    found = partitions_of(pa.nulls(9), "fnv1a", 3, start=None)
    assert wrapped(found).to_pylist() == [None] * 9
    assert len(partitions_of(pa.array([], pa.string()), "fnv1a", 3)) == 0
    assert wrapped(partitions_of(pa.chunked_array([], pa.binary()), "fnv1a", 3, start=None)).to_pylist() == []


def test_chunks_follow_each_other() -> None:
    keys = [str(number).encode() if number % 5 else None for number in range(40)]
    whole = partitions_of(pa.array(keys), "murmur3", 7, start=None)
    chunked = pa.chunked_array([keys[:3], keys[3:20], [], keys[20:]], pa.binary())
    found = partitions_of(OnlyStream(chunked), "murmur3", 7, start=None)
    assert wrapped(found).equals(wrapped(whole))
    assert found.spread == whole.spread == 8


@given(st.lists(st.tuples(st.binary(max_size=5), st.integers(1, 50)), max_size=20))
@settings(deadline=None)
def test_a_count_for_each_row(rows: list[tuple[bytes, int]]) -> None:
    keys, counts = [key for key, _ in rows], [count for _, count in rows]
    found = partitions_of(OnlyArray(pa.array(keys, pa.binary())), "crc32", pa.array(counts, pa.int32()))
    assert list(found.indexes) == [partitions_of(pa.array([k]), "crc32", c).indexes[0] for k, c in rows]


@pytest.mark.parametrize("count", [0, -1, 1 << 31, True, "12", None, 1.0])
def test_a_count_that_no_topic_has(count: Any) -> None:
    with pytest.raises((ConfigError, InvalidRecordError)):
        partitions_of(pa.array([b"k"]), "murmur2", count)


@pytest.mark.parametrize("counts", [pa.array([1, 2]), pa.array([None, 2, 3]), pa.array([1, 0, 3]), pa.array([1] * 4)])
def test_counts_that_are_none(counts: pa.Array) -> None:
    with pytest.raises(InvalidRecordError, match=r"count|number of partitions"):
        partitions_of(pa.array([b"k", b"l", b"m"]), "murmur2", counts)
    more = pa.chunked_array([pa.array([1, 1, 1]), pa.array([1])])
    with pytest.raises(InvalidRecordError, match="more counts of partitions than keys"):
        partitions_of(pa.array([b"k", b"l", b"m"]), "murmur2", more)


def test_what_can_not_be_keys_or_counts() -> None:
    with pytest.raises(InvalidRecordError, match="of type int64 can't be keys"):
        partitions_of(pa.array([1]), "murmur2", 3)
    with pytest.raises(InvalidRecordError, match="of type string can't be the counts"):
        partitions_of(pa.array(["k"]), "murmur2", pa.array(["k"]))
    with pytest.raises(InvalidRecordError, match="not Arrow data"):
        partitions_of([b"k"], "murmur2", 3)


@pytest.mark.parametrize("name", ["round_robin", "sticky", "aioprod.routing.RoundRobinPartitioner"])
def test_a_partitioner_that_does_not_go_by_the_key(name: str) -> None:
    with pytest.raises(ConfigError, match="does not choose by a hash of the key"):
        partitions_of(pa.array([b"k"]), name, 3)


def test_bad_arguments() -> None:
    with pytest.raises(ConfigError, match="'murmur' names no partitioner"):
        partitions_of(pa.array([b"k"]), "murmur", 3)
    with pytest.raises(ConfigError, match="start is -1"):
        partitions_of(pa.array([b"k"]), "murmur2", 3, start=-1)
