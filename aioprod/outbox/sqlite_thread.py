"""A connection to a file of SQLite, in a thread of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final, TypeVar
from urllib.parse import quote

from aioprod.outbox.errors import DatabaseError

__all__ = ["SqliteThread", "transaction"]

_T = TypeVar("_T")

_LOCKED_S_MAX: Final = 30.0
"""How long a statement waits for another process's transaction."""


class SqliteThread:
    """Runs functions of the connection one after the other, also those whose callers were cancelled."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "aioprod outbox")
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Call a function with the connection, which is opened for the first one; raises DatabaseError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(self._opened()))
        except sqlite3.Error as error:
            raise DatabaseError(f"The outbox in {self._path} can't be used now: {error}.") from error

    async def close(self) -> None:
        """Close the connection after the functions that run, and end the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            # A file that is not there must not be created: it would be an empty database.
            uri = f"file:{quote(self._path)}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=_LOCKED_S_MAX, isolation_level=None)
            try:
                _use_wal(connection, time.monotonic() + _LOCKED_S_MAX)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _use_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Let readers and the writer not wait for each other.

    SQLite does not wait while another process changes the mode of the file as well.
    """
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    """One transaction, which an exception rolls back."""
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
