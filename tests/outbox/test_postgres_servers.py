"""An outbox in servers of Postgres that restart, crash, and are replaced by their replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from aioprod.errors import ConfigError, MarkerError
from aioprod.net.protocol.backoff import Backoff
from aioprod.outbox import DatabaseError, Outbox, PostgresTable, postgres_session
from aioprod.outbox.dsn import settings_of
from aioprod.relay import loop as relay_module
from aioprod.testing import FakeCluster
from aioprod.testing.kafka.broker_properties import HOST, free_ports
from tests.outbox.postgres_databases import NEEDS_POSTGRES, new_database
from tests.outbox.relaying import new_relay, relay_all, sent, until_empty
from tests.outbox.server import PostgresServer, server_folders
from tests.support.tasks import running_task

pytestmark = NEEDS_POSTGRES

OUTBOX = Outbox()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.01, 0.05))
    monkeypatch.setattr(relay_module, "_FENCED_PAUSE_S", 0.001)
    monkeypatch.setattr(postgres_session, "_AGAIN_S", 0.01)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One with an outbox."""
    with server_folders() as (folder,):
        server = PostgresServer(folder)
        server.create()
        server.start()
        try:
            with psycopg.connect(server.dsn) as connection:
                connection.execute(OUTBOX.ddl("postgres").encode())
            yield server
        finally:
            server.stop(crashes=True)


