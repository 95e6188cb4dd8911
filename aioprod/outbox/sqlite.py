"""`SqliteTable`: an outbox in a file of SQLite, as the source of a relay."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import AsyncExitStack
from typing import Final, Self

from aioprod.errors import ConfigError, UsageError
from aioprod.metrics.families import Family
from aioprod.outbox.deletions import ROWS_MAX, Deletions
from aioprod.outbox.errors import DatabaseError
from aioprod.outbox.file_lock import FileLock
from aioprod.outbox.health import OutboxHealth
from aioprod.outbox.outbox import Outbox
from aioprod.outbox.positions import Position
from aioprod.outbox.rows import OutboxLag
from aioprod.outbox.sqlite_rows import SqliteRows
from aioprod.outbox.sqlite_thread import SqliteThread
from aioprod.outbox.watch import Waiting, Watch
from aioprod.relay.columns import Rows

__all__ = ["SqliteTable"]

_POLL_S: Final = (0.001, 0.02)
"""The first and the longest pause between two looks for changes, which each double."""


class SqliteTable:
    """The rows of an outbox in the file `path`, in the order of their commits.

        async with SqliteTable("shop.db", outbox) as source:
            await Relay(source, "host:9092", transactional_id="shop-outbox").run()

    Entering waits until no other process relays this table, by a lock on the file `<path>-<table>-relay`. From then on
    the file is in WAL mode. Rows that are in Kafka are deleted.

    Raises ConfigError where the file or the table is missing, or the table's ids may come again.
    """

    def __init__(self, path: str | os.PathLike[str], outbox: Outbox) -> None:
        self._path = os.path.realpath(path)
        self._rows = SqliteRows(outbox.names, self._path)
        self._lock = FileLock(f"{self._path}-{outbox.names.name}-relay")
        self._reading = SqliteThread(self._path)
        self._deleting = SqliteThread(self._path)
        """Another one, as deletions wait for writers."""
        self._deletions = Deletions(self._delete)
        self._watch = Watch(self._look)
        self._owner = ""

    def __repr__(self) -> str:
        return f"<SqliteTable {self._rows.table}>"

    async def __aenter__(self) -> Self:
        try:
            await self._reading.run(lambda _: None)  # A lock's file beside what is no database would be left there.
            await self._lock.acquire()
            self._owner = await self._reading.run(self._rows.open)
        except BaseException as error:
            await self._end()
            if isinstance(error, (OSError, DatabaseError)):
                raise ConfigError(
                    f"{self._path} can't be opened as a database of SQLite: {error}", hint="Give the service's file."
                ) from error
            raise
        self._watch.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:  # Also where a second cancellation comes meanwhile.
            stack.push_async_callback(self._end)
            stack.push_async_callback(self._deletions.close)
            await self._watch.close()

    async def _end(self) -> None:
        try:
            await self._reading.close()
            await self._deleting.close()
        finally:
            self._lock.release()

    # --- a relay's source

    @property
    def owner(self) -> str:
        """The random name of the table."""
        if not self._owner:
            raise UsageError("The table is not open.", hint="Use it in a block: async with SqliteTable(...) as source.")
        return self._owner

    async def read(self, after: bytes | None, limit: int) -> Rows:
        """The rows behind this one; raises MarkerError where the table is not the one whose rows were sent."""
        position = None if after is None else Position.of(after)
        rows = await self._reading.run(lambda connection: self._rows.read(connection, position, limit))
        self._watch.metrics.read.add(len(rows))
        return rows

    async def noted(self) -> bytes | None:
        """The last position that was delivered."""
        return self._deletions.noted(await self._reading.run(self._rows.delivered))

    async def wait(self) -> None:
        """Return when another connection has committed since the last read."""
        pause_s, longest_s = _POLL_S
        while not await self._reading.run(self._rows.may_have_more):
            self._deletions.check()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, longest_s)

    async def delivered(self, position: bytes) -> None:
        """Delete the rows up to this one in the background."""
        self._deletions.delivered(Position.of(position))

    # --- what is known

    async def lag(self) -> OutboxLag:
        """What waits in the table; raises DatabaseError."""
        count, oldest_ms = await self._reading.run(self._rows.waiting)
        return OutboxLag(count, 0.0 if oldest_ms is None else max(0.0, time.time() - oldest_ms / 1000))

    def health(self) -> OutboxHealth:
        """What was seen in the table last, without a request."""
        return self._watch.health()

    def metrics(self) -> dict[str, float]:
        """The present value of every metric of the table, by name; those of its relay include them."""
        return self._watch.metrics.snapshot()

    def metric_families(self) -> list[Family]:
        """The same for monitoring systems."""
        return self._watch.metrics.families()

    async def _look(self) -> Waiting:
        """What waits; by the connection that deletes, so that no read of the relay waits for it."""
        delivered_id = self._deletions.last_id
        return await self._deleting.run(lambda connection: self._rows.look(connection, delivered_id))

    async def _delete(self, position: Position) -> None:
        """Note a position, then delete the rows up to it."""
        await self._deleting.run(lambda connection: self._rows.note(connection, position))
        deleted = ROWS_MAX
        while deleted == ROWS_MAX:
            deleted = await self._deleting.run(lambda connection: self._rows.delete(connection, position, ROWS_MAX))
            self._watch.metrics.deleted.add(deleted)
