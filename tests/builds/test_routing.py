"""Routing: the same hash of every key, alone or in a column, and the same sticky choices of the same random numbers."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.routing import HASH_PARTITIONERS
from tests.support.arrow import BYTES_TYPES, column
from tests.support.builds import Build, check_same

HASHES = ("murmur2", "fnv1a", "crc32", "murmur3")
KEYS = st.binary(max_size=80)


@pytest.mark.parametrize("name", HASHES)
@given(key=KEYS, count=st.integers(1, (1 << 31) - 1))
def test_hashes(name: str, key: bytes, count: int) -> None:
    def call(build: Build) -> object:
        module = build["aioprod.routing.hashes"]
        return getattr(module, name)(key), getattr(module, f"{name}_partition")(key, count)

    check_same(call)


@pytest.mark.parametrize("name", ["murmur2_of", "fnv1a_of", "crc32_of", "murmur3_of"])
@given(data=KEYS, start=st.integers(0, 80), size=st.integers(0, 80))
def test_hashes_of_a_part(name: str, data: bytes, start: int, size: int) -> None:
    start = min(start, len(data))
    size = min(size, len(data) - start)
    check_same(lambda build: getattr(build["aioprod.routing.hashes"], name)(data, start, size))


@given(
    keys=st.lists(st.none() | KEYS, max_size=20),
    kind=st.sampled_from(list(BYTES_TYPES.values())),
    name=st.sampled_from(HASH_PARTITIONERS),
    count=st.integers(0, 1 << 31) | st.lists(st.none() | st.integers(0, 1 << 31), max_size=20),
    start=st.none() | st.integers(0, 1 << 40),
)
def test_columns(
    keys: list[bytes | None], kind: pa.DataType, name: str, count: int | list[int | None], start: int | None
) -> None:
    counts = count if isinstance(count, int) else pa.array((count * 20)[: len(keys)], pa.int64())

    def call(build: Build) -> object:
        found = build["aioprod.routing.columns"].partitions_of(column(keys, kind)[1:], name, counts, start=start)
        return list(found.indexes), found.present, found.spread

    check_same(call)


@given(key=st.none() | KEYS, name=st.sampled_from(HASH_PARTITIONERS), count=st.integers(1, (1 << 31) - 1))
def test_one_key(key: bytes | None, name: str, count: int) -> None:
    check_same(lambda build: build["aioprod.routing.columns"].rule_of(name).partition(key, count))


STEPS = st.one_of(
    st.tuples(st.just("partitions"), st.integers(1, 8), st.sets(st.integers(0, 7))),
    st.tuples(st.just("closed"), st.integers(0, 2000), st.dictionaries(st.integers(0, 7), st.integers(1, 9))),
    st.tuples(st.just("excluding"), st.sets(st.integers(0, 7)), st.dictionaries(st.integers(0, 7), st.integers(1, 9))),
    st.tuples(st.just("switch"), st.none(), st.none()),
)


@given(st.integers(0, 1000), st.booleans(), st.integers(1, 8), st.lists(STEPS, max_size=20))
def test_the_sticky_choice(seed: int, adaptive: bool, count: int, steps: list[tuple[str, Any, Any]]) -> None:
    def call(build: Build) -> object:
        random = Random(seed)
        choice = build["aioprod.routing.sticky"].StickyChoice(random, batch_size=1000, adaptive=adaptive)
        choice.set_partitions(count, range(count))
        chosen = [choice.partition]
        for step, first, second in steps:
            if step == "partitions":
                led = sorted(index for index in second if index < first)
                choice.set_partitions(first, led, led[: first // 3])
            elif step == "closed":
                choice.batch_closed(first, second)
            elif step == "excluding":
                choice.switch(second, first.__contains__)
            else:
                choice.switch()
            chosen.append(choice.partition)
        return chosen, random.random()

    check_same(call)
