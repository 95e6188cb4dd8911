# cython: boundscheck=False, wraparound=False
"""The hashes that Kafka clients turn a key into a partition with, and how each of them counts modulo the partitions.

`<hash>(data)` gives the unsigned 32-bit hash, `<hash>_partition(key, count)` the index of a partition, `count` >= 1
being the number of all partitions of the topic. Same key, same count: same partition as in the client named there.
"""

from __future__ import annotations

import zlib
from typing import Final

import mmh3

from aioprod.wire.buffer import Buffer

__all__ = [
    "HASHES",
    "crc32",
    "crc32_of",
    "crc32_partition",
    "fnv1a",
    "fnv1a_of",
    "fnv1a_partition",
    "murmur2",
    "murmur2_of",
    "murmur2_partition",
    "murmur3",
    "murmur3_of",
    "murmur3_partition",
    "partition_of",
]

HASHES: Final = ("murmur2", "crc32", "fnv1a", "murmur3")
"""The hashes; `partition_of` and `folded` take the index of one."""

_MURMUR2: Final = 0
_CRC32: Final = 1
_FNV1A: Final = 2
_MURMUR3: Final = 3


def partition_of(kind: int, data: Buffer, start: int, size: int, count: int) -> int:
    """Index of the partition of a key of `size` bytes at `data[start:]`."""
    if kind == _MURMUR2:
        hashed = murmur2_of(data, start, size)
    elif kind == _CRC32:
        hashed = crc32_of(data, start, size)
    elif kind == _FNV1A:
        hashed = fnv1a_of(data, start, size)
    else:
        hashed = murmur3_of(data, start, size)
    return folded(kind, hashed) % count


def folded(kind: int, hashed: int) -> int:
    """What clients count modulo the partitions: the unsigned hash, its absolute value, or it without its sign bit."""
    mask = 0xFFFFFFFF
    positive = 0x7FFFFFFF
    if kind == _CRC32:
        return hashed
    if kind == _FNV1A:
        return hashed if hashed <= positive else (hashed ^ mask) + 1
    return hashed & positive


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


def _crc32_tables() -> list[int]:
    """Four times 256 numbers: what a byte does to the checksum, and what it does one, two and three bytes later."""
    tables = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ 0xEDB88320 if value & 1 else value >> 1
        tables.append(value)
    for at in range(3 * 256):
        tables.append(tables[at] >> 8 ^ tables[tables[at] & 255])
    return tables


_CRC32_TABLES: Final = _crc32_tables()


def crc32_of(data: Buffer, start: int, size: int) -> int:
    """The same of `size` bytes from `data[start:]`: zlib's own takes an object for each key."""
    mask = 0xFFFFFFFF
    whole = start + size - (size & 3)
    hashed = mask
    for at in range(start, whole, 4):
        word = hashed ^ (data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24)
        hashed = _CRC32_TABLES[768 + (word & 255)] ^ _CRC32_TABLES[512 + (word >> 8 & 255)]
        hashed ^= _CRC32_TABLES[256 + (word >> 16 & 255)] ^ _CRC32_TABLES[word >> 24]
    for at in range(whole, start + size):
        hashed = _CRC32_TABLES[(hashed ^ data[at]) & 255] ^ hashed >> 8
    return hashed ^ mask


def murmur3(data: bytes) -> int:
    """MurmurHash3 (x86, 32 bit) with seed 0."""
    return mmh3.mmh3_32_uintdigest(data, 0)


def murmur3_of(data: Buffer, start: int, size: int) -> int:
    """The same of `size` bytes from `data[start:]`: mmh3's own takes an object for each key."""
    mask = 0xFFFFFFFF
    before = 0xCC9E2D51
    after = 0x1B873593
    added = 0xE6546B64
    first = 0x85EBCA6B
    second = 0xC2B2AE35
    rest = size & 3
    whole = start + size - rest
    hashed = 0
    for at in range(start, whole, 4):
        word = (data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24) * before & mask
        hashed ^= (word << 15 & mask | word >> 17) * after & mask
        hashed = ((hashed << 13 & mask | hashed >> 19) * 5 + added) & mask
    if rest:
        word = data[whole]
        if rest >= 2:
            word |= data[whole + 1] << 8
        if rest == 3:
            word |= data[whole + 2] << 16
        word = word * before & mask
        hashed ^= (word << 15 & mask | word >> 17) * after & mask
    hashed ^= size
    hashed = (hashed ^ hashed >> 16) * first & mask
    hashed = (hashed ^ hashed >> 13) * second & mask
    return hashed ^ hashed >> 16


def murmur2_partition(key: bytes, count: int) -> int:
    """Java's own: the hash without its sign bit. librdkafka's `murmur2` is the same."""
    return folded(_MURMUR2, murmur2(key)) % count


def crc32_partition(key: bytes, count: int) -> int:
    """librdkafka's `consistent`: the unsigned hash."""
    return folded(_CRC32, crc32(key)) % count


def fnv1a_partition(key: bytes, count: int) -> int:
    """sarama's hash partitioner and librdkafka's `fnv1a`: the absolute value of the hash as a signed number."""
    return folded(_FNV1A, fnv1a(key)) % count


def murmur3_partition(key: bytes, count: int) -> int:
    """The hash without its sign bit."""
    return folded(_MURMUR3, murmur3(key)) % count
