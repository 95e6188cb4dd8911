"""The checksum of record batches: CRC-32C (Castagnoli), computed by the crc32c library and imported only here."""

from __future__ import annotations

import crc32c as _library

from aioprod.wire.buffer import Buffer

__all__ = ["crc32c"]


def crc32c(data: Buffer) -> int:
    """The CRC-32C of `data` as an unsigned 32-bit number."""
    return _library.crc32c(data)
