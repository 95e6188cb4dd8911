"""Which partition a record goes to: key hashes and partitioners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use
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

if TYPE_CHECKING:
    from aioprod.routing.columns import HASH_PARTITIONERS, Partitions, partitions_of
    from aioprod.routing.moves import Move, MovedKeys, moved_keys, moved_share

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "HASH_PARTITIONERS": "columns",
            "Move": "moves",
            "MovedKeys": "moves",
            "Partitions": "columns",
            "moved_keys": "moves",
            "moved_share": "moves",
            "partitions_of": "columns",
        },
    )
