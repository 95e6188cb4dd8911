"""Outboxes on real databases and brokers: each committed row is in Kafka once, whatever is killed or goes away."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from aioprod import TopicPartition
from aioprod.admin import Admin
from aioprod.testing import KafkaCluster
from integration.outbox.ordeal import Database, Ordeal, WriterProcesses, hold
from integration.outbox.plans import KEYS, OUTBOX, TABLES, Entry, values_of
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.reading import committed
from tests.outbox.server import PostgresServer, server_folders
from tests.support.length import by_length

PARTITIONS: Final = 6
OF_POSTGRES: Final = by_length(Ordeal(12_000, 3, 1, 1), Ordeal(1_000_000, 20, 5, 6))
OF_SQLITE: Final = by_length(Ordeal(8_000, 3, 0, 1), Ordeal(1_000_000, 20, 0, 6))
OF_FAIL_OVER: Final = Ordeal(60_000, 3, 1, 1)
DELIVERED_S: Final = 300.0
"""How long the relay may take until all is delivered, once the writers have ended."""
FSYNC: Final = (f"fsync={by_length('off', 'on')}",)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(by_length(600, 5400))]


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server with an outbox and the tables of the writers."""
    with server_folders() as (folder,):
        server = PostgresServer(folder, settings=FSYNC)
        server.create()
        server.start()
        try:
            create_tables(server.dsn)
            yield server
        finally:
            server.stop(crashes=True)


def create_tables(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute((OUTBOX.ddl("postgres") + TABLES).encode())
        connection.execute(b"INSERT INTO counters SELECT key, 0 FROM generate_series(0, %s) AS key", (KEYS - 1,))


def of_postgres(dsn: str, sql: str) -> list[Any]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(sql.encode()).fetchall()


def of_sqlite(path: str, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        return connection.execute(sql).fetchall()


@contextmanager
def replica_of(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A replica without which the primary commits nothing."""
    with server_folders() as (folder,):
        replica = primary.copy(folder)
        replica.start()
        try:
            with psycopg.connect(primary.dsn, autocommit=True) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            yield replica
        finally:
            replica.stop(crashes=True)


async def delivered(address: str, query: Any) -> list[Entry]:
    """Wait until the relay has deleted the last row, and return what was committed."""
    async with asyncio.timeout(DELIVERED_S):
        while (await asyncio.to_thread(query, address, "SELECT count(*) FROM outbox"))[0][0]:
            await asyncio.sleep(0.2)
    return [
        Entry(*row) for row in await asyncio.to_thread(query, address, "SELECT key, first, count, token FROM entries")
    ]


async def check(cluster: KafkaCluster, topic: str, entries: list[Entry]) -> int:
    """See that what was committed is in Kafka, once and in order, and nothing else is; how many records that is."""
    expected = values_of(entries)
    found: dict[bytes, list[bytes]] = {}
    for record in await committed(cluster, topic):
        found.setdefault(record.key or b"", []).append(record.value or b"")
    count = sum(map(len, expected.values()))
    wanted, there = (Counter(value for of_key in side.values() for value in of_key) for side in (expected, found))
    assert not (lost := wanted - there), f"{len(lost)} are lost, such as {min(lost)!r}"
    assert not (more := there - wanted), f"{len(more)} are there twice, or were rolled back, such as {min(more)!r}"
    assert found == expected, "records of a key are in another order"
    async with Admin(cluster.bootstrap_servers) as admin:
        offsets = await admin.group_offsets(f"aioprod-eos.{topic}")
    assert offsets[TopicPartition(topic, 0)].offset == count
    return count


def note(figures: Figures, what: str, count: int, seconds: float, writers: WriterProcesses) -> None:
    figures.add(
        f"rows of an outbox in {what}, each once in Kafka, {count / seconds:,.0f} a second; {writers.rolled_back:,} "
        f"transactions rolled back, {writers.lost} without an answer, of which {writers.found} were committed",
        count,
    )


async def test_postgres(kafka_cluster_3: KafkaCluster, make_topic: MakeTopic, figures: Figures) -> None:
    """The relay is killed, the server stops and crashes, and brokers are killed, while 32 writers commit."""
    topic = await make_topic(kafka_cluster_3, PARTITIONS, min_insync_replicas=2)
    chance = random.Random(2)
    with postgres_server() as server:

        async def restart(number: int) -> None:
            await asyncio.to_thread(server.stop, crashes=number % 2 == 0)
            await asyncio.sleep(chance.random())
            await asyncio.to_thread(server.start)

        database = Database("postgres_writers", "PostgresTable", server.dsn)
        start = time.monotonic()
        async with hold(kafka_cluster_3, topic, database, OF_POSTGRES, restart) as writers:
            entries = await delivered(server.dsn, of_postgres)
            seconds = time.monotonic() - start
        count = await check(kafka_cluster_3, topic, entries)
    note(figures, f"Postgres, {OF_POSTGRES}", count, seconds, writers)


async def test_sqlite(kafka_cluster_3: KafkaCluster, make_topic: MakeTopic, figures: Figures, tmp_path: Path) -> None:
    """The relay and brokers are killed while 32 writers of four processes commit."""
    topic = await make_topic(kafka_cluster_3, PARTITIONS, min_insync_replicas=2)
    path = str(tmp_path / "shop.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(OUTBOX.ddl("sqlite") + TABLES)
        connection.executemany("INSERT INTO counters VALUES (?, 0)", [(key,) for key in range(KEYS)])
        connection.commit()
    database = Database("sqlite_writers", "SqliteTable", path)
    start = time.monotonic()
    async with hold(kafka_cluster_3, topic, database, OF_SQLITE) as writers:
        entries = await delivered(path, of_sqlite)
        seconds = time.monotonic() - start
    count = await check(kafka_cluster_3, topic, entries)
    note(figures, f"SQLite, {OF_SQLITE}", count, seconds, writers)


@pytest.mark.long
async def test_postgres_fails_over(kafka_cluster_3: KafkaCluster, make_topic: MakeTopic, figures: Figures) -> None:
    """A replica that has all that was committed takes over, while 32 writers commit and relay and broker are killed."""
    topic = await make_topic(kafka_cluster_3, PARTITIONS, min_insync_replicas=2)
    with postgres_server() as primary, replica_of(primary) as replica:

        async def fail_over(_: int) -> None:
            await asyncio.to_thread(primary.stop, crashes=True)
            of_postgres(replica.dsn, "SELECT pg_promote()")

        hosts = f"{primary.folder},{replica.folder}"
        dsn = f"postgresql://orders@/postgres?host={hosts}&target_session_attrs=read-write"
        database = Database("postgres_writers", "PostgresTable", dsn)
        start = time.monotonic()
        async with hold(kafka_cluster_3, topic, database, OF_FAIL_OVER, fail_over) as writers:
            entries = await delivered(replica.dsn, of_postgres)
            seconds = time.monotonic() - start
        count = await check(kafka_cluster_3, topic, entries)
    note(figures, f"Postgres whose replica takes over, {OF_FAIL_OVER}", count, seconds, writers)
