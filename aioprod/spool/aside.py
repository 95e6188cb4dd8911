"""Records that brokers will never take: they go to a file of their own, with the reason, and leave the way free."""

from __future__ import annotations

import json
from typing import Final

from aioprod._logger import Logger
from aioprod.console.record_json import record_line
from aioprod.errors import AioprodError
from aioprod.spool.files import Files
from aioprod.spool.reading import number_of
from aioprod.types import ProducerRecord

__all__ = ["ASIDE", "Aside", "aside_lines", "entry_line", "positions_in"]

_logger = Logger("aioprod.spool")

ASIDE: Final = "set-aside.jsonl"
"""The file: a JSON object in each line. It stays until a person has looked at it and removed it."""


class Aside:
    """The records of a folder that were set aside."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.positions: set[bytes] = set()

    def load(self) -> None:
        """Read which these are. It changes nothing: another process may be writing the file."""
        self.positions = positions_in(aside_lines(self._files))

    def add(self, record: ProducerRecord, position: bytes, error: AioprodError) -> None:
        """Write a record with the reason; it is on the disk when this returns. Raises OSError."""
        line = entry_line(record, position, reason=str(error))
        self._files.write(ASIDE, self._end(), line)
        self._files.sync(ASIDE)
        self._files.sync_names()
        self._files.done(ASIDE)  # A person may remove the file, and the next record is in a new one then.
        self.positions.add(position)

    def _end(self) -> int:
        """Where the next line goes: one that a crash has cut off is dropped, as its record was not passed over."""
        size = self._files.sizes().get(ASIDE, 0)
        if size and self._files.read(ASIDE, size - 1, 1) != b"\n":
            size = len(aside_lines(self._files))
            self._files.truncate(ASIDE, size)
        return size

    def between(self, after: int, last: int) -> int:
        """How many of them have numbers behind the first one, up to the second."""
        return sum(after < number_of(position) <= last for position in self.positions)


def aside_lines(files: Files) -> bytes:
    """The whole lines of the file: one that a crash has cut off is none."""
    data = files.read(ASIDE, 0, size) if (size := files.sizes().get(ASIDE, 0)) else b""
    return data[: data.rfind(b"\n") + 1]


def positions_in(lines: bytes) -> set[bytes]:
    """The positions of the records that were set aside."""
    found = set()
    for line in lines.splitlines():
        try:
            position = json.loads(line)["position"].encode()
            number_of(position)
            found.add(position)
        except (ValueError, KeyError, TypeError, AttributeError):
            _logger.warning("A line of %s is damaged, and passed over: %.200r", ASIDE, line)
    return found


def entry_line(record: ProducerRecord, position: bytes, **more: str) -> bytes:
    """A record of a spool as a line of JSON."""
    fields = {
        "number": number_of(position),
        "position": position.decode(),
        **more,
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
    }
    return record_line(fields, record.key, record.value, record.headers or ())
