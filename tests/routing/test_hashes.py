from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.routing.hashes import (
    HASHES,
    crc32,
    crc32_of,
    crc32_partition,
    fnv1a,
    fnv1a_partition,
    murmur2,
    murmur2_partition,
    murmur3,
    murmur3_of,
    murmur3_partition,
    partition_of,
)

MASK_64 = (1 << 64) - 1
ALL = 1 << 33
"""More partitions than hashes, so that a partition function shows the number that it reduces."""
CHECKSUM_TO_100 = 0x13A66EE98240


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
        (b"", 0x106E08D9),
        (b"kafka", 0xD067CF64),
        (b"giberish123456789", 0x8F552B0C),
        (b"1234", 0x9FC97B14),
        (b"234", 0xE7C009CA),
        (b"34", 0x873930DA),
        (b"4", 0x5A4B5CA1),
    ],
)
def test_murmur2_equals_javas_and_librdkafkas(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert murmur2_partition(key, ALL) == hashed & 0x7FFFFFFF


def random_bytes(state: int, length: int) -> tuple[int, bytes]:
    """The next bytes of java.util.SplittableRandom, and its new state."""
    words = []
    for _ in range((length + 7) // 8):
        state = state + 0x9E3779B97F4A7C15 & MASK_64
        word = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK_64
        word = (word ^ word >> 27) * 0x94D049BB133111EB & MASK_64
        words.append((word ^ word >> 31).to_bytes(8, "little"))
    return state, b"".join(words)[:length]


def test_murmur2_of_many_random_arrays() -> None:
    """The beginning of Kafka's UtilsTest.testMurmur2Checksum, whose 1001 lengths sum up to 0xc3b8cf7c99fc.

    The whole takes seconds; it was computed once with this very code, and this part of it was noted then.
    """
    state, total = 0, 0
    for length in range(101):
        for _ in range(100):
            state, data = random_bytes(state, length)
            total += murmur2(data)
    assert total == CHECKSUM_TO_100


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"", 0x7EE3623B), (b"kafka", 0x0D33C4E1), (b"1234", 0x023BDD03), (b"hejsan", 0x17B1E27A)],
)
def test_fnv1a_equals_librdkafkas(key: bytes, hashed: int) -> None:
    assert fnv1a_partition(key, ALL) == hashed


def test_fnv1a_is_the_published_hash() -> None:
    assert (fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")) == (0x811C9DC5, 0xE40C292C, 0xBF9CF968)


@pytest.mark.parametrize(("key", "hashed"), [(b"", 0), (b"23456", 0xB1B451D7), (b"hejsan", 0xD077037E)])
def test_crc32_equals_librdkafkas(key: bytes, hashed: int) -> None:
    assert crc32(key) == hashed
    assert crc32_partition(key, ALL) == hashed
    assert crc32_partition(key, 7) == hashed % 7


@pytest.mark.parametrize(
    ("key", "hashed"), [(b"", 0), (b"hello", 0x248BFA47), (b"hello, world", 0x149BBB7F), (b"foo", 0xF6A5C420)]
)
def test_murmur3_is_the_published_hash(key: bytes, hashed: int) -> None:
    assert murmur3(key) == hashed
    assert murmur3_partition(key, ALL) == hashed & 0x7FFFFFFF


@settings(max_examples=100)
@given(key=st.binary(max_size=40), count=st.integers(1, 1000))
def test_partitions_are_in_range_whatever_kind_of_buffer_holds_the_key(key: bytes, count: int) -> None:
    for partition in (murmur2_partition, crc32_partition, fnv1a_partition, murmur3_partition):
        chosen = partition(key, count)
        assert 0 <= chosen < count
        for same in (bytearray(key), memoryview(key)):
            assert partition(same, count) == chosen  # type: ignore[arg-type]
    assert crc32(key) == zlib.crc32(key)


@given(key=st.binary(max_size=80))
def test_ours_in_place_equal_those_of_the_libraries(key: bytes) -> None:
    data = b"???" + key + b"?"
    assert crc32_of(data, 3, len(key)) == crc32(key) == zlib.crc32(key)
    assert murmur3_of(data, 3, len(key)) == murmur3(key)


@given(key=st.binary(max_size=80), count=st.integers(1, (1 << 31) - 1))
def test_each_hash_by_its_place(key: bytes, count: int) -> None:
    whole = (murmur2_partition, crc32_partition, fnv1a_partition, murmur3_partition)
    assert [partition_of(kind, key, 0, len(key), count) for kind in range(len(HASHES))] == [
        partition(key, count) for partition in whole
    ]
