"""The checksum of record batches: CRC-32C (Castagnoli), computed by the crc32c library and imported only here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from aioprod.wire.buffer import Buffer

__all__ = ["crc32c", "load"]


def crc32c(data: Buffer) -> int:
    """The CRC-32C of `data` as an unsigned 32-bit number."""
    return load()(data)


@cache
def load() -> Callable[[Buffer], int]:
    """Import the library, which takes 15 ms with its command line and version: done at the start, not with a batch."""
    from crc32c import crc32c

    return crc32c
