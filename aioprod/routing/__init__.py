"""Which partition a record goes to: key hashes and partitioners."""

from __future__ import annotations

from aioprod.routing.columns import HASH_PARTITIONERS, Partitions, partitions_of
from aioprod.routing.partitioners import (
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

__all__ = [
    "HASH_PARTITIONERS",
    "ClassicPartitioner",
    "Crc32Partitioner",
    "Crc32RandomPartitioner",
    "DefaultPartitioner",
    "Fnv1aPartitioner",
    "Murmur2Partitioner",
    "Murmur2RandomPartitioner",
    "Murmur3Partitioner",
    "Partitioner",
    "Partitions",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
    "partitions_of",
]
