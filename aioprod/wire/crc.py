"""The checksum of record batches: CRC-32C (Castagnoli), computed by the crc32c library and imported only here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from aioprod.wire.buffer import Buffer

__all__ = ["function"]


@cache
def function() -> Callable[[Buffer], int]:
    """What makes the CRC-32C of some bytes: an unsigned 32-bit number.

    The first call imports the library, which takes 15 ms with its command line and version. So the start calls it, and
    not the first batch.
    """
    from crc32c import crc32c

    return crc32c
