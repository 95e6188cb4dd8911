"""A spool as the source of a relay."""

from __future__ import annotations

from collections.abc import Callable

from aioprod._logger import Logger
from aioprod._short_reprs import printable
from aioprod.errors import AioprodError, SpoolError
from aioprod.relay.columns import Row, Rows
from aioprod.spool.aside import ASIDE, Aside
from aioprod.spool.store import Store

__all__ = ["SpoolSource"]

_logger = Logger("aioprod.spool")


class SpoolSource:
    """The records of a store, without those that were set aside."""

    def __init__(self, store: Store, aside: Aside, on_progress: Callable[[], None]) -> None:
        self._store = store
        self._aside = aside
        self._on_progress = on_progress
        """Called when records were delivered, or set aside."""

    @property
    def owner(self) -> str:
        """The folder's id."""
        return self._store.owner

    async def read(self, after: bytes | None, limit: int) -> Rows:
        """The next records that are to be sent."""
        while rows := await self._store.read(after, limit):
            aside = self._aside.positions
            kept = [row for row in rows if row[1] not in aside] if aside else rows
            if kept:
                return kept
            after = rows[-1][1]
        return rows

    async def wait(self) -> None:
        """Return when there may be more."""
        await self._store.wait()

    async def delivered(self, position: bytes) -> None:
        """Everything up to here is in Kafka for good."""
        await self._store.delivered(position)
        self._on_progress()

    async def set_aside(self, row: Row, error: AioprodError) -> None:
        """Write a record to the file of those that brokers will never take; raises SpoolError."""
        record, position = row
        try:
            await self._store.run(lambda: self._aside.add(record, position, error))
        except OSError as failure:
            raise SpoolError(f"A record could not be written to {ASIDE}: {failure.strerror or failure}.") from failure
        _logger.warning(
            "Record %s of the spool, for topic %r, was set aside in %s: %s",
            position.partition(b".")[0].decode(),
            record.topic,
            ASIDE,
            printable(str(error), 500),
        )
        self._on_progress()
