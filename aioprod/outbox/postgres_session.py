"""A connection to Postgres that has the lock of an outbox, and what is read by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Self
from uuid import uuid4

import psycopg
from psycopg.errors import InsufficientPrivilege

from aioprod._logger import Logger
from aioprod._short_reprs import printable
from aioprod.errors import ConfigError, MarkerError
from aioprod.outbox.errors import DatabaseError
from aioprod.outbox.horizon import Look
from aioprod.outbox.names import TableNames
from aioprod.outbox.positions import Position, TableState, only_row
from aioprod.outbox.rows import BYTES_MAX
from aioprod.outbox.statements import ASLEEP, CHANNEL

__all__ = ["PostgresSession", "connect", "failures", "state_of"]

_logger = Logger("aioprod.outbox")

_RELAY: Final = ASLEEP + 1
"""The first half of the advisory lock that the relay of a table has."""
_AGAIN_S: Final = 0.5
"""How often a relay that waits for the lock tries. A statement that waited would hold the vacuum back."""
_VERSION_MIN: Final = 130_000
_SETTINGS: Final = {
    "application_name": "aioprod outbox",
    "connect_timeout": 10,
    # A server that is gone is noticed within half a minute, so that another relay has the lock, or this one again.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}

_SESSION: Final = """
SET default_transaction_isolation = 'read committed';  -- Each statement must see what was committed before it.
SET row_security = off;  -- Rows that the relay's role may not see raise: they would be passed over.
-- A relay whose machine is gone is noticed by the server, too, which has the lock: by itself after two hours.
SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
SET tcp_user_timeout = 25000;
"""
"""Whatever the server's defaults are."""

_LAST_ID: Final = "CASE WHEN is_called THEN last_value ELSE 0 END"

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@asynccontextmanager
async def failures(table: str) -> AsyncIterator[None]:
    """Turn what psycopg raises into DatabaseError."""
    try:
        yield
    except psycopg.Error as error:
        raise DatabaseError(f"The outbox {table} can't be used now: {_text(error)}.") from error


def _text(error: psycopg.Error) -> str:
    """What the server says, in one line."""
    return printable(" ".join(str(error).split()).rstrip("."))


async def connect(settings: Mapping[str, Any]) -> Connection:
    """A connection that commits each statement by itself; raises psycopg.Error."""
    # In SQL_ASCII, which a database may have, psycopg returns bytes for texts.
    known = {**_SETTINGS, **settings, "client_encoding": "utf8"}
    connection = await psycopg.AsyncConnection.connect(**known, autocommit=True)
    try:
        await connection.execute(_SESSION)
    except BaseException:
        await connection.close()
        raise
    return connection


async def state_of(connection: Connection, names: TableNames, sequence: str, position: Position | None) -> TableState:
    """What the table knows of a position."""
    cursor = await connection.execute(
        f"SELECT delivered, (SELECT token FROM {names.table} WHERE id = %s), "
        f"(SELECT {_LAST_ID} FROM {sequence}) FROM {names.relay}".encode(),
        (0 if position is None else position.id,),
    )
    note, token, last_id = only_row(names.relay, await cursor.fetchall())
    return TableState(last_id, None if note is None else Position.of(note.encode()), token)


class _Found(NamedTuple):
    oid: int
    sequence: str
    """Quoted, with its schema."""


class _Held(NamedTuple):
    owner: str
    process: int
    """The id of the server's process that has the lock."""


