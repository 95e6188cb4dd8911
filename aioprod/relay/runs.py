"""Runs: the records of a source that leave together. They grow while there is a backlog."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from aioprod.errors import UsageError
from aioprod.relay.columns import ColumnRows, Rows
from aioprod.relay.sending import Sending
from aioprod.relay.source import Source

__all__ = ["Run", "RunReader"]

_FIRST: Final = 500
"""The limit of the first run."""
_MOST: Final = 50_000
_GROWTH: Final = 4
_BYTES_MAX: Final = 8 * 1024 * 1024
"""What a run should have at most: a quarter of the default `buffer.memory`, as the next one is read beside it."""
_MEASURED: Final = 500
"""The bytes of about so many records of a run are added up, as that of all would take time."""


class Run(NamedTuple):
    """Some records of a source, at least one."""

    rows: Rows
    sending: Sending
    """How they are sent."""
    read_at: float
    """When they were read, in monotonic seconds."""

    @property
    def position(self) -> bytes:
        """That of the last record."""
        rows = self.rows
        return rows.position(-1) if isinstance(rows, ColumnRows) else rows[-1][1]


class RunReader:
    """Reads runs. A full one lets the next have four times as many; what is small, or has many bytes, lowers that."""

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._limit = _FIRST

    async def next(self, after: bytes | None, prepare: Callable[[Rows], Sending]) -> Run:
        """The records after this position, prepared to be sent; waits until there are some."""
        while not (rows := await self._source.read(after, self._limit)):
            await self._source.wait()
            await asyncio.sleep(0)  # Where `wait` returns at once, other tasks have their turn all the same.
        if len(rows) > self._limit:
            raise UsageError(
                f"The source {self._source.owner!r} returned {len(rows)} records of {self._limit} at most."
            )
        read_at = self._clock()
        self._adjust(rows)
        return Run(rows, prepare(rows), read_at)

    def begin_small(self) -> None:
        """A run has failed, perhaps as it was too large for the time of a transaction: grow again."""
        self._limit = _FIRST

    def narrow(self, limit: int) -> None:
        """Let the next run have so many records at most."""
        self._limit = limit

    def _adjust(self, rows: Rows) -> None:
        if len(rows) == self._limit:
            self._limit = min(self._limit * _GROWTH, _MOST)
        elif len(rows) < self._limit // 4:
            self._limit = max(self._limit // 2, _FIRST)
        if isinstance(rows, ColumnRows):
            count, size = len(rows), rows.size
        else:
            some = rows[:: 1 + len(rows) // _MEASURED]
            count, size = len(some), sum(_size(record.value) + _size(record.key) for record, _ in some)
        if size > 0:
            self._limit = max(1, min(self._limit, _BYTES_MAX * count // size))


def _size(value: object) -> int:
    return len(value) if isinstance(value, (bytes, str)) else 0
