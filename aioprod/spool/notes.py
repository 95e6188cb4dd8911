"""The small files of a spool: its id, and positions."""

from __future__ import annotations

from typing import Final
from zlib import crc32

from aioprod._logger import Logger
from aioprod._short_reprs import shown
from aioprod.errors import MarkerError, SpoolError
from aioprod.spool.files import replace
from aioprod.spool.layout import SUFFIX
from aioprod.spool.reading import Position
from aioprod.spool.storage import Storage

__all__ = ["Note", "read_id"]

_logger = Logger("aioprod.spool")

_ID: Final = "id"
_ID_TEXT: Final = "aioprod spool 1 "
_BYTES_MAX: Final = 200


class Note:
    """A file that says up to which record something is so. A crash may leave an earlier one."""

    def __init__(self, storage: Storage, name: str, seed: int) -> None:
        self._storage = storage
        self._name = name
        self._seed = seed
        self.position: Position | None = None
        """What the file says."""

    @property
    def number(self) -> int:
        """The number of the record, 0 without one."""
        return 0 if self.position is None else self.position.number

    def read(self) -> None:
        """Read the file, if it is there; one that is damaged is logged, and says nothing."""
        files = self._storage.files
        if self._name not in files.sizes():
            return
        text, _, crc = files.read(self._name, 0, _BYTES_MAX).partition(b" ")
        try:
            if crc != self._crc(text):
                raise MarkerError(f"The checksum of {shown(text)} is wrong.")
            self.position = Position.of(text)
        except MarkerError:
            _logger.warning("The file %r of the spool %s is damaged, and not used.", self._name, self._storage.name)

    def write(self, position: Position) -> None:
        """Write a later position."""
        if position.number > self.number:
            text = position.to_bytes()
            replace(self._storage.files, self._name, text + b" " + self._crc(text))
            self.position = position

    def _crc(self, text: bytes) -> bytes:
        return b"%08x\n" % crc32(text, self._seed)


def read_id(storage: Storage, *, may_create: bool) -> bytes:
    """The id of the folder; a new one has none yet. Raises SpoolError, OSError."""
    files = storage.files
    sizes = files.sizes()
    is_new = may_create and not any(name.endswith(SUFFIX) for name in sizes)
    if _ID not in sizes:
        if not is_new:
            raise SpoolError(
                f"The folder {storage.name} has no file {_ID!r}, which says which spool it is.",
                hint="Was it copied in part? Give the folder of a spool, or an empty one to a producer.",
            )
        text = _ID_TEXT + storage.random_bytes(16).hex()
    else:
        text = files.read(_ID, 0, _BYTES_MAX).decode(errors="replace").strip()
    if not text.startswith(_ID_TEXT):
        raise SpoolError(
            f"The file {_ID!r} of the folder {storage.name} is not that of a spool of this version: {shown(text)}."
        )
    try:
        spool_id = bytes.fromhex(text.removeprefix(_ID_TEXT))
    except ValueError:
        spool_id = b""
    if len(spool_id) != 16:
        raise SpoolError(f"The file {_ID!r} of the folder {storage.name} is damaged: {shown(text)}.")
    if is_new:  # Also where it is there: the process that wrote it may have failed to bring it to the disk.
        replace(files, _ID, f"{text}\n".encode())
    return spool_id
