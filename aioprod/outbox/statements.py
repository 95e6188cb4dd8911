"""The statements of each kind of database: what creates an outbox, and what puts a row into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from aioprod.errors import ConfigError
from aioprod.outbox.names import TableNames

__all__ = ["ASLEEP", "CHANNEL", "COLUMNS", "DIALECTS", "Dialect", "Insertion", "creation"]

Dialect: TypeAlias = Literal["postgres", "sqlite"]
DIALECTS: Final = ("postgres", "sqlite")
Placeholder: TypeAlias = Callable[[int], str]

COLUMNS: Final = ("topic", "partition", "key", "value", "headers", "timestamp")
"""What `put` gives. Headers are encoded as in a Kafka record; the timestamp is in milliseconds since the epoch."""

ASLEEP: Final = 1_870_492_001
"""The first half of the advisory lock that a relay has while it waits for a notification; the table's oid follows."""
CHANNEL: Final = "aioprod_outbox_"
"""Begins the channel that wakes a relay; the table's oid follows."""

_POSTGRES: Final = """\
CREATE TABLE {names.table} (
    xid XID8 NOT NULL DEFAULT pg_current_xact_id(),  -- Before id: a transaction that draws an id has this by then.
    id BIGINT GENERATED ALWAYS AS IDENTITY (CACHE 1 NO CYCLE) PRIMARY KEY,
    put_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    token INTEGER NOT NULL DEFAULT (random() * 2147483647)::INTEGER,
    partition INTEGER,
    timestamp BIGINT,
    topic TEXT NOT NULL,
    key BYTEA,
    value BYTEA,
    headers BYTEA
);
CREATE TABLE {names.relay} (
    only_row BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_row),
    owner TEXT NOT NULL,
    system BIGINT,
    delivered TEXT
);
"""
_SQLITE: Final = """\
CREATE TABLE {names.table} (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    put_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    token INTEGER NOT NULL DEFAULT (random() & 2147483647),
    partition INTEGER,
    timestamp INTEGER,
    topic TEXT NOT NULL,
    key BLOB,
    value BLOB,
    headers BLOB
);
CREATE TABLE {names.relay} (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    owner TEXT NOT NULL,
    delivered TEXT
);
"""
_WAKING: Final = """ \
RETURNING CASE WHEN pg_try_advisory_lock_shared({asleep}, CAST(CAST('{names.table}' AS regclass) AS integer)) \
THEN CAST(pg_advisory_unlock_shared({asleep}, CAST(CAST('{names.table}' AS regclass) AS integer)) AS text) \
ELSE CAST(pg_notify('{channel}' || CAST(CAST('{names.table}' AS regclass) AS oid), '') AS text) END"""
"""Notifies a relay that waits, and only then: transactions that notify commit one after the other.

The row has its id before this looks for the lock, and the relay has the lock before it looks for ids. So either the
relay sees the id, or this sees the lock.
"""


def creation(names: TableNames, dialect: Dialect) -> str:
    """The statements that create an outbox; raises ConfigError for a database that none is known for."""
    if dialect not in DIALECTS:
        raise ConfigError(f"{dialect!r} is no database that an outbox knows: give {' or '.join(map(repr, DIALECTS))}.")
    return (_POSTGRES if dialect == "postgres" else _SQLITE).format(names=names)


class Insertion:
    """The statement that puts a row, for each driver; in Postgres it notifies the relay if that is wanted."""

    def __init__(self, names: TableNames, *, notifies: bool) -> None:
        self._names = names
        self._notifies = notifies
        self._known: dict[tuple[Dialect, Placeholder], str] = {}

    def __call__(self, dialect: Dialect, placeholder: Placeholder) -> str:
        """It; `placeholder` gives what the driver writes for an argument, counted from 0."""
        sql = self._known.get((dialect, placeholder))
        if sql is None:
            marks = ", ".join(map(placeholder, range(len(COLUMNS))))
            sql = f"INSERT INTO {self._names.table} ({', '.join(COLUMNS)}) VALUES ({marks})"
            if self._notifies and dialect == "postgres":
                sql += _WAKING.format(names=self._names, asleep=ASLEEP, channel=CHANNEL)
            self._known[dialect, placeholder] = sql
        return sql
