"""SQLite as the database: one file, for one machine, without a server."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, LiteralString, Self

from examples.orders.database import DatabaseError, Execute

__all__ = ["SQLiteConnector"]

LOCKED_S_MAX: Final = 30.0
"""How long a transaction waits for the one of another process."""


class SQLiteConnector:
    """One connection, used in a thread of its own. Its transactions wait for each other."""

    columns_of: Final = "SELECT name FROM pragma_table_info(?)"

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "sqlite")
        self._turn = asyncio.Lock()
        self._connection: sqlite3.Connection

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._connect)
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    def _connect(self) -> None:
        self._connection = sqlite3.connect(self._path, timeout=LOCKED_S_MAX, isolation_level=None)
        try:
            # Readers don't wait for the writer, and what was committed is on the disk.
            self._use_wal(time.monotonic() + LOCKED_S_MAX)
            self._connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            self._connection.close()
            raise

    def _use_wal(self, deadline: float) -> None:
        """Change the mode of the file, for which SQLite does not wait while another process does the same."""
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    async def __aexit__(self, *_: object) -> None:
        await self._run(self._connection.close)
        self._thread.shutdown()

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Execute]:
        """A transaction that only reads."""
        async with self._transaction("BEGIN") as execute:
            yield execute

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Execute]:
        """A transaction that writes: it has the file's lock from its beginning."""
        async with self._transaction("BEGIN IMMEDIATE") as execute:
            yield execute

    creating = writing

    @asynccontextmanager
    async def _transaction(self, begin: LiteralString) -> AsyncIterator[Execute]:
        async with self._turn:
            try:
                await self._execute(begin)
                yield self._execute
                await self._execute("COMMIT")
            except BaseException:
                # The thread runs it after a statement whose call was cancelled; without a transaction it fails.
                with suppress(DatabaseError):
                    await asyncio.shield(self._execute("ROLLBACK"))
                raise

    async def _execute(self, sql: LiteralString, *arguments: object) -> Sequence[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = await self._run(lambda: self._connection.execute(sql, arguments).fetchall())
        return rows

    async def _run(self, work: Any) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as error:
            raise DatabaseError(f"SQLite, in {self._path}: {error}") from error
