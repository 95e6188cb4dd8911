"""What rows come down to: the same for the same rows in the same order, and another one for any others."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import ConfigError
from aioprod.spark.digest import Digest, _digest_task, joined, parts, total

MASK = 2**64 - 1
Row = tuple[int, int, int, int]

HASHES = st.integers(-(2**63), 2**63 - 1)


def signed(number: int) -> int:
    number &= MASK
    return number - 2**64 if number >= 2**63 else number


def plain(rows: list[Row]) -> Digest:
    """By the definition, one row after the other."""
    xor = sum_ = ranked = 0
    for rank, row in enumerate(rows):
        xor ^= row[2]
        sum_ += row[2]
        ranked += row[2] * rank
    offsets = [row[1] for row in rows]
    size = sum(row[3] for row in rows)
    return Digest(len(rows), size, signed(xor), signed(sum_), signed(ranked), offsets[0], offsets[-1])


def rows_of(hashes: list[int], partition: int = 0) -> list[Row]:
    return [(partition, 3 * rank, one, rank % 7) for rank, one in enumerate(hashes)]


def arrays(rows: list[Row]) -> list[np.ndarray]:
    kinds = (np.int32, np.int64, np.int64, np.int64)
    return [np.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]


@given(st.lists(HASHES, min_size=1, max_size=60))
def test_a_run_of_rows(hashes: list[int]) -> None:
    rows = rows_of(hashes)
    assert list(parts(*arrays(rows))) == [(0, plain(rows))]


@given(st.lists(HASHES, min_size=2, max_size=60), st.integers(1, 59))
def test_parts_join(hashes: list[int], cut: int) -> None:
    rows = rows_of(hashes)
    cut = min(cut, len(rows) - 1)
    assert plain(rows[:cut]).then(plain(rows[cut:])) == plain(rows)


@given(st.lists(HASHES, min_size=2, max_size=30, unique=True), st.data())
def test_what_changes_is_seen(hashes: list[int], data: st.DataObject) -> None:
    """Lost, doubled, changed, swapped: by the numbers that do not depend on offsets."""
    whole = plain(rows_of(hashes))
    at = data.draw(st.integers(0, len(hashes) - 2))
    swapped = hashes.copy()
    swapped[at], swapped[at + 1] = swapped[at + 1], swapped[at]
    others = [hashes[:at] + hashes[at + 1 :], [*hashes, hashes[at]], [*hashes[:at], hashes[at] ^ 1, *hashes[at + 1 :]]]
    for other in (swapped, *others):
        assert not plain(rows_of(other)).same_rows(whole)
    moved = [(row[0], row[1] + 1000, row[2], row[3]) for row in rows_of(hashes)]
    assert plain(moved).same_rows(whole)


def test_a_task_sums_up_batches_of_many_partitions() -> None:
    generator = random.Random(7)
    rows = [(place % 3, place, generator.getrandbits(64) - 2**63, place) for place in range(1000)]
    batches = [
        pa.RecordBatch.from_arrays([pa.array(one) for one in arrays(rows[start : start + 130])], names=list("pohs"))
        for start in range(0, 1000, 130)
    ]
    (answer,) = _digest_task(iter([batches[0].slice(0, 0), *batches]))
    found = {row[0]: Digest(*row[1:]) for row in zip(*answer.to_pydict().values(), strict=True)}
    assert answer.schema.types == [pa.int32(), *[pa.int64()] * 7]
    assert found == {partition: plain([row for row in rows if row[0] == partition]) for partition in range(3)}
    assert total(found) == (1000, sum(range(1000)))


def test_offsets_that_fall_begin_another_part() -> None:
    first, second = rows_of([1, 2, 3]), rows_of([4, 5, 6])
    batch = pa.RecordBatch.from_arrays([pa.array(one) for one in arrays(second + first)], names=list("pohs"))
    (answer,) = _digest_task(iter([batch]))
    assert answer.num_rows == 2
    nothing = list(_digest_task(iter([])))
    assert [one.num_rows for one in nothing] == [0]


def test_parts_are_joined_by_their_offsets() -> None:
    a, b = plain([(0, 5, 1, 1), (0, 6, 2, 1)]), plain([(0, 7, 3, 1)])
    assert joined([(0, b), (1, a), (0, a)]) == {0: a.then(b), 1: a}
    assert joined([(0, a), (0, plain([(0, 6, 9, 1)]))]) is None
    assert joined([]) == {}


@pytest.mark.parametrize("given_", [None, [], {"count": 1}, {**plain(rows_of([1])).to_dict(), "bytes": "1"}])
def test_what_is_not_a_digest(given_: object) -> None:
    with pytest.raises(ConfigError, match="digest must have"):
        Digest.from_dict(given_)


def test_a_digest_as_a_dictionary() -> None:
    one = plain(rows_of([7, -8]))
    assert Digest.from_dict(one.to_dict()) == one
