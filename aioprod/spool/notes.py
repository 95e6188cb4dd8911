"""The small files of a folder: which spool it is, and up to where its records were delivered, or are there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple
from zlib import crc32

from aioprod._short_reprs import shown
from aioprod.errors import MarkerError, SpoolError
from aioprod.spool.files import Files, replace
from aioprod.spool.layout import SUFFIX
from aioprod.spool.reading import Position

__all__ = [
    "DELIVERED",
    "END",
    "ID",
    "NEW_ID",
    "Identity",
    "create_id",
    "identity_in",
    "noted_number",
    "read_id",
    "read_note",
    "write_note",
]

ID: Final = "id"
NEW_ID: Final = "new-id"
"""The identity that the folder is being given: while it is there, some segments have the old one and some the new."""
DELIVERED: Final = "delivered"
END: Final = "end"
"""The last record when the folder was closed: one whose last segment was cut off, or is gone, ends before it."""
_TEXT: Final = "aioprod spool 1 "
_SIZE_MAX: Final = 200


class Identity(NamedTuple):
    """Which spool a folder is."""

    spool_id: bytes
    begin: int = 1
    """The number of its first record: not 1 where the folder was given its id later."""

    def to_bytes(self) -> bytes:
        """As the file has it."""
        begin = "" if self.begin == 1 else f" {self.begin}"
        return f"{_TEXT}{self.spool_id.hex()}{begin}\n".encode()


def create_id(files: Files, random_bytes: Callable[[int], bytes]) -> None:
    """Give a folder without segments an id. One that it has is written again: its name may not be on the disk."""
    sizes = files.sizes()
    if NEW_ID not in sizes and not any(name.endswith(SUFFIX) for name in sizes):
        text = files.read(ID, 0, _SIZE_MAX) if ID in sizes else Identity(random_bytes(16)).to_bytes()
        replace(files, ID, text)


def read_id(files: Files, folder: str) -> Identity:
    """Which spool the folder is; raises SpoolError where it is none, or is being given another id."""
    sizes = files.sizes()
    if NEW_ID in sizes:
        raise SpoolError(
            f"The folder {folder} is being given a new id, and that was not completed.",
            hint=f"Complete it with aioprod spool verify {folder} --new-id; nothing is lost.",
        )
    if ID not in sizes:
        raise SpoolError(
            f"The folder {folder} has no file {ID!r}, which says which spool it is.",
            hint="Was it copied in part? Give the folder of a spool, or an empty one to a producer.",
        )
    return identity_in(files, ID, folder)


def identity_in(files: Files, name: str, folder: str) -> Identity:
    """The identity that one of the two files has; raises SpoolError for one that is damaged."""
    text = files.read(name, 0, _SIZE_MAX).decode(errors="replace").strip()
    if not text.startswith(_TEXT):
        raise SpoolError(
            f"The file {name!r} of the folder {folder} is not that of a spool of this version: {shown(text)}."
        )
    spool_id, _, begin = text.removeprefix(_TEXT).partition(" ")
    try:
        identity = Identity(bytes.fromhex(spool_id), int(begin or 1))
    except ValueError:
        identity = Identity(b"")
    if len(identity.spool_id) != 16 or identity.begin < 1:
        raise SpoolError(f"The file {name!r} of the folder {folder} is damaged: {shown(text)}.")
    return identity


def read_note(files: Files, name: str) -> Position | None:
    """The position that a file has, None where it is not there; raises MarkerError where it is damaged."""
    if name not in files.sizes():
        return None
    text, _, checksum = files.read(name, 0, _SIZE_MAX).partition(b" ")
    if checksum != _checksum(text):
        raise MarkerError(f"The checksum of the position {shown(text)} is wrong.")
    return Position.of(text)


def write_note(files: Files, name: str, position: Position) -> None:
    """Write a position down; it is on the disk when this returns."""
    text = position.to_bytes()
    replace(files, name, text + b" " + _checksum(text))


def noted_number(files: Files, name: str, default: int = 0) -> int:
    """The number that a file has, `default` where it is not there or damaged: segments and marker say more."""
    with suppress(MarkerError):
        position = read_note(files, name)
        if position is not None:
            return position.number
    return default


def _checksum(text: bytes) -> bytes:
    return b"%08x\n" % crc32(text)
