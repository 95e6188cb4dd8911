"""Which partition a record goes to: key hashes and partitioners."""

from __future__ import annotations

from aioprod.routing.columns import HASH_PARTITIONERS, Partitions, partitions_of
from aioprod.routing.moves import Move, MovedKeys, moved_keys, moved_share
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
    "Move",
    "MovedKeys",
    "Murmur2Partitioner",
    "Murmur2RandomPartitioner",
    "Murmur3Partitioner",
    "Partitioner",
    "Partitions",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
    "moved_keys",
    "moved_share",
    "partitions_of",
]