class PostgresSession:
    """Has the table's lock from `open` until the connection ends."""

    def __init__(self, connection: Connection, names: TableNames, found: _Found, held: _Held) -> None:
        self._connection = connection
        self._names = names
        self._found: Final = found
        self._oid = found.oid if found.oid < 2**31 else found.oid - 2**32
        self.sequence: Final = found.sequence
        """The one of ids, quoted."""
        self.owner: Final = held.owner
        self._process: Final = held.process
        self._is_asleep = False
        """Whether it has the lock by which writers know that they have to notify."""

    @classmethod
    async def open(cls, settings: Mapping[str, Any], names: TableNames) -> Self:
        """Connect, check the table, and wait for its lock.

        Raises ConfigError for a replica or a table that is no outbox, MarkerError for a database that was restored from
        a dump, and psycopg.Error.
        """
        connection = await connect(settings)
        try:
            found = await _look_up(connection, names)
            # Rights that are missing are noticed here.
            await connection.execute(f"DELETE FROM {names.table} AS none WHERE FALSE RETURNING none.*".encode())
            process = await _lock(connection, names, found.oid)
            session = cls(connection, names, found, _Held(await _claim(connection, names), process))
            await connection.execute(f"LISTEN {CHANNEL}{found.oid}".encode())
        except InsufficientPrivilege as error:
            await connection.close()
            raise ConfigError(
                f"The relay's role lacks a right: {_text(error)}.",
                hint="It needs USAGE on the schema, BYPASSRLS where a table has row-level security, and these: "
                f"GRANT SELECT, DELETE ON {names.table} TO <role>; "
                f"GRANT SELECT, INSERT, UPDATE ON {names.relay} TO <role>; GRANT SELECT ON {names.sequence} TO <role>",
            ) from error
        except BaseException:
            await connection.close()
            raise
        return session

    async def close(self) -> None:
        """End the connection, and with it the locks."""
        await self._connection.close()

    @property
    def is_usable(self) -> bool:
        """Whether the connection has not been lost, as far as is known."""
        return not self._connection.closed

    async def has_lock(self) -> bool:
        """Whether the server still has this connection, and with it the lock of the table that has the name now."""
        try:
            return self.is_usable and await _look_up(self._connection, self._names) == self._found
        except (psycopg.Error, ConfigError):
            return False

    # --- looking

    async def state(self, position: Position | None) -> TableState:
        """What the table knows of a position."""
        return await state_of(self._connection, self._names, self.sequence, position)

    async def look(self, *, asleep: bool) -> Look:
        """What is drawn, and then what runs, as statements of one request: each has a snapshot of its own.

        Asleep means that writers notify: they know by a lock, which is taken before the look. `age` counts from the
        next transaction id, which nothing else says without taking one. Raises ConfigError where another process
        answers than the one that has the lock.
        """
        changes = asleep != self._is_asleep
        lock = f"SELECT {'pg_try_advisory_lock' if asleep else 'pg_advisory_unlock'}({ASLEEP}, '{self._oid}'); "
        cursor = await self._connection.execute(
            f"{lock if changes else ''}SELECT {_LAST_ID} FROM {self.sequence}; "
            "SELECT pg_snapshot_xmin(now_)::text::bigint, age('3'::xid), pg_backend_pid() "
            "FROM pg_current_snapshot() AS now_".encode()
        )
        if changes:
            ((was_done,),) = await cursor.fetchall()
            self._is_asleep = asleep and was_done
            cursor.nextset()
        ((last_id,),) = await cursor.fetchall()
        cursor.nextset()
        ((xmin, age, process),) = await cursor.fetchall()
        if process != self._process:
            raise ConfigError(
                f"The relay's connection for the outbox {self._names.text} leads to another process of Postgres than "
                "before: a pool shares it between transactions, so the relay's lock is not kept.",
                hint="Give the server's own address, or a pool with a connection for each client (pool_mode=session).",
            )
        # Modulo 2**32, as an age has 32 bits; the next one is not far above those that run.
        return Look(last_id, xmin, xmin + (3 + age - xmin) % 2**32)

    async def rows(self, after: int, end: int, limit: int) -> list[tuple[Any, ...]]:
        """Rows in the order of ids; those that come after `BYTES_MAX` bytes are left to the next read."""
        size = "coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + coalesce(octet_length(headers), 0)"
        cursor = self._connection.cursor(binary=True)
        await cursor.execute(
            "SELECT id, token, topic, partition, key, value, headers, "
            "coalesce(timestamp, (extract(epoch FROM put_at) * 1000)::bigint) "
            f"FROM (SELECT *, sum({size}) OVER (ORDER BY id) - {size} AS size_before "
            f"FROM (SELECT * FROM {self._names.table} WHERE id > %s AND id <= %s ORDER BY id LIMIT %s) AS some_rows"
            ") AS sized_rows WHERE size_before <= %s ORDER BY id".encode(),
            (after, end, limit, BYTES_MAX),
        )
        return await cursor.fetchall()

    # --- waiting

    async def notified(self, timeout_s: float) -> bool:
        """Return True when a writer has notified, or False after that time."""
        is_notified = False
        async for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
            is_notified = True
        return is_notified


