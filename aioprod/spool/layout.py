"""The bytes of a spool's files: segments, and the groups of records in them.

A segment begins with a header: magic, version, the spool's id, the number of its first record, the name of the group
before it, and a checksum. Groups follow. Each is what one write and one sync have brought to the disk: a header with
its first number, how many records it has, their bytes and its random name, and then the records, each with a length and
a checksum (`entries.py`). All numbers are big-endian. The checksums of a spool begin with its id, so what a record's
value holds can't pass for them.

A group is written when the one before it is on the disk. So a group that is not whole was never acknowledged if no
later one follows it, and is damaged if one does. A group without records seals a spool that was closed. A group with a
count and no bytes stands for records that an operator has dropped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import crc32

from aioprod.errors import SpoolError

__all__ = [
    "GROUP_BYTES",
    "NAME_BYTES",
    "NO_NAME",
    "SEGMENT_BYTES",
    "SUFFIX",
    "Group",
    "Segment",
    "file_name",
    "find_groups",
    "group_header",
    "of_another_spool",
    "read_group",
    "read_header",
    "read_segment",
    "seed_of",
    "segment_header",
]

VERSION: Final = 1
SUFFIX: Final = ".spool"
NAME_BYTES: Final = 8
NO_NAME: Final = bytes(NAME_BYTES)
"""The name of the group before the first one."""

_SEGMENT_MAGIC: Final = b"aspS"
_SEGMENT: Final = struct.Struct(">4sH16sQ8s")
_GROUP_MAGIC: Final = b"aspG"
_GROUP: Final = struct.Struct(">QII8s")
_CRC: Final = struct.Struct(">I")

SEGMENT_BYTES: Final = _SEGMENT.size + _CRC.size
GROUP_BYTES: Final = len(_GROUP_MAGIC) + _CRC.size + _GROUP.size


class Segment(NamedTuple):
    """What the header of a segment says."""

    base: int
    """The number of its first record; the first one of all is 1."""
    previous: bytes
    """The name of the group before it."""


class Group(NamedTuple):
    """What the header of a group says, and where it begins."""

    at: int
    base: int
    records: int
    size: int
    """The bytes of its records."""
    name: bytes

    @property
    def end(self) -> int:
        """Where the next group begins."""
        return self.at + GROUP_BYTES + self.size

    @property
    def next(self) -> int:
        """The number of the record after it."""
        return self.base + self.records


def seed_of(spool_id: bytes) -> int:
    """What the checksums of a spool begin with."""
    return crc32(spool_id)


def file_name(base: int) -> str:
    """The name of the segment that begins with this number."""
    return f"{base:020}{SUFFIX}"


def segment_header(spool_id: bytes, segment: Segment) -> bytes:
    """The bytes at the beginning of a segment."""
    data = _SEGMENT.pack(_SEGMENT_MAGIC, VERSION, spool_id, *segment)
    return data + _CRC.pack(crc32(data))


def read_header(name: str, data: bytes) -> tuple[bytes, Segment] | None:
    """The spool that a segment belongs to, and its header; None for one that is cut off or damaged.

    Raises SpoolError for a segment of a later version.
    """
    if len(data) < SEGMENT_BYTES or data[:4] != _SEGMENT_MAGIC:
        return None
    _, version, owner, base, previous = _SEGMENT.unpack_from(data)
    if version != VERSION:
        raise SpoolError(
            f"The segment {name} has version {version} of the format, and this aioprod knows version {VERSION}.",
            hint="Use the version of aioprod that has written it.",
        )
    if crc32(data[: _SEGMENT.size]) != _CRC.unpack_from(data, _SEGMENT.size)[0] or name != file_name(base):
        return None
    return owner, Segment(base, previous)


def read_segment(name: str, data: bytes, spool_id: bytes) -> Segment:
    """Read the header of a segment; raises SpoolError if it is none, of a later version, or of another spool."""
    found = read_header(name, data)
    if found is None:
        raise SpoolError(f"The header of the segment {name} is cut off or damaged.", hint=_LOOK)
    owner, segment = found
    if owner != spool_id:
        raise of_another_spool(name, owner, spool_id)
    return segment


def of_another_spool(name: str, owner: bytes, spool_id: bytes) -> SpoolError:
    """The error for a segment that belongs to another spool than its folder."""
    return SpoolError(
        f"The segment {name} belongs to the spool {owner.hex()}, and this folder is the spool {spool_id.hex()}.",
        hint="Move it back to the folder that it came from.",
    )


_LOOK: Final = "See what is left with aioprod spool verify FOLDER."


def group_header(group: Group, seed: int) -> bytes:
    """The bytes at the beginning of a group."""
    data = _GROUP.pack(group.base, group.records, group.size, group.name)
    return _GROUP_MAGIC + _CRC.pack(crc32(data, seed)) + data


def read_group(data: bytes, at: int, seed: int, file_at: int = 0) -> Group | None:
    """The header of the group at `data[at]`, None if there is none; `data` begins at `file_at` of the file."""
    begin = at + len(_GROUP_MAGIC) + _CRC.size
    if len(data) < at + GROUP_BYTES or not data.startswith(_GROUP_MAGIC, at):
        return None
    if crc32(data[begin : begin + _GROUP.size], seed) != _CRC.unpack_from(data, begin - _CRC.size)[0]:
        return None
    return Group(file_at + at, *_GROUP.unpack_from(data, begin))


def find_groups(data: bytes, seed: int) -> Iterator[Group]:
    """The headers of groups anywhere in `data`."""
    at = data.find(_GROUP_MAGIC)
    while at >= 0:
        group = read_group(data, at, seed)
        if group is not None:
            yield group
        at = data.find(_GROUP_MAGIC, at + 1)
