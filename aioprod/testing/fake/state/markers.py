"""Transaction markers: the control batches that end transactions in the logs (KIP-98)."""

from __future__ import annotations

import struct
from typing import Final

from aioprod.records.layout import ATTRIBUTES, CONTROL_FLAG, CRC, MAGIC_V2, SIZE_OVERHEAD, TRANSACTIONAL_FLAG
from aioprod.records.parser import ControlType
from aioprod.wire import crc

__all__ = ["marker"]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_RECORD: Final = struct.Struct(">bbbbbhhbhib")
"""Length, attributes, both deltas; key of 4 bytes: version and type; value of 6: version and coordinator epoch."""


def _zigzag(value: int) -> int:
    return value << 1


def marker(kind: ControlType, producer_id: int, epoch: int, timestamp: int) -> bytes:
    """The bytes of a marker, with base offset 0; `timestamp` in ms."""
    record = _RECORD.pack(_zigzag(_RECORD.size - 1), 0, 0, 0, _zigzag(4), 0, kind, _zigzag(6), 0, 0, 0)
    flags = TRANSACTIONAL_FLAG | CONTROL_FLAG
    size = _HEADER.size + len(record) - SIZE_OVERHEAD
    batch = bytearray(
        _HEADER.pack(0, size, 0, MAGIC_V2, 0, flags, 0, timestamp, timestamp, producer_id, epoch, -1, 1) + record
    )
    struct.pack_into(">I", batch, CRC, crc.function()(batch[ATTRIBUTES:]))
    return bytes(batch)