async def _look_up(connection: Connection, names: TableNames) -> _Found:
    cursor = await connection.execute(
        "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, to_regclass(%s)::oid::int8, "
        "to_regclass(%s)::oid::int8",
        (names.table, names.relay),
    )
    ((is_replica, version, oid, relay_oid),) = await cursor.fetchall()
    if is_replica:
        raise ConfigError(
            "The database is a replica, and a relay deletes rows.",
            hint="Give the primary's address; with several hosts, target_session_attrs=read-write finds it.",
        )
    if version < _VERSION_MIN:
        raise ConfigError(f"This is Postgres {version // 10_000}, and an outbox needs 13 or later.")
    if oid is None or relay_oid is None:
        raise ConfigError(
            f"The database {connection.info.dbname!r} has no outbox {names.text!r}.",
            hint='Create it by the statements of Outbox.ddl("postgres"), and see that search_path has its schema.',
        )
    cursor = await connection.execute(
        "SELECT seqrelid::regclass::text, seqcache, seqincrement, seqcycle, "
        "(SELECT attnum FROM pg_attribute WHERE attrelid = %s::oid AND attname = 'xid' AND atthasdef) "
        "< (SELECT attnum FROM pg_attribute WHERE attrelid = %s::oid AND attname = 'id') "
        "FROM pg_sequence JOIN pg_depend ON objid = seqrelid AND deptype IN ('a', 'i') "
        "JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid "
        "WHERE refobjid = %s::oid AND attname = 'id'",
        (oid, oid, oid),
    )
    found = await cursor.fetchall()
    if not found or found[0][1:] != (1, 1, False, True):
        raise ConfigError(
            f"The table {names.text} would lose rows: its ids are not drawn one by one, each after its transaction's.",
            hint='Create it by the statements of Outbox.ddl("postgres"): xid is before id, and id has CACHE 1.',
        )
    return _Found(oid, found[0][0])


async def _lock(connection: Connection, names: TableNames, oid: int) -> int:
    """Wait for the lock; returns the id of the server's process that has it."""
    is_first = True
    while True:
        cursor = await connection.execute(
            "SELECT pg_try_advisory_lock(%s, %s::oid::int4), pg_backend_pid()", (_RELAY, oid)
        )
        ((is_locked, process),) = await cursor.fetchall()
        if is_locked:
            return int(process)
        if is_first:
            _logger.info("Another relay has the outbox %s; this one waits for its end.", names.text)
            is_first = False
        await asyncio.sleep(_AGAIN_S)


async def _claim(connection: Connection, names: TableNames) -> str:
    """Give the table an owner if it has none; raises MarkerError if that was given in another server."""
    await connection.execute(
        f"INSERT INTO {names.relay} (owner, system) SELECT %s, system_identifier FROM pg_control_system() "
        "ON CONFLICT DO NOTHING".encode(),
        (uuid4().hex[:16],),
    )
    cursor = await connection.execute(
        f"SELECT owner, system, (SELECT system_identifier FROM pg_control_system()) FROM {names.relay}".encode()
    )
    ((owner, known, system),) = await cursor.fetchall()
    if known != system:
        raise MarkerError(
            f"The outbox {names.text} was created in another server (system identifier {known}, here {system}): this "
            "is a copy, and two relays would send its rows.",
            hint=f"If the other server will never be used again: UPDATE {names.relay} SET system = {system}",
        )
    return str(owner)
