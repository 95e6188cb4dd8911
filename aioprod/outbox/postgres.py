"""`PostgresTable`: an outbox in Postgres, as the source of a relay."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final, Self

from aioprod._logger import Logger
from aioprod.errors import ConfigError, UsageError
from aioprod.metrics.families import Family
from aioprod.outbox.deletions import ROWS_MAX, Deletions
from aioprod.outbox.dsn import settings_of
from aioprod.outbox.errors import DatabaseError
from aioprod.outbox.health import OutboxHealth
from aioprod.outbox.horizon import Horizon
from aioprod.outbox.outbox import Outbox
from aioprod.outbox.positions import Position, check, only_row
from aioprod.outbox.postgres_holder import Hold, oldest_transaction
from aioprod.outbox.postgres_session import Connection, PostgresSession, connect, failures, state_of
from aioprod.outbox.rows import OutboxLag, columns_of
from aioprod.outbox.watch import COUNTED_MAX, Waiting, Watch
from aioprod.relay.columns import ColumnRows, Rows

__all__ = ["PostgresTable"]

_logger = Logger("aioprod.outbox")

_POLL_S: Final = (0.001, 0.02)
"""The first and the longest pause between two looks while transactions run, which each double."""
_SAFETY_S: Final = 1.0
"""How long to wait for a notification: rows that a statement of one's own has put come without."""


