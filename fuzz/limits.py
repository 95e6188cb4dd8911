"""What hostile bytes may cause, in one place: these errors, this much memory. Everything else is a finding."""

from __future__ import annotations

import resource
import sys
from typing import Final

from aioprod.errors import (
    AuthenticationError,
    BrokerError,
    ConfigError,
    CorruptRecordError,
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
}
"""The errors that each target may raise. CorruptRecordError is a ProtocolError.

`framing`: BrokerError is a broker's refusal of ApiVersions. `connection`: errors go to who asked. `answer`: what is not
plain is left to the codec, not refused. `metadata`: what can be decoded is taken over or passed over. `builder`: any
records can be read back.
"""

DECOMPRESSED_MAX: Final = 256 * 1024
"""What the records of one batch may take here, in bytes; `DECOMPRESSED_SIZE_MAX` is the limit in use."""

MEMORY_PER_BYTE: Final = 100
"""How many bytes of memory one byte of a frame may make: a frame of 1 MB takes 100 MB at most while it is read.

The worst are headers (an empty name and a null make 72 bytes out of 2), texts of three letters and arrays of the
smallest structs (24 to 33 bytes out of each).
"""

MEMORY_PER_DECOMPRESSED_BYTE: Final = 2
"""How many bytes of memory each byte may take that a batch is allowed to decompress to, before records are made of it:
the codec's output and its copy."""

SLACK: Final = 8 << 20
"""Bytes of memory that may be seen to be taken beside: allocators ask the system for whole arenas."""


def memory_max(frame_size: int, decompressed_max: int = 0) -> int:
    """The most bytes of memory that a frame may take while it is read."""
    return frame_size * MEMORY_PER_BYTE + decompressed_max * MEMORY_PER_DECOMPRESSED_BYTE


def peak() -> int:
    """The most memory that this process has ever held, native memory included, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
