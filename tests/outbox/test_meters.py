"""The health and the metrics of an outbox's table."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import psycopg
import pytest
from prometheus_client.core import Metric

from aioprod.net.protocol.backoff import Backoff
from aioprod.observability.prometheus import Collector
from aioprod.outbox import DatabaseError, Outbox, OutboxHealth, PostgresTable, SqliteTable, deletions, watch
from aioprod.outbox import postgres_holder as holder
from aioprod.relay import loop as relay_module
from aioprod.testing import FakeCluster
from tests.outbox.postgres_databases import NEEDS_POSTGRES
from tests.outbox.relaying import new_relay, sent, until_empty
from tests.support.tasks import running_task

OUTBOX = Outbox()


class Database(NamedTuple):
    """One with an outbox, of either kind."""

    table: Callable[[], PostgresTable | SqliteTable]
    connect: Callable[[], Any]
    """A connection of the service, closed by its block."""

    def put(self, *values: bytes) -> None:
        with self.connect() as connection:
            for value in values:
                OUTBOX.put(connection, "orders", value)
            connection.commit()

    def execute(self, sql: str) -> None:
        with self.connect() as connection:
            connection.execute(sql)
            connection.commit()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.001, 0.01))
    monkeypatch.setattr(watch, "_EVERY_S", 0.01)


@pytest.fixture
def shop(dsn: str) -> str:
    """A new database of Postgres with an outbox."""
    with psycopg.connect(dsn) as connection:
        connection.execute(OUTBOX.ddl("postgres").encode())
    return dsn


@pytest.fixture(params=[pytest.param("postgres", marks=NEEDS_POSTGRES), "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    if request.param == "postgres":
        dsn: str = request.getfixturevalue("shop")
        return Database(lambda: PostgresTable(dsn, OUTBOX), lambda: psycopg.connect(dsn))
    path: str = request.getfixturevalue("path")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OUTBOX.ddl("sqlite"))
    return Database(lambda: SqliteTable(path, OUTBOX), lambda: closing(sqlite3.connect(path, timeout=30)))


async def until(
    source: PostgresTable | SqliteTable, is_so: Callable[[OutboxHealth], bool], task: asyncio.Task[Any] | None = None
) -> OutboxHealth:
    """Wait until the health is so, and return it."""
    while not is_so(health := source.health()):
        if task is not None and task.done():
            await task
        await asyncio.sleep(0.002)
    return health


async def test_what_waits_is_seen_until_it_is_in_kafka(brokers: FakeCluster, database: Database) -> None:
    database.put(b"0", b"1", b"2")
    async with database.table() as source:
        health = await until(source, lambda health: health.waiting_rows == 3)
        assert health.oldest_age_s > 0
        assert health.is_ready()
        assert (health.held_by, health.held_age_s, health.error) == (None, 0.0, None)
        relay = new_relay(brokers, source)
        async with running_task(relay.run()) as task:
            await until(source, lambda health: health.waiting_rows == 0, task)
            assert source.health().oldest_age_s == 0.0
            while source.metrics()["outbox_deleted_rows_total"] < 3:
                await asyncio.sleep(0.002)
            assert relay.metrics()["outbox_read_rows_total"] == 4  # The first one twice, as its start looks at it.


async def test_nothing_is_known_before_the_first_look(database: Database) -> None:
    source = database.table()
    health = source.health()
    assert health == OutboxHealth(0, 0.0, None, 0.0, None, None)
    assert not health.is_ready()
    assert "outbox_seen_age" not in source.metrics()


@pytest.mark.parametrize(("rows", "seen"), [(1000, 1000), (1001, 1011)])
async def test_a_large_backlog_is_known_by_its_ids(database: Database, rows: int, seen: int) -> None:
    database.put(*[b""] * (rows + 10))
    database.execute("DELETE FROM outbox WHERE id > 500 AND id <= 510")
    async with database.table() as source:
        assert (await until(source, lambda health: health.waiting_rows > 0)).waiting_rows == seen
        assert (await source.lag()).records == rows


async def test_what_this_process_has_delivered_does_not_wait_for_its_deletion(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "_EVERY_S", 3600.0)
    database.put(b"0", b"1", b"2")
    async with database.table() as source:
        rows = await source.read(None, 9)
        for _, position in list(rows)[:2]:
            await source.delivered(position)
            while not source.metrics()["outbox_deleted_rows_total"]:
                await asyncio.sleep(0.002)
        assert (await source.lag()).records == 2
        await until(source, lambda health: health.waiting_rows == 1)


async def test_a_table_that_can_not_be_looked_at(database: Database) -> None:
    async with database.table() as source:
        await until(source, OutboxHealth.is_ready)
        database.execute("ALTER TABLE outbox_relay RENAME TO another")
        health = await until(source, lambda health: health.error is not None)
        assert isinstance(health.error, DatabaseError)
        assert not (await until(source, lambda health: (health.seen_age_s or 0.0) > 0.05)).is_ready(0.05)
        database.execute("ALTER TABLE another RENAME TO outbox_relay")
        await until(source, lambda health: health.error is None)


@pytest.mark.parametrize(
    ("health", "is_ready"),
    [
        (OutboxHealth(0, 0.0, None, 0.0, 5.0, None), True),
        (OutboxHealth(1, 29.0, None, 0.0, 5.0, None), True),
        (OutboxHealth(1, 31.0, "a transaction", 31.0, 5.0, None), False),
        (OutboxHealth(0, 0.0, None, 0.0, 31.0, None), False),
    ],
)
def test_when_rows_leave(health: OutboxHealth, is_ready: bool) -> None:
    assert health.is_ready() is is_ready


@NEEDS_POSTGRES
async def test_the_transaction_that_holds_rows_is_named(
    brokers: FakeCluster, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "_NAMED_AFTER_S", 0.0)
    with psycopg.connect(shop, application_name="nightly job") as long, psycopg.connect(shop) as service:
        async with PostgresTable(shop, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            long.execute("SELECT pg_current_xact_id()")
            OUTBOX.put(service, "orders", b"0")
            service.commit()
            health = await until(source, lambda health: health.held_by is not None, task)
            assert "nightly job" in (health.held_by or "")
            assert health.held_age_s > 0
            assert source.metrics()["outbox_held_age"] > 0
            long.rollback()
            await until(source, lambda health: health.held_age_s == 0.0, task)
            assert source.health().held_by is None
            await until_empty(source.lag, task)
    assert sent(brokers) == [b"0"]


@NEEDS_POSTGRES
async def test_notifications_are_counted(brokers: FakeCluster, shop: str) -> None:
    async with PostgresTable(shop, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        with psycopg.connect(shop) as service:
            while not source.metrics()["outbox_notifications_total"]:  # The relay may have looked by itself.
                OUTBOX.put(service, "orders", b"0")
                service.commit()
                await until_empty(source.lag, task)
    assert sent(brokers)


@NEEDS_POSTGRES
async def test_a_table_is_closed_while_a_look_waits_for_a_lock(shop: str) -> None:
    with psycopg.connect(shop) as migration:
        async with asyncio.timeout(60), PostgresTable(shop, OUTBOX) as source:
            await until(source, OutboxHealth.is_ready)
            migration.execute("LOCK TABLE outbox")
            with psycopg.connect(shop, autocommit=True) as other:
                while other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
                    await asyncio.sleep(0.002)
        assert source.health().error is None


async def test_a_table_is_closed_while_a_look_connects(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that is not used yet is closed, too."""
    hangs = asyncio.Event()
    connections: list[psycopg.AsyncConnection[Any]] = []
    execute = psycopg.AsyncConnection.execute

    async def executed(connection: psycopg.AsyncConnection[Any], query: Any, *arguments: Any) -> Any:
        if connection not in connections:
            connections.append(connection)
            if len(connections) == 2:
                hangs.set()
                await asyncio.Event().wait()
        return await execute(connection, query, *arguments)

    monkeypatch.setattr(psycopg.AsyncConnection, "execute", executed)
    async with PostgresTable(shop, OUTBOX):
        await hangs.wait()
    assert [connection.closed for connection in connections] == [True, True]


async def test_a_collector_gets_them_by_the_relay(brokers: FakeCluster, database: Database) -> None:
    database.put(b"0")
    async with database.table() as source:
        await until(source, lambda health: health.waiting_rows == 1)
        relay = new_relay(brokers, source, client_id="shop")
        found: dict[str, Metric] = {metric.name: metric for metric in Collector(relay).collect()}
    (sample,) = found["aioprod_outbox_waiting_rows"].samples
    assert (sample.labels, sample.value) == ({"client_id": "shop"}, 1.0)
    assert "aioprod_outbox_oldest_age_seconds" in found
    assert "aioprod_relay_records" in found
