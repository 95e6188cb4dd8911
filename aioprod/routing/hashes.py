# cython: boundscheck=False, wraparound=False
"""The hashes that Kafka clients turn a key into a partition with, and how each of them counts modulo the partitions.

`<hash>(data)` gives the unsigned 32-bit hash, `<hash>_partition(key, count)` the index of a partition, `count` >= 1
being the number of all partitions of the topic. Same key, same count: same partition as in the client named there.
"""

from __future__ import annotations

import zlib

import mmh3

from aioprod.wire.buffer import Buffer

__all__ = [
    "crc32",
    "crc32_partition",
    "fnv1a",
    "fnv1a_of",
    "fnv1a_partition",
    "murmur2",
    "murmur2_of",
    "murmur2_partition",
    "murmur3",
    "murmur3_partition",
]


def murmur2(data: bytes) -> int:
    """MurmurHash2 (32 bit) with the seed of Kafka's Java clients."""
    return murmur2_of(bytes(data), 0, len(data))


def murmur2_of(data: Buffer, start: int, size: int) -> int:
    """The same of `size` bytes from `data[start:]`."""
    # Constants in names: once compiled these are C integers, where a literal over 2**31 would be an object.
    mask = 0xFFFFFFFF
    multiplier = 0x5BD1E995
    seed = 0x9747B28C
    rest = size & 3
    whole = start + size - rest
    hashed = seed ^ size
    for at in range(start, whole, 4):
        word = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        word = word * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        hashed = hashed * multiplier & mask ^ word
    if rest:
        if rest == 3:
            hashed ^= data[whole + 2] << 16
        if rest >= 2:
            hashed ^= data[whole + 1] << 8
        hashed = (hashed ^ data[whole]) * multiplier & mask
    hashed = (hashed ^ hashed >> 13) * multiplier & mask
    return hashed ^ hashed >> 15


def fnv1a(data: bytes) -> int:
    """FNV-1a (32 bit)."""
    return fnv1a_of(bytes(data), 0, len(data))


def fnv1a_of(data: Buffer, start: int, size: int) -> int:
    """The same of `size` bytes from `data[start:]`."""
    mask = 0xFFFFFFFF
    prime = 0x01000193
    hashed = 0x811C9DC5
    for at in range(start, start + size):
        hashed = (hashed ^ data[at]) * prime & mask
    return hashed


def crc32(data: bytes) -> int:
    """The checksum of zlib (ISO 3309)."""
    return zlib.crc32(data)


def murmur3(data: bytes) -> int:
    """MurmurHash3 (x86, 32 bit) with seed 0."""
    return mmh3.mmh3_32_uintdigest(data, 0)


def murmur2_partition(key: bytes, count: int) -> int:
    """Java's own: the hash without its sign bit. librdkafka's `murmur2` is the same."""
    return (murmur2(key) & 0x7FFFFFFF) % count


def crc32_partition(key: bytes, count: int) -> int:
    """librdkafka's `consistent`: the unsigned hash."""
    return zlib.crc32(key) % count


def fnv1a_partition(key: bytes, count: int) -> int:
    """sarama's hash partitioner and librdkafka's `fnv1a`: the absolute value of the hash as a signed number."""
    hashed = fnv1a(key)
    return min(hashed, 0x1_0000_0000 - hashed) % count


def murmur3_partition(key: bytes, count: int) -> int:
    """The hash without its sign bit."""
    return (murmur3(key) & 0x7FFFFFFF) % count
