"""How a load's input is chunked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import ConfigError
from aioprod.spark.loading.chunks import Chunks, Inputs, chunks_for

MIB = 2**20


def files(*sizes: int) -> Inputs:
    return Inputs({f"s3://bucket/part-{number:03}": size for number, size in enumerate(sizes)})


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40), st.integers(1, 40))
def test_each_file_is_in_one_set_and_no_set_is_empty(sizes: list[int], wanted: int) -> None:
    """The last set is what is left: at least one file."""
    inputs = files(*sizes)
    chunks = chunks_for(inputs, wanted)
    if wanted > len(sizes):
        assert chunks == Chunks(wanted, None)
        return
    assert chunks.sets is not None
    assert len(chunks.sets) == chunks.count - 1 == wanted - 1
    named = [name for names in chunks.sets for name in names]
    assert len(named) == len(set(named)) < len(inputs.files)
    assert all(chunks.sets)


def test_sets_are_of_about_the_same_size_and_always_the_same() -> None:
    inputs = files(*range(100, 0, -1))
    chunks = chunks_for(inputs, 4)
    assert chunks.sets is not None
    sums = [sum(inputs.files[name] for name in names) for names in chunks.sets]
    assert max(sums) - min(sums) <= 4
    assert chunks_for(Inputs(dict(reversed(list(inputs.files.items())))), 4) == chunks


@pytest.mark.parametrize(
    ("inputs", "count", "of"),
    [
        (files(10, 10), 1, "files"),
        (files(*[100 * MIB] * 10), 4, "files"),
        (files(10_000 * MIB), 1, "files"),
        (files(*[300 * MIB] * 3), 3, "files"),
        (files(*[2**40] * 2000), 1000, "files"),
        (Inputs({}), 1, "rows"),
        (replace(files(*[300 * MIB] * 3), is_divisible=False), 1, "rows"),
        (replace(files(*[300 * MIB] * 3), is_divisible=False, estimate=1000 * MIB), 4, "rows"),
        (Inputs({}, estimate=1000 * MIB), 4, "rows"),
        (Inputs({}, estimate=2**49), 1000, "rows"),
    ],
)
def test_the_size_decides_if_nobody_does(inputs: Inputs, count: int, of: str) -> None:
    chunks = chunks_for(inputs, None)
    assert (chunks.count, chunks.of) == (count, of)


@pytest.mark.parametrize("wanted", [0, -1, True, 1.5, "4"])
def test_a_number_of_chunks_that_can_t_be(wanted: object) -> None:
    with pytest.raises(ConfigError, match="chunks is"):
        chunks_for(files(1), wanted)  # type: ignore[arg-type]


def test_a_digest_tells_names_and_sizes_apart() -> None:
    digests = {files(1, 2).digest, files(2, 1).digest, files(1, 2, 3).digest, Inputs({"x": 1}).digest}
    assert len(digests) == 4
    assert files(1, 2).digest == Inputs(dict(reversed(list(files(1, 2).files.items())))).digest
    assert replace(files(1, 2), is_divisible=False).digest == files(1, 2).digest
    assert Inputs({}).digest is None
