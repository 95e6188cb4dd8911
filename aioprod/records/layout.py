"""Where the fields of a record batch v2 are: bytes from the start of the batch (KIP-98, `DefaultRecordBatch`)."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ATTRIBUTES",
    "BASE_OFFSET",
    "BASE_SEQUENCE",
    "BASE_TIMESTAMP",
    "BATCH_LENGTH",
    "CODEC_MASK",
    "CONTROL_FLAG",
    "CRC",
    "HEADER",
    "LAST_OFFSET_DELTA",
    "LEADER_EPOCH",
    "LOG_APPEND_TIME_FLAG",
    "MAGIC",
    "MAGIC_V2",
    "MAX_TIMESTAMP",
    "PREFIX",
    "PRODUCER_EPOCH",
    "PRODUCER_ID",
    "RECORD_COUNT",
    "SIZE_OVERHEAD",
    "TRANSACTIONAL_FLAG",
]

BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 8
LEADER_EPOCH: Final = 12
MAGIC: Final = 16
CRC: Final = 17
ATTRIBUTES: Final = 21
LAST_OFFSET_DELTA: Final = 23
BASE_TIMESTAMP: Final = 27
MAX_TIMESTAMP: Final = 35
PRODUCER_ID: Final = 43
PRODUCER_EPOCH: Final = 51
BASE_SEQUENCE: Final = 53
RECORD_COUNT: Final = 57
HEADER: Final = 61

SIZE_OVERHEAD: Final = LEADER_EPOCH
"""`batch_length` counts the bytes after itself: the batch has this many more."""

PREFIX: Final = 16
"""Free bytes before the batch in a builder's buffer, for what a Produce request writes before the records:
partition index (4 bytes) and length (4 bytes, or a varint of at most 5)."""

MAGIC_V2: Final = 2
CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
