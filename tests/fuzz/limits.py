"""The errors that hostile bytes may cause, and the memory that they may take. Everything else is a finding."""

from __future__ import annotations

import resource
import sys
from typing import Final

from aioprod.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    CorruptRecordError,
    InvalidRecordError,
    ProtocolError,
    UnsupportedVersionError,
)

__all__ = [
    "ALLOWED",
    "DECOMPRESSED_MAX",
    "MEMORY_PER_BYTE",
    "MEMORY_PER_DECOMPRESSED_BYTE",
    "SLACK",
    "memory_max",
    "peak",
]

ALLOWED: Final[dict[str, tuple[type[Exception], ...]]] = {
    "responses": (ProtocolError,),
    "requests": (ProtocolError, UnsupportedVersionError),
    "framing": (ProtocolError, BrokerError),
    "connection": (),
    "answer": (),
    "metadata": (),
    "batches": (ProtocolError,),
    "codecs": (CorruptRecordError,),
    "builder": (),
    "login": (AuthenticationError,),
    "tokens": (),
    "jaas": (ConfigError,),
    "pem": (),
    "stores": (ConfigError,),
    "arrow": (InvalidRecordError,),
}
"""The errors that each target may raise. CorruptRecordError is a ProtocolError.

`framing`: BrokerError is a broker's error for ApiVersions. `connection`: errors go to the futures of requests.
`answer`: responses that are not plain are left to the codec. `metadata`: what can be decoded is applied or ignored.
`builder`: any records can be read back. `arrow`: an array that contradicts itself as a whole; rows fail one by one.
"""

DECOMPRESSED_MAX: Final = 256 * 1024
"""The limit of a batch's decompressed size in bytes when fuzzing; in use it is `DECOMPRESSED_SIZE_MAX`."""

MEMORY_PER_BYTE: Final = 100
"""The memory that one byte of a frame may take: a frame of 1 MB takes at most 100 MB while it is decoded.

The worst are headers (72 bytes for the 2 of an empty name and a null), strings of three characters and arrays of the
smallest structs (24 to 33 bytes for each byte).
"""

MEMORY_PER_DECOMPRESSED_BYTE: Final = 2
"""The memory that one byte of the allowed decompressed size may take, before records are parsed: the codec's output and
its copy."""

SLACK: Final = 8 << 20
"""Bytes of memory that a measurement may be off: allocators get whole arenas from the system."""


def memory_max(frame_size: int, decompressed_max: int = 0) -> int:
    """The memory in bytes that a frame may take while it is decoded."""
    return frame_size * MEMORY_PER_BYTE + decompressed_max * MEMORY_PER_DECOMPRESSED_BYTE


def peak() -> int:
    """The peak memory of this process in bytes, including native memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