@pytest.fixture
def servers(server: PostgresServer) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A primary with an outbox, and its replica; both run."""
    with server_folders() as (folder,):
        replica = server.copy(folder)
        try:
            replica.start()
            yield server, replica
        finally:
            replica.stop(crashes=True)


def put(dsn: str, *values: bytes) -> None:
    with psycopg.connect(dsn) as connection:
        for value in values:
            OUTBOX.put(connection, "orders", value, key=b"k")


def until_replicated(primary: PostgresServer, replica: PostgresServer) -> None:
    with (
        psycopg.connect(primary.dsn, autocommit=True) as source,
        psycopg.connect(replica.dsn, autocommit=True) as target,
    ):
        ((end,),) = source.execute("SELECT pg_current_wal_lsn()::text").fetchall()
        while not _one(target, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", end):
            time.sleep(0.01)


def promote(replica: PostgresServer) -> None:
    with psycopg.connect(replica.dsn, autocommit=True) as connection:
        assert _one(connection, "SELECT pg_promote()")


def _one(connection: psycopg.Connection[Any], sql: str, *arguments: Any) -> Any:
    ((found,),) = connection.execute(sql.encode(), arguments).fetchall()
    return found


def of_both(primary: PostgresServer, replica: PostgresServer) -> str:
    """The DSN of the one that is the primary now."""
    hosts = f"{primary.folder},{replica.folder}"
    return f"postgresql://orders@/postgres?host={hosts}&target_session_attrs=read-write"


async def test_restarts_and_crashes(brokers: FakeCluster, server: PostgresServer) -> None:
    async with PostgresTable(server.dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        for number in range(4):
            await asyncio.to_thread(put, server.dsn, b"%d" % number)
            await asyncio.to_thread(server.stop, crashes=number % 2 == 0)
            await asyncio.to_thread(server.start)
        while len(sent(brokers)) < 4:
            assert not task.done()
            await asyncio.sleep(0.01)
    assert sent(brokers) == [b"0", b"1", b"2", b"3"]


async def test_rows_are_to_be_deleted_while_the_server_is_away(server: PostgresServer) -> None:
    """The relay tries again: it must not end."""
    async with PostgresTable(server.dsn, OUTBOX) as source:
        await asyncio.to_thread(server.stop, crashes=True)
        for failing in (source.read(None, 1), source.acquire()):
            with pytest.raises(DatabaseError):
                await failing
        with pytest.raises(DatabaseError, match="was lost"):
            await _deliver_again_and_again(source)


async def _deliver_again_and_again(source: PostgresTable) -> None:
    while True:
        await source.delivered(b"1.0")
        await asyncio.sleep(0.001)


async def test_a_replica_takes_over(brokers: FakeCluster, servers: tuple[PostgresServer, PostgresServer]) -> None:
    primary, replica = servers
    async with (
        PostgresTable(of_both(primary, replica), OUTBOX) as source,
        running_task(new_relay(brokers, source).run()) as task,
    ):
        await asyncio.to_thread(put, primary.dsn, b"0", b"1")
        await until_empty(source.lag, task)
        await asyncio.to_thread(until_replicated, primary, replica)
        await asyncio.to_thread(primary.stop, crashes=True)
        await asyncio.to_thread(promote, replica)
        await asyncio.to_thread(put, replica.dsn, b"2")
        while len(sent(brokers)) < 3:
            assert not task.done()
            await asyncio.sleep(0.01)
    assert sent(brokers) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("later", [0, 1, 5])
async def test_a_replica_that_lacks_rows_takes_over(
    brokers: FakeCluster, servers: tuple[PostgresServer, PostgresServer], later: int
) -> None:
    primary, replica = servers
    await asyncio.to_thread(put, primary.dsn, b"0")
    await asyncio.to_thread(until_replicated, primary, replica)
    await asyncio.to_thread(replica.stop)
    await asyncio.to_thread(put, primary.dsn, b"1", b"2")
    async with PostgresTable(primary.dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    await asyncio.to_thread(primary.stop, crashes=True)
    await asyncio.to_thread(replica.start)
    await asyncio.to_thread(promote, replica)
    if later:
        await asyncio.to_thread(put, replica.dsn, *[b"later"] * later)
    async with PostgresTable(replica.dsn, OUTBOX) as source:
        with pytest.raises(MarkerError):
            await new_relay(brokers, source).run()
    assert sent(brokers) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("since", [0, 1, 3])
async def test_a_dump_is_restored(brokers: FakeCluster, server: PostgresServer, since: int) -> None:
    """What was put and sent since the dump is in Kafka only; with nothing of that it goes on."""
    await asyncio.to_thread(put, server.dsn, b"0", b"1")
    async with PostgresTable(server.dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    await asyncio.to_thread(put, server.dsn, b"of the dump")
    restored = new_database(server.dsn)
    await asyncio.to_thread(server.dump, restored)
    if since:
        await asyncio.to_thread(put, server.dsn, *[b"since"] * since)
        async with PostgresTable(server.dsn, OUTBOX) as source:
            await relay_all(brokers, source)
    before = sent(brokers)
    await asyncio.to_thread(put, restored, b"later", b"later")
    async with PostgresTable(restored, OUTBOX) as source:
        if since:
            with pytest.raises(MarkerError, match="was the database restored"):
                await new_relay(brokers, source).run()
        else:
            await relay_all(brokers, source)
    assert sent(brokers) == (before if since else [*before, b"of the dump", b"later", b"later"])


async def test_a_dump_is_restored_in_another_server(server: PostgresServer) -> None:
    """Transaction ids are lower there."""
    async with PostgresTable(server.dsn, OUTBOX):
        pass  # Now the table knows its server.
    with server_folders() as (folder,):
        other = PostgresServer(folder)
        await asyncio.to_thread(other.create)
        await asyncio.to_thread(other.start)
        try:
            await asyncio.to_thread(server.dump, other.dsn)
            with pytest.raises(MarkerError, match="was created in another server"):
                async with PostgresTable(other.dsn, OUTBOX):
                    pass
        finally:
            other.stop(crashes=True)


async def test_a_server_notices_that_the_machine_of_a_relay_is_gone() -> None:
    """Else it would keep the lock for two hours."""
    port = free_ports(1)[0].client
    with server_folders() as (folder,):
        server = PostgresServer(folder, settings=(f"listen_addresses={HOST}", f"port={port}"))
        server.dsn = f"postgresql://orders@{HOST}:{port}/postgres"
        server.create()
        server.start()
        try:
            async with await postgres_session.connect(settings_of(server.dsn)) as connection:
                shown = [
                    (await (await connection.execute(f"SHOW {name}".encode())).fetchall())[0][0]
                    for name in ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
                ]
        finally:
            server.stop(crashes=True)
    assert shown == ["10", "5", "3"]


async def test_a_replica_is_no_source(servers: tuple[PostgresServer, PostgresServer]) -> None:
    with pytest.raises(ConfigError, match="is a replica"):
        async with PostgresTable(servers[1].dsn, OUTBOX):
            pass


async def test_a_replica_that_is_reached_for_a_while_ends_no_relay(
    brokers: FakeCluster, servers: tuple[PostgresServer, PostgresServer]
) -> None:
    """As where a name leads to the next primary before it is that."""
    primary, replica = servers
    await asyncio.to_thread(put, primary.dsn, b"0")
    async with PostgresTable(primary.dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        await until_empty(source.lag, task)
        await asyncio.to_thread(until_replicated, primary, replica)
        source._settings = settings_of(replica.dsn)
        await asyncio.to_thread(primary.stop, crashes=True)
        while source._session is not None and source._session.is_usable:
            await asyncio.sleep(0.001)
        with pytest.raises(DatabaseError, match="is a replica"):
            await source.acquire()
        await asyncio.to_thread(promote, replica)
        await asyncio.to_thread(put, replica.dsn, b"1")
        while len(sent(brokers)) < 2:
            assert not task.done()
            await asyncio.sleep(0.01)
    assert sent(brokers) == [b"0", b"1"]


async def test_a_prepared_transaction_is_named(brokers: FakeCluster, server: PostgresServer) -> None:
    with psycopg.connect(server.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        connection.execute("PREPARE TRANSACTION 'of a broken coordinator'")
    await asyncio.to_thread(put, server.dsn, b"0")
    async with PostgresTable(server.dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        while (held_by := (await source.lag()).held_by) is None:
            await asyncio.sleep(0.002)
        assert "prepared as 'of a broken coordinator'" in held_by
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("ROLLBACK PREPARED 'of a broken coordinator'")
        await until_empty(source.lag, task)
    assert sent(brokers) == [b"0"]


async def test_two_phase_commit_needs_an_outbox_that_does_not_notify(
    brokers: FakeCluster, servers: tuple[PostgresServer, PostgresServer]
) -> None:
    """Postgres refuses it where the relay was asleep, so it would fail now and then."""
    primary, _ = servers
    async with PostgresTable(primary.dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        with psycopg.connect(primary.dsn, autocommit=True) as connection:
            while not _one(connection, "SELECT count(*) FROM pg_locks WHERE classid = 1870492001"):
                await asyncio.sleep(0.002)
            connection.execute("BEGIN")
            OUTBOX.put(connection, "orders", b"0")
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="PREPARE a transaction that has executed"):
                connection.execute("PREPARE TRANSACTION 'first'")
            connection.execute("ROLLBACK")
            connection.execute("BEGIN")
            Outbox(notifies=False).put(connection, "orders", b"1")
            connection.execute("PREPARE TRANSACTION 'second'")
            connection.execute("COMMIT PREPARED 'second'")
        await until_empty(source.lag, task)
    assert sent(brokers) == [b"1"]
