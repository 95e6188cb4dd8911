"""A database that is restored while its relay runs: that ends the relay, and no row is passed over."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from aioprod.errors import MarkerError
from aioprod.outbox import Outbox, PostgresTable, SqliteTable
from aioprod.outbox.positions import Position
from aioprod.outbox.sqlite_rows import SqliteRows
from aioprod.outbox.sqlite_thread import transaction
from aioprod.testing import FakeCluster
from tests.outbox.postgres_databases import NEEDS_POSTGRES
from tests.outbox.relaying import new_relay, sent, until_empty
from tests.support.tasks import running_task

pytestmark = pytest.mark.usefixtures("short_pauses")

OUTBOX = Outbox()


SENT = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("later", [1, 8])
async def test_a_file(brokers: FakeCluster, path: str, tmp_path: Path, later: int) -> None:
    """Rows that were put since have ids below the marker, or above it, too."""

    def put(*values: bytes) -> None:
        with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            for value in values:
                OUTBOX.put(connection, "orders", value)

    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        connection.executescript(OUTBOX.ddl("sqlite"))
        async with SqliteTable(path, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            put(*SENT[:5])
            while connection.execute("SELECT count(*) FROM outbox").fetchall() != [(0,)]:
                await asyncio.sleep(0.002)
            connection.backup(copy)
            put(*SENT[5:])
            await until_empty(source.lag, task)
            copy.backup(connection)
            put(*[b"later"] * later)
            with pytest.raises(MarkerError, match="was the database restored"):
                await asyncio.wait_for(asyncio.shield(task), 30)
        assert connection.execute("SELECT count(*) FROM outbox").fetchall() == [(later,)]
    assert sent(brokers) == SENT


@NEEDS_POSTGRES
@pytest.mark.parametrize("later", [1, 8])
@pytest.mark.parametrize("clean", [False, True], ids=["data", "tables, too"])
async def test_a_database_of_postgres(brokers: FakeCluster, dsn: str, later: int, clean: bool) -> None:
    """As by `pg_restore --data-only` and `--clean`, which disconnect nobody."""
    with psycopg.connect(dsn) as connection:

        def put(*values: bytes) -> None:
            for value in values:
                OUTBOX.put(connection, "orders", value)
            connection.commit()

        connection.execute(OUTBOX.ddl("postgres").encode())
        connection.commit()
        async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            put(*SENT[:5])
            await until_empty(source.lag, task)
            ((owner, system, note),) = connection.execute("SELECT owner, system, delivered FROM outbox_relay")
            put(*SENT[5:])
            await until_empty(source.lag, task)
            if clean:
                connection.execute("DROP TABLE outbox, outbox_relay")
                connection.execute(OUTBOX.ddl("postgres").encode())
                connection.execute("INSERT INTO outbox_relay (owner, system) VALUES (%s, %s)", (owner, system))
            connection.execute("TRUNCATE outbox")
            connection.execute("UPDATE outbox_relay SET delivered = %s", (note,))
            connection.execute("SELECT setval('outbox_id_seq', 5)")
            put(*[b"later"] * later)
            with pytest.raises(MarkerError, match="was the database restored"):
                await asyncio.wait_for(asyncio.shield(task), 30)
        assert connection.execute("SELECT count(*) FROM outbox").fetchall() == [(later,)]
    assert sent(brokers) == SENT


async def test_a_file_between_note_and_deletion(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = sqlite3.connect(tmp_path / "copy.db", check_same_thread=False)
    with closing(sqlite3.connect(path)) as connection, closing(copied) as copy:
        connection.executescript(OUTBOX.ddl("sqlite"))
        async with SqliteTable(path, OUTBOX) as source:
            connection.backup(copy)
            note = SqliteRows.note

            def note_and_restore(rows: SqliteRows, of_relay: sqlite3.Connection, position: Position) -> None:
                note(rows, of_relay, position)
                copy.backup(of_relay)
                with transaction(of_relay, "BEGIN"):
                    OUTBOX.put(of_relay, "orders", b"later")

            monkeypatch.setattr(SqliteRows, "note", note_and_restore)
            with connection:
                OUTBOX.put(connection, "orders", b"0")
            await source.delivered((await source.read(None, 1))[-1][1])
        assert connection.execute("SELECT value FROM outbox").fetchall() == [(b"later",)]


@NEEDS_POSTGRES
async def test_a_database_of_postgres_between_note_and_deletion(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(OUTBOX.ddl("postgres").encode())
        async with PostgresTable(dsn, OUTBOX) as source:
            second = PostgresTable._second

            async def restore(table: PostgresTable) -> psycopg.AsyncConnection[Any]:
                """Before each part of a deletion, where it has noted something."""
                if connection.execute("SELECT FROM outbox_relay WHERE delivered IS NOT NULL").fetchall():
                    connection.execute("UPDATE outbox_relay SET delivered = NULL")
                    connection.execute("UPDATE outbox SET value = 'later'")
                return await second(table)

            monkeypatch.setattr(PostgresTable, "_second", restore)
            with connection.transaction():
                OUTBOX.put(connection, "orders", b"0")
            await source.delivered((await source.read(None, 1))[-1][1])
        assert connection.execute("SELECT value FROM outbox").fetchall() == [(b"later",)]
