"""What sticky assignors of older members say in the user data of their subscription."""

from __future__ import annotations

import struct

from aioprod.types import TopicPartition

__all__ = ["decode_generation", "decode_sticky"]

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")


def decode_generation(data: bytes) -> int:
    """The generation as the cooperative assignor writes it, -1 where there is none."""
    return _I32.unpack_from(data)[0] if len(data) >= _I32.size else -1


def decode_sticky(data: bytes) -> tuple[list[TopicPartition], int]:
    """Owned partitions and generation as the eager sticky assignor writes them; the first version has no generation.

    Bytes that are neither give no partitions: they decide only how sticky a rebalance is.
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
    # No length decides how much is allocated: each turn reads bytes that have to be there.
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
