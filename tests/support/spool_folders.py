"""Folders of spools for tests: filled in groups, looked into, damaged, and files that fail at a given call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aioprod import ProducerRecord
from aioprod.spool import Spool
from aioprod.spool.files import Files, FolderFiles
from aioprod.spool.inspection import Kind, Part, list_segments, walk
from aioprod.spool.looking import records_of
from aioprod.spool.repair import owners_of

__all__ = [
    "TIMESTAMP",
    "CrashError",
    "CrashingFiles",
    "damage",
    "damaged",
    "fill",
    "kept_values",
    "parts",
    "segments",
]


TIMESTAMP = 1_700_000_000_000


async def fill(
    folder: Path, *groups: Sequence[bytes], segment_bytes: int | None = None, topic: str = "t"
) -> list[bytes]:
    """Append groups of values; returns the position of the last record of each."""
    async with Spool(folder, segment_bytes=segment_bytes) as spool:
        return [
            await spool.append([ProducerRecord(topic, value, key=b"k", timestamp=TIMESTAMP) for value in values])
            for values in groups
        ]


def segments(folder: Path) -> list[Path]:
    """The files of the segments, in order."""
    return sorted(folder.glob("*.spool"))


def parts(folder: Path) -> list[Part]:
    """All that its segments have."""
    files = FolderFiles(folder)
    return [part for _, part in walk(files, list_segments(files, owners_of(files, str(folder))))]


def damage(path: Path, value: bytes) -> int:
    """Change a byte of the record with this value; returns where."""
    data = bytearray(path.read_bytes())
    at = data.index(value)
    data[at] ^= 1
    path.write_bytes(data)
    return at


def kept_values(folder: Path, *, is_all: bool = False) -> list[bytes | None]:
    """The values of the records that the folder has."""
    return [record.value for record, _ in records_of(FolderFiles(folder), str(folder), is_all=is_all)]


def damaged(folder: Path) -> list[Part]:
    """What can't be read."""
    return [part for part in parts(folder) if part.kind is Kind.DAMAGED]


class CrashError(Exception):
    """The process is gone at this call."""


class CrashingFiles:
    """Files whose calls that change something raise `CrashError` from number `at` on; half of a write is done."""

    def __init__(self, files: Files, at: int) -> None:
        self._files = files
        self._left = at

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        if name not in ("write", "truncate", "sync", "rename", "remove", "sync_names"):
            return found

        def call(*arguments: Any) -> Any:
            if self._left == 0:
                if name == "write":
                    path, at, data = arguments
                    self._files.write(path, at, data[: len(data) // 2])
                raise CrashError
            self._left -= 1
            return found(*arguments)

        return call
