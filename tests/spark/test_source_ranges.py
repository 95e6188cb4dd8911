from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from aioprod.spark.source.ranges import Stretch, shares, split_stretches
from aioprod.types import TopicPartition

SIZES = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=12)


def stretches(sizes: list[tuple[int, int]]) -> list[Stretch]:
    return [Stretch("t", index, start, start + size, None, True) for index, (start, size) in enumerate(sizes)]


@given(SIZES, st.integers(1, 40), st.none() | st.integers(1, 400))
def test_pieces_cover_all_once(sizes: list[tuple[int, int]], least: int, most: int | None) -> None:
    whole = stretches(sizes)
    pieces = split_stretches(whole, min_partitions=least, records_per_partition=most)
    for one in whole:
        mine = [piece for piece in pieces if piece.partition == one.partition]
        bounds = [one.start, *(piece.end for piece in mine)]
        assert bounds[:-1] == [piece.start for piece in mine]
        assert bounds[-1] == one.end
        assert [piece.from_earliest for piece in mine] == [index == 0 for index in range(len(mine))]
    assert all(piece.size > 0 for piece in pieces)
    assert len(pieces) >= min(least, sum(size for _, size in sizes))
    if most is not None:
        assert all(piece.size <= most for piece in pieces)


def test_the_largest_are_divided() -> None:
    pieces = split_stretches(stretches([(0, 100), (0, 10), (0, 0), (7, 50)]), min_partitions=6)
    assert [(piece.partition, piece.start, piece.end) for piece in pieces] == [
        (0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 10), (3, 7, 32), (3, 32, 57),
    ]  # fmt: skip
    assert split_stretches([], min_partitions=5) == []


def test_a_stretch_can_be_pickled() -> None:
    (one,) = stretches([(1, 2)])
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.tp == TopicPartition("t", 0)


@given(st.lists(st.integers(0, 1 << 50), max_size=10), st.integers(1, 1 << 52))
def test_shares(sizes: list[int], limit: int) -> None:
    wanted = {TopicPartition("t", index): size for index, size in enumerate(sizes)}
    given_ = shares(wanted, limit)
    assert given_.keys() == wanted.keys()
    assert all((share > 0) == (wanted[tp] > 0) and share <= wanted[tp] for tp, share in given_.items())
    wanting = sum(size > 0 for size in sizes)
    assert sum(given_.values()) <= max(limit, wanting)
    assert sum(given_.values()) >= min(limit, sum(sizes)) - wanting