class PostgresTable:
    """The rows of an outbox in the database `dsn`: those of a key in the order in which their transactions put them.

        async with PostgresTable("postgresql://shop-db/shop", outbox) as source:
            await Relay(source, "host:9092", transactional_id="shop-outbox").run()

    Entering waits until no other process relays this table, by an advisory lock of a connection: connect to the server
    itself, not through a pool that shares connections between transactions. A row is sent when all transactions that
    had begun before it was seen have ended, of any database of the server. Rows that are in Kafka are deleted.

    Needs psycopg (`pip install "aioprod[outbox-postgres]"`) and Postgres 13. Raises ConfigError for a DSN that can't be
    read. Entering raises it for a replica, or a table that is no outbox, MarkerError for a copy in another server, and
    DatabaseError.
    """

    def __init__(self, dsn: str, outbox: Outbox) -> None:
        self._settings = settings_of(dsn)
        self._names = outbox.names
        self._session: PostgresSession | None = None
        self._owner = ""
        self._deleting: Connection | None = None
        """Another one, as the first one waits for notifications."""
        self._deleting_turn = asyncio.Lock()
        self._deleted_to: int | None = None
        """The id up to which no rows are left; None before it is known."""
        self._deletions = Deletions(self._delete)
        self._horizon = Horizon()
        self._checked: tuple[Position | None] | None = None
        """The position of the last row that was read, or behind which there was none; None before the first read."""
        self._pause_s = _POLL_S[0]
        self._hold = Hold()
        self._watch = Watch(self._look, lambda: self._hold.age_s)

    def __repr__(self) -> str:
        return f"<PostgresTable {self._names.text}>"

    async def __aenter__(self) -> Self:
        await self._open()
        self._watch.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        async with AsyncExitStack() as stack:  # Also where a second cancellation comes meanwhile.
            stack.push_async_callback(self._end)
            stack.push_async_callback(self._deletions.close)
            await self._watch.close()

    async def _end(self) -> None:
        for connection in (self._session, self._deleting):
            if connection is not None:
                await connection.close()
        self._session = self._deleting = None

    # --- a relay's source

    @property
    def owner(self) -> str:
        """The random name of the table."""
        if not self._owner:
            raise self._not_open()
        return self._owner

    async def acquire(self) -> None:
        """Wait until this process has the table's lock; relays do so before each start of their producer."""
        if self._session is None:
            raise self._not_open()
        if await self._session.has_lock():
            self._checked = None
            return
        await self._session.close()  # It stays until there is another: deletions see that it is lost.
        await self._open()

    async def _open(self) -> None:
        try:
            async with failures(self._names.text):
                self._session = await PostgresSession.open(self._settings, self._names)
        except ConfigError as error:
            if not self._owner:
                raise
            # It was right before: the primary is being replaced, or a migration runs.
            raise DatabaseError(error.message, hint=error.hint) from None
        # It may be another server now.
        self._owner = self._session.owner
        self._horizon, self._checked, self._deleted_to = Horizon(), None, None
        self._hold.end()

    async def read(self, after: bytes | None, limit: int) -> Rows:
        """The rows behind this one; raises MarkerError where the table is not the one whose rows were sent."""
        position = None if after is None else Position.of(after)
        begin = 0 if position is None else position.id
        self._deletions.check()
        session = self._usable_session()
        async with failures(self._names.text):
            look = await session.look(asleep=False)
            # Also where ids have moved: a database may be restored under a relay that runs.
            if self._checked != (position,) or look.last_id != begin:
                check(self._names.text, position, await session.state(position))
            self._horizon.add(look)
            if self._horizon.id <= begin:
                columns = ColumnRows()
            else:
                columns = columns_of(await session.rows(begin, self._horizon.id, limit))
        self._checked = (Position.of(columns.position(-1)) if columns.topics else position,)
        if columns.topics:
            self._pause_s = _POLL_S[0]
            self._hold.end()
            self._watch.metrics.read.add(len(columns.topics))
        return columns

    async def noted(self) -> bytes | None:
        """The last position that was delivered."""
        session = self._usable_session()
        async with failures(self._names.text):
            return self._deletions.noted((await session.state(None)).delivered)

    async def wait(self) -> None:
        """Return when there may be rows: a writer has notified, or a moment later where transactions run."""
        session = self._usable_session()
        horizon = self._horizon
        async with failures(self._names.text):
            if not horizon.is_waiting:
                self._hold.end()
                seen = horizon.id
                horizon.add(await session.look(asleep=True))
                if horizon.id == seen and not horizon.is_waiting and await session.notified(_SAFETY_S):
                    self._watch.metrics.notifications.add()
                return
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _POLL_S[1])
        if self._hold.continues():
            await self._log_holder()

    async def delivered(self, position: bytes) -> None:
        """Delete the rows up to this one in the background."""
        self._deletions.delivered(Position.of(position))

    # --- what is known

    async def lag(self) -> OutboxLag:
        """What waits in the table, and for which transaction; raises DatabaseError."""
        async with failures(self._names.text), self._deleting_turn:
            connection = await self._second()
            cursor = await connection.execute(
                "SELECT count(*), extract(epoch FROM clock_timestamp() - min(put_at))::float8 "
                f"FROM {self._names.table} WHERE id > %s".encode(),
                (await self._noted_id(connection),),
            )
            ((count, age_s),) = await cursor.fetchall()
            held_by = await oldest_transaction(connection) if self._horizon.is_waiting else None
        return OutboxLag(count, max(0.0, age_s or 0.0), held_by)

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
        """What waits, with what it may cost while a relay runs."""
        table = self._names.table
        async with failures(self._names.text), self._deleting_turn:
            connection = await self._second()
            begin = max(self._deletions.last_id, await self._noted_id(connection))
            cursor = await connection.execute(
                f"SELECT count(*), min(id), (SELECT max(id) FROM {table} WHERE id > %s), "
                "extract(epoch FROM clock_timestamp() - min(put_at))::float8 "
                f"FROM (SELECT id, put_at FROM {table} WHERE id > %s ORDER BY id LIMIT %s) AS some_rows".encode(),
                (begin, begin, COUNTED_MAX + 1),
            )
            ((count, first, last, age_s),) = await cursor.fetchall()
            held_by = await oldest_transaction(connection) if self._hold.is_long else None
        return Waiting.of((count, first, last), age_s, held_by)

    async def _noted_id(self, connection: Connection) -> int:
        cursor = await connection.execute(f"SELECT delivered FROM {self._names.relay}".encode())
        (note,) = only_row(self._names.relay, await cursor.fetchall())
        return 0 if note is None else Position.of(note.encode()).id

    async def _log_holder(self) -> None:
        async with failures(self._names.text), self._deleting_turn:
            holder = await oldest_transaction(await self._second())
        _logger.warning("Rows of the outbox %s wait for the end of %s.", self._names.text, holder)

    # --- parts

    def _usable_session(self) -> PostgresSession:
        session = self._session
        if session is None:
            raise self._not_open()
        if not session.is_usable:
            raise DatabaseError(f"The connection that has the lock of the outbox {self._names.text} was lost.")
        return session

    def _not_open(self) -> UsageError:
        return UsageError("The table is not open.", hint="Use it in a block: async with PostgresTable(...).")

    async def _second(self) -> Connection:
        if self._deleting is None or self._deleting.closed:
            self._deleting = await connect(self._settings)
        return self._deleting

    async def _delete(self, position: Position) -> None:
        """Note a position, then delete the rows up to it."""
        sequence = self._usable_session().sequence
        async with failures(self._names.text), self._deleting_turn:
            connection = await self._second()
            note = position.to_bytes().decode()
            async with connection.transaction():
                await connection.execute(f"SELECT FROM {self._names.relay} FOR UPDATE".encode())
                check(self._names.text, position, await state_of(connection, self._names, sequence, position))
                await connection.execute(f"UPDATE {self._names.relay} SET delivered = %s".encode(), (note,))
            begin = self._deleted_to
            if begin is None:
                cursor = await connection.execute(
                    f"SELECT coalesce(min(id) - 1, %s) FROM {self._names.table}".encode(), (position.id,)
                )
                ((begin,),) = await cursor.fetchall()
        # From where the last deletion has ended: before that there may be rows that the vacuum has not removed yet.
        # Each part looks at the note, as the database may be restored between two.
        for start in range(begin, position.id, ROWS_MAX):
            async with failures(self._names.text), self._deleting_turn:
                connection = await self._second()
                cursor = await connection.execute(
                    f"DELETE FROM {self._names.table} WHERE id > %s AND id <= %s "
                    f"AND EXISTS (SELECT FROM {self._names.relay} WHERE delivered = %s)".encode(),
                    (start, min(start + ROWS_MAX, position.id), note),
                )
            self._watch.metrics.deleted.add(cursor.rowcount)
        self._deleted_to = position.id
