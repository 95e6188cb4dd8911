"""The user data of the sticky assignors: owned partitions and generation, as members older than Kafka 3.1 send them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from aioprod.types import TopicPartition

__all__ = ["decode_generation", "decode_sticky", "encode_generation", "encode_sticky"]

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


def encode_generation(generation: int) -> bytes:
    """The user data of the cooperative assignor."""
    return _I32.pack(generation)


def encode_sticky(owned: Iterable[TopicPartition], generation: int) -> bytes:
    """The user data of the eager sticky assignor."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(owned):
        topics.setdefault(topic, []).append(index)
    parts = [_I32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += [_I16.pack(len(name)), name, struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes)]
    return b"".join([*parts, _I32.pack(generation)])


def decode_generation(data: bytes) -> int:
    """The generation in the user data of the cooperative assignor, -1 where there is none."""
    return _I32.unpack_from(data)[0] if len(data) >= _I32.size else -1


def decode_sticky(data: bytes) -> tuple[list[TopicPartition], int]:
    """Owned partitions and generation from the user data of the eager sticky assignor; version 0 has no generation.

    Malformed bytes give no partitions: they only make a rebalance less sticky.
    """
    try:
        owned, end = _partitions(data)
    except (struct.error, UnicodeDecodeError):
        return [], -1
    return owned, decode_generation(data[end:])


def _partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    owned: list[TopicPartition] = []
    (topics,) = _I32.unpack_from(data)
    position = _I32.size
    # No length decides how much memory is allocated: each iteration reads bytes that have to exist.
    for _ in range(topics):
        (size,) = _I16.unpack_from(data, position)
        position += _I16.size
        if not 0 <= size <= len(data) - position:
            raise struct.error("a topic's name is longer than the data")
        topic = data[position : position + size].decode()
        (count,) = _I32.unpack_from(data, position + size)
        position += size + _I32.size
        for _ in range(count):
            owned.append(TopicPartition(topic, *_I32.unpack_from(data, position)))
            position += _I32.size
    return owned, position
