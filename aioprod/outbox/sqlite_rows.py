"""The rows of an outbox in SQLite: what is done with a connection, in its thread."""

from __future__ import annotations

import re
import sqlite3
import time
from typing import Final
from uuid import uuid4

from aioprod.errors import ConfigError
from aioprod.outbox.names import TableNames
from aioprod.outbox.positions import Position, TableState, check, only_row
from aioprod.outbox.rows import columns_of
from aioprod.outbox.sqlite_thread import transaction
from aioprod.outbox.watch import COUNTED_MAX, Waiting
from aioprod.relay.columns import Rows

__all__ = ["SqliteRows"]


class SqliteRows:
    """Reads and deletes rows. Writers of SQLite commit one after the other, so ids are in the order of commits."""

    def __init__(self, names: TableNames, path: str) -> None:
        self._names = names
        self._path = path
        self.table: Final = f"{names.text} in {path}"
        """For messages."""
        self._checked: tuple[Position | None] | None = None
        """The position of the last row that was read, or behind which there was none; None before the first read."""
        self._version = -1
        """The number of changes by others, as SQLite counts them, when rows were read last."""

    def open(self, connection: sqlite3.Connection) -> str:
        """Look whether the table is an outbox, give it an owner if it has none, and return that."""
        found = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) IN (lower(?), lower(?)) "
            "ORDER BY length(name)",
            (self._names.name, f"{self._names.name}_relay"),
        ).fetchall()
        if len(found) < 2:
            raise ConfigError(
                f"{self._path} has no outbox {self._names.text!r}.",
                hint='Create it by the statements of Outbox.ddl("sqlite").',
            )
        if re.search(r"\bAUTOINCREMENT\b", found[0][0], re.IGNORECASE) is None:
            raise ConfigError(
                f"The ids of {self.table} come again when rows are deleted.",
                hint='Create the table by the statements of Outbox.ddl("sqlite"): its id has AUTOINCREMENT.',
            )
        relay = self._names.relay
        connection.execute(f"INSERT OR IGNORE INTO {relay} (only_row, owner) VALUES (1, ?)", (uuid4().hex[:16],))
        ((owner,),) = connection.execute(f"SELECT owner FROM {relay}")
        return str(owner)

    def read(self, connection: sqlite3.Connection, position: Position | None, limit: int) -> Rows:
        """The rows behind a position; raises MarkerError."""
        version = _version(connection)  # Before the rows: what comes later is noticed.
        with transaction(connection, "BEGIN"):
            # Also where others have committed: a file may be restored under a relay that runs.
            if self._checked != (position,) or version != self._version:
                check(self.table, position, self._state(connection, position))
            rows = connection.execute(
                "SELECT id, token, CAST(topic AS TEXT), partition, CAST(key AS BLOB), CAST(value AS BLOB), "
                "CAST(headers AS BLOB), coalesce(timestamp, put_at) "
                f"FROM {self._names.table} WHERE id > ? ORDER BY id LIMIT ?",
                (0 if position is None else position.id, limit),
            )
            columns = columns_of(rows)
            rows.close()
        self._version = version
        self._checked = (Position.of(columns.position(-1)) if columns.topics else position,)
        return columns

    def delivered(self, connection: sqlite3.Connection) -> Position | None:
        """The note."""
        return self._state(connection, None).delivered

    def may_have_more(self, connection: sqlite3.Connection) -> bool:
        """Whether another connection has committed since the last read."""
        return _version(connection) != self._version

    def waiting(self, connection: sqlite3.Connection) -> tuple[int, int | None]:
        """How many rows are behind the note, and when the first of them was put, in milliseconds since the epoch."""
        with transaction(connection, "BEGIN"):
            delivered = self.delivered(connection)
            ((count, oldest_ms),) = connection.execute(
                f"SELECT count(*), min(put_at) FROM {self._names.table} WHERE id > ?",
                (0 if delivered is None else delivered.id,),
            )
        return count, oldest_ms

    def look(self, connection: sqlite3.Connection, delivered_id: int) -> Waiting:
        """The same for what it may cost while a relay runs; rows up to this one are known to be in Kafka."""
        table = self._names.table
        note = self.delivered(connection)
        begin = delivered_id if note is None else max(delivered_id, note.id)
        ((count, first, last, oldest_ms),) = connection.execute(
            f"SELECT count(*), min(id), (SELECT max(id) FROM {table}), min(put_at) "
            f"FROM (SELECT id, put_at FROM {table} WHERE id > ? ORDER BY id LIMIT ?)",
            (begin, COUNTED_MAX + 1),
        )
        return Waiting.of((count, first, last), None if oldest_ms is None else time.time() - oldest_ms / 1000)

    def note(self, connection: sqlite3.Connection, position: Position) -> None:
        """Note that all up to this row is in Kafka; raises MarkerError where the row is not that."""
        with transaction(connection, "BEGIN IMMEDIATE"):
            check(self.table, position, self._state(connection, position))
            note = position.to_bytes().decode()
            connection.execute(f"UPDATE {self._names.relay} SET delivered = ?", (note,))

    def delete(self, connection: sqlite3.Connection, position: Position, limit: int) -> int:
        """Delete rows up to one that was noted, so many at most, and return how many.

        Deletes none where that is not the note any more: the file may be restored meanwhile.
        """
        table = self._names.table
        return connection.execute(
            f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id <= ? ORDER BY id LIMIT ?) "
            f"AND EXISTS (SELECT 1 FROM {self._names.relay} WHERE delivered = ?)",
            (position.id, limit, position.to_bytes().decode()),
        ).rowcount

    def _state(self, connection: sqlite3.Connection, position: Position | None) -> TableState:
        relay = self._names.relay
        (note,) = only_row(relay, connection.execute(f"SELECT delivered FROM {relay}").fetchall())
        last = connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE lower(name) = lower(?)", (self._names.name,)
        ).fetchone()
        token = None
        if position is not None:
            sql = f"SELECT token FROM {self._names.table} WHERE id = ?"
            token = connection.execute(sql, (position.id,)).fetchone()
        return TableState(
            0 if last is None else last[0],
            None if note is None else Position.of(note.encode()),
            None if token is None else token[0],
        )


def _version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("PRAGMA data_version")
    return int(version)
