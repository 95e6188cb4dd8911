"""An outbox in Postgres: each committed row is in Kafka once, and those of a key in order."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest

from aioprod.errors import ConfigError, MarkerError, UsageError
from aioprod.outbox import DatabaseError, Outbox, PostgresTable, postgres
from aioprod.relay import Relay
from aioprod.testing import FakeCluster
from tests.outbox.postgres_databases import NEEDS_POSTGRES, new_database
from tests.outbox.relaying import end_cancelled, new_relay, relay_all, sent, until_empty
from tests.support.producers import PATIENCE_S
from tests.support.tasks import running_task

pytestmark = [NEEDS_POSTGRES, pytest.mark.usefixtures("short_pauses")]

OUTBOX = Outbox()
END_RELAYS: LiteralString = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'aioprod outbox'"
)
"""Ends their connections."""


@pytest.fixture
def dsn(dsn: str) -> str:
    """A new database with an outbox, and a table of customers for locks."""
    with psycopg.connect(dsn) as connection:
        connection.execute(OUTBOX.ddl("postgres").encode())
        connection.execute("CREATE TABLE customers (name TEXT PRIMARY KEY, orders INTEGER NOT NULL DEFAULT 0)")
        connection.execute("INSERT INTO customers VALUES ('a'), ('b')")
    return dsn


@pytest.fixture
def service(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn) as connection:
        yield connection


@pytest.fixture
def other(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(dsn) as connection:
        yield connection


def put(connection: psycopg.Connection[Any], *values: bytes) -> None:
    """Put rows, and commit."""
    for value in values:
        OUTBOX.put(connection, "orders", value, key=b"k")
    connection.commit()


def values(begin: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(begin, end)]


def count(connection: psycopg.Connection[Any], sql: LiteralString = "SELECT count(*) FROM outbox") -> int:
    with connection.transaction():
        ((found,),) = connection.execute(sql).fetchall()
    return int(found)


async def until_deleted(connection: psycopg.Connection[Any]) -> None:
    while count(connection):
        await asyncio.sleep(0.002)


async def until_held(source: PostgresTable) -> None:
    """Until the relay has seen ids that are not decided yet."""
    while (await source.lag()).held_by is None:
        await asyncio.sleep(0.002)


# --- what it does


async def test_rows_of_transactions_that_commit_are_sent(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]
) -> None:
    headers = (("a", b"1"), ("b", None))
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        put(service, b"0", b"1")
        await until_empty(source.lag, task)
        OUTBOX.put(service, "orders", b"rolled back")
        service.rollback()
        OUTBOX.put(service, "orders", b"2", key=b"k", headers=headers, timestamp=1_800_000_000_000)
        service.commit()
        await until_empty(source.lag, task)
        await until_deleted(service)
    assert sent(brokers) == [b"0", b"1", b"2"]
    last = brokers.records("orders", 0)[-1]
    assert (last.key, tuple(last.headers), last.timestamp) == (b"k", headers, 1_800_000_000_000)


async def test_writers_beside_each_other(brokers: FakeCluster, dsn: str) -> None:
    """Each customer's orders are numbered under the lock of its row, and are sent in that order."""

    async def write(name: str, index: int) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            for number in range(25):
                try:
                    async with connection.transaction():
                        await connection.execute("INSERT INTO customers VALUES (%s)", (f"{name} {index} {number}",))
                        cursor = await connection.execute(
                            "UPDATE customers SET orders = orders + 1 WHERE name = %s RETURNING orders", (name,)
                        )
                        ((order,),) = await cursor.fetchall()
                        await OUTBOX.put(connection, "orders", f"{name}{order}".encode(), key=name.encode())
                        if number % 5 == 4:
                            raise KeyError
                except KeyError:
                    pass

    async with PostgresTable(dsn, OUTBOX) as source:
        writers = asyncio.gather(*(write("ab"[index % 2], index) for index in range(8)))
        while not writers.done():
            async with running_task(new_relay(brokers, source).run()):  # Cancelled wherever it is.
                await asyncio.sleep(0.1)
        await writers
        await relay_all(brokers, source)
    found = [(value or b"").decode() for value in sent(brokers)]
    for name in "ab":
        assert [text for text in found if text[0] == name] == [f"{name}{order}" for order in range(1, 81)]


async def test_notifications_wake_a_relay_that_waits(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No poll finds these rows, as the next one comes in an hour."""
    monkeypatch.setattr(postgres, "_SAFETY_S", 3600.0)
    sleepers = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1870492001"
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        for number in range(3):
            while not count(service, sleepers):
                await asyncio.sleep(0.002)
            put(service, b"%d" % number)
            await until_empty(source.lag, task)
    assert sent(brokers) == values(0, 3)


async def test_a_row_that_is_put_before_the_relay_sleeps_wakes_it(
    dsn: str, service: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer does not notify, as the relay is awake."""
    monkeypatch.setattr(postgres, "_SAFETY_S", 3600.0)
    async with PostgresTable(dsn, OUTBOX) as source:
        assert list(await source.read(None, 9)) == []
        put(service, b"0")
        async with asyncio.timeout(PATIENCE_S):
            await source.wait()


async def test_rows_that_a_statement_has_put(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SAFETY_S", 0.01)
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        service.execute("INSERT INTO outbox (topic, value) VALUES ('orders', 'v')")
        service.commit()
        await until_empty(source.lag, task)
    assert sent(brokers) == [b"v"]


async def test_at_least_once_begins_where_the_table_says(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]
) -> None:
    for number in range(3):
        put(service, b"%d" % number)
        async with PostgresTable(dsn, OUTBOX) as source:
            await relay_all(brokers, source, delivery="at-least-once")
    assert sent(brokers) == values(0, 3)


async def test_reads_are_bounded_in_bytes(dsn: str, service: psycopg.Connection[Any]) -> None:
    put(service, *[bytes(3_000_000)] * 4)
    async with PostgresTable(dsn, OUTBOX) as source:
        rows = await source.read(None, 500)
        assert len(rows) == 2
        assert len(await source.read(rows[-1][1], 500)) == 2


async def test_a_relay_of_an_empty_table_does_not_look_for_each_row_that_was_there(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    count(service, "SELECT setval('outbox_id_seq', 1000000)")
    await deliver(brokers, dsn, service, b"0")
    uses = []
    second = PostgresTable._second

    async def use(table: PostgresTable) -> psycopg.AsyncConnection[Any]:
        uses.append(table)
        return await second(table)

    monkeypatch.setattr(PostgresTable, "_second", use)
    async with PostgresTable(dsn, OUTBOX) as source:
        await source.delivered(await source.noted() or b"")
    assert len(uses) <= 2  # A look, and the note.


async def test_a_table_of_a_schema(brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]) -> None:
    outbox = Outbox("Shop.Outbox")
    service.execute('CREATE SCHEMA "Shop"')
    service.execute(outbox.ddl("postgres").encode())
    outbox.put(service, "orders", b"0")
    service.commit()
    async with PostgresTable(dsn, outbox) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0"]


# --- what naive relays lose or turn round


class NaiveRelay:
    """Reads what is there and is new by its own rule."""

    def __init__(self, connection: psycopg.Connection[Any], sql: LiteralString) -> None:
        self.connection = connection
        self.sql = sql
        self.last: Any = 0
        self.found: list[bytes] = []

    def poll(self) -> None:
        with self.connection.transaction():
            for mark, value in self.connection.execute(self.sql, {"last": self.last}).fetchall():
                self.last = max(self.last, mark)
                self.found.append(value)


BY_ID: LiteralString = "SELECT id, value FROM outbox WHERE id > %(last)s ORDER BY id"
BY_TIME: LiteralString = (
    "SELECT extract(epoch FROM put_at)::float8, value FROM outbox "
    "WHERE extract(epoch FROM put_at)::float8 > %(last)s ORDER BY put_at"
)
BY_LAST_DRAWN: LiteralString = (
    "SELECT (SELECT last_value FROM outbox_id_seq), value FROM outbox WHERE id > %(last)s ORDER BY id"
)
"""Looks up to where ids were drawn, as if all of these rows were visible."""
BY_TRANSACTION: LiteralString = (
    "SELECT xid::text::bigint, value FROM outbox WHERE xid::text::bigint > %(last)s AND xid < "
    "pg_snapshot_xmin(pg_current_snapshot()) ORDER BY id"
)
"""In windows of transaction ids, and within one by id."""


@pytest.mark.parametrize("rule", [BY_ID, BY_TIME, BY_LAST_DRAWN])
async def test_ids_that_commit_out_of_order(
    brokers: FakeCluster,
    dsn: str,
    service: psycopg.Connection[Any],
    other: psycopg.Connection[Any],
    rule: LiteralString,
) -> None:
    with psycopg.connect(dsn) as reading:
        naive = NaiveRelay(reading, rule)
        async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            OUTBOX.put(service, "orders", b"0")
            put(other, b"1")
            naive.poll()
            await until_held(source)
            service.commit()
            naive.poll()
            await until_empty(source.lag, task)
    assert naive.found == [b"1"]
    assert sent(brokers) == [b"0", b"1"]


async def test_a_transaction_that_is_newer_than_all_that_have_ended_is_waited_for(
    dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    """It is above the xmax of snapshots, and no snapshot lists it."""
    async with PostgresTable(dsn, OUTBOX) as source:
        OUTBOX.put(other, "orders", b"0")
        assert list(await source.read(None, 9)) == []
        assert (await source.lag()).held_by
        put(service, b"1")
        assert list(await source.read(None, 9)) == []
        other.commit()
        assert [record.value for record, _ in await source.read(None, 9)] == [b"0", b"1"]


async def test_rows_above_the_horizon_are_left_though_they_can_be_seen(
    dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    put(service, b"0")
    async with PostgresTable(dsn, OUTBOX) as source:
        (first,) = await source.read(None, 9)
        OUTBOX.put(other, "orders", b"1")
        put(service, b"2")
        assert list(await source.read(None, 9)) == [first]
        other.commit()
        assert [record.value for record, _ in await source.read(first[1], 9)] == [b"1", b"2"]


async def test_a_server_whose_ids_are_lower_has_a_horizon_of_its_own(
    dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    """As after a fail-over to a replica that lacks what was drawn."""
    async with PostgresTable(dsn, OUTBOX) as source:
        for _ in range(5):
            OUTBOX.put(service, "orders", b"rolled back")
            service.rollback()
        assert list(await source.read(None, 9)) == []
        service.execute("ALTER SEQUENCE outbox_id_seq RESTART")
        service.commit()
        await source._session.close()  # type: ignore[union-attr]
        await source.acquire()
        OUTBOX.put(other, "orders", b"0")
        put(service, b"1")
        assert list(await source.read(None, 9)) == []
        other.commit()
        assert [record.value for record, _ in await source.read(None, 9)] == [b"0", b"1"]


async def test_ids_that_were_rolled_back_hold_nothing(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    """The horizon is behind the last row then, also while another transaction runs."""
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        put(service, b"0")
        await until_empty(source.lag, task)
        OUTBOX.put(service, "orders", b"rolled back")
        service.rollback()
        OUTBOX.put(other, "orders", b"1")
        await until_held(source)
        other.commit()
        await until_empty(source.lag, task)
    assert sent(brokers) == [b"0", b"1"]


async def test_a_later_writer_of_a_key_has_the_lower_transaction_id(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    """And one between them runs: by transaction ids, the later row would be sent while the first one still waits."""
    lock: LiteralString = "SELECT FROM customers WHERE name = 'a' FOR UPDATE"
    with psycopg.connect(dsn) as reading, psycopg.connect(dsn) as third:
        naive = NaiveRelay(reading, BY_TRANSACTION)
        async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            for connection in (service, third, other):  # In this order they get their transaction ids.
                connection.execute("SELECT pg_current_xact_id()")
            other.execute(lock)
            put(other, b"first")
            service.execute(lock)
            put(service, b"second")
            naive.poll()
            await until_held(source)
            third.commit()
            naive.poll()
            await until_empty(source.lag, task)
    assert naive.found == [b"second", b"first"]
    assert sent(brokers) == [b"first", b"second"]


async def test_a_sequence_with_a_cache(
    dsn: str, service: psycopg.Connection[Any], other: psycopg.Connection[Any]
) -> None:
    service.execute("ALTER TABLE outbox ALTER id SET CACHE 10")
    service.commit()
    naive = NaiveRelay(service, BY_ID)
    put(other, b"0")
    with psycopg.connect(dsn) as third:
        put(third, b"1")
    naive.poll()
    put(other, b"2")
    naive.poll()
    assert naive.found == [b"0", b"1"]
    with pytest.raises(ConfigError, match="would lose rows"):
        async with PostgresTable(dsn, OUTBOX):
            pass


def test_a_transaction_has_its_id_before_it_draws_one_for_a_row(service: psycopg.Connection[Any]) -> None:
    service.execute(
        "CREATE FUNCTION drawn() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN "
        "ASSERT pg_current_xact_id_if_assigned() IS NOT NULL; RETURN 7; END $$"
    )
    service.execute("ALTER TABLE outbox ALTER id DROP IDENTITY")
    service.execute("ALTER TABLE outbox ALTER id SET DEFAULT drawn()")
    service.commit()
    put(service, b"0")
    assert count(service, "SELECT id FROM outbox") == 7


async def test_a_table_whose_transactions_get_their_ids_later(dsn: str, service: psycopg.Connection[Any]) -> None:
    service.execute("ALTER TABLE outbox DROP xid")
    service.execute("ALTER TABLE outbox ADD xid XID8 NOT NULL DEFAULT pg_current_xact_id()")
    service.commit()
    with pytest.raises(ConfigError, match="would lose rows"):
        async with PostgresTable(dsn, OUTBOX):
            pass


async def test_a_transaction_of_another_database_is_named(
    brokers: FakeCluster,
    postgres: str,
    dsn: str,
    service: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aioprod.outbox.postgres_holder._LOGGED_EVERY_S", 0.01)
    elsewhere = new_database(postgres)
    with psycopg.connect(elsewhere, application_name="nightly job") as long:
        long.execute("SELECT pg_current_xact_id()")
        put(service, b"0")
        async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
            await until_held(source)
            lag = await source.lag()
            while "wait for the end of" not in caplog.text:
                await asyncio.sleep(0.002)
            assert sent(brokers) == []
            long.rollback()
            await until_empty(source.lag, task)
    assert lag.records == 1
    assert lag.oldest_age_s > 0
    held_by = lag.held_by or ""
    assert held_by.startswith("a transaction of orders in the database orders_")
    assert "nightly job" in held_by
    assert "nightly job" in caplog.text
    assert sent(brokers) == [b"0"]


# --- two relays, and lost connections


async def test_one_relay_of_two_has_the_table_and_the_other_takes_over(dsn: str) -> None:
    second = PostgresTable(dsn, OUTBOX)
    async with PostgresTable(dsn, OUTBOX) as first:
        entering = asyncio.create_task(second.__aenter__())
        done, _ = await asyncio.wait([entering], timeout=0.2)
        assert not done
        owner = first.owner
    await entering
    assert second.owner == owner
    await second.__aexit__(None, None, None)


async def test_a_relay_whose_connections_are_lost_continues(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]
) -> None:
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        for number in range(4):
            put(service, b"%d" % number)
            while (b"%d" % number) not in sent(brokers):
                await asyncio.sleep(0.002)
            count(service, END_RELAYS)
        while count(service):
            assert not task.done()
            await asyncio.sleep(0.002)
    assert sent(brokers) == values(0, 4)


async def test_a_relay_that_has_lost_the_lock_starts_no_producer_before_it_has_it_again(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]
) -> None:
    async with PostgresTable(dsn, OUTBOX) as source:
        await source._session.close()  # type: ignore[union-attr]
        with pytest.raises(DatabaseError, match="was lost"):
            await source.read(None, 1)
        async with PostgresTable(dsn, OUTBOX) as second:
            acquiring = asyncio.create_task(source.acquire())
            put(service, b"0")
            await relay_all(brokers, second)
            assert not acquiring.done()
        await acquiring
        put(service, b"1")
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0", b"1"]


async def test_a_connection_that_the_server_has_ended_meanwhile_has_no_lock(
    dsn: str, service: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing has been read from it since, so its client does not know."""
    caplog.set_level("INFO", "aioprod.outbox")
    async with PostgresTable(dsn, OUTBOX) as source:
        count(service, END_RELAYS)
        async with PostgresTable(dsn, OUTBOX):
            acquiring = asyncio.create_task(source.acquire())
            while "this one waits for its end" not in caplog.text:
                assert not acquiring.done()
                await asyncio.sleep(0.002)
        await acquiring


async def test_a_table_that_is_created_again_has_a_lock_of_its_own(dsn: str, service: psycopg.Connection[Any]) -> None:
    async with PostgresTable(dsn, OUTBOX) as source:
        owner = source.owner
        service.execute("DROP TABLE outbox; DROP TABLE outbox_relay")
        service.commit()
        with pytest.raises(DatabaseError, match="has no outbox"):
            await source.acquire()
        service.execute(OUTBOX.ddl("postgres").encode())
        service.commit()
        await source.acquire()
        assert source.owner != owner
        assert (
            count(service, "SELECT count(*) FROM pg_locks WHERE objid = 'outbox'::regclass::oid AND objsubid = 2") == 1
        )


# --- copies, and what others do


async def deliver(brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], *some: bytes) -> None:
    put(service, *some)
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
        await until_deleted(service)


def copy_of(postgres: str, dsn: str) -> str:
    """A copy of a database to which nothing is connected."""
    name = f"copy_{uuid4().hex}"
    source = dsn.split("@/")[1].split("?")[0]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {source}".encode())
    return postgres.replace("/postgres?", f"/{name}?")


@pytest.mark.parametrize("later", [0, 1, 2, 3])
async def test_a_database_that_was_restored_from_a_copy(
    brokers: FakeCluster, postgres: str, dsn: str, later: int
) -> None:
    """Also where rows were put since: fewer than are in Kafka, as many, or more."""
    with psycopg.connect(dsn) as service:
        await deliver(brokers, dsn, service, b"0")
    copy = copy_of(postgres, dsn)
    with psycopg.connect(dsn) as service:
        await deliver(brokers, dsn, service, b"1", b"2")
    with psycopg.connect(copy) as service:
        put(service, *[b"later"] * later)
    async with PostgresTable(copy, OUTBOX) as source:
        with pytest.raises(MarkerError, match="was the database restored"):
            await new_relay(brokers, source).run()
    assert sent(brokers) == values(0, 3)


async def test_a_copy_that_lacks_nothing_continues(brokers: FakeCluster, postgres: str, dsn: str) -> None:
    with psycopg.connect(dsn) as service:
        await deliver(brokers, dsn, service, b"0")
        put(service, b"1")
    async with PostgresTable(copy_of(postgres, dsn), OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0", b"1"]


async def test_rows_of_a_copy_are_not_deleted_unsent(postgres: str, dsn: str) -> None:
    """A run was read here, and the database is restored before it is reported as delivered."""
    with psycopg.connect(dsn) as service:
        copy = copy_of_after_close(service, postgres, dsn)
    with psycopg.connect(dsn) as service, psycopg.connect(copy) as of_copy:
        put(service, b"0")
        put(of_copy, b"later")
        async with PostgresTable(dsn, OUTBOX) as source:
            rows = await source.read(None, 1)
        async with PostgresTable(copy, OUTBOX) as source:
            await source.delivered(rows[-1][1])
            while source._deletions._task is None or not source._deletions._task.done():
                await asyncio.sleep(0.002)
            with pytest.raises(MarkerError, match="that row is another one"):
                await source.delivered(rows[-1][1])
        assert count(of_copy) == 1


def copy_of_after_close(service: psycopg.Connection[Any], postgres: str, dsn: str) -> str:
    service.close()
    return copy_of(postgres, dsn)


async def test_a_copy_in_another_server(brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]) -> None:
    await deliver(brokers, dsn, service, b"0")
    service.execute("UPDATE outbox_relay SET system = 7")  # As after a dump and a restore.
    put(service, b"1")
    with pytest.raises(MarkerError, match=r"system identifier 7.*UPDATE .outbox_relay. SET system = \d+") as raised:
        async with PostgresTable(dsn, OUTBOX):
            pass
    service.execute((raised.value.hint or "").partition(": ")[2].encode())
    service.commit()
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0", b"1"]


async def test_a_marker_that_is_gone(brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]) -> None:
    await deliver(brokers, dsn, service, b"0")
    put(service, b"1")
    async with PostgresTable(dsn, OUTBOX) as source:
        with pytest.raises(MarkerError, match=r"up to 1 were sent and deleted, and the marker .* is gone"):
            await new_relay(brokers, source, transactional_id="another").run()
    assert sent(brokers) == [b"0"]


async def test_tables_that_are_emptied_under_a_relay(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]
) -> None:
    async with PostgresTable(dsn, OUTBOX) as source, running_task(new_relay(brokers, source).run()) as task:
        put(service, b"0")
        await until_empty(source.lag, task)
        count(service, "WITH gone AS (DELETE FROM outbox_relay RETURNING *) SELECT count(*) FROM gone")
        put(service, b"1")
        with pytest.raises(MarkerError, match=r'"outbox_relay".* is gone: was the table emptied'):
            await task
        with pytest.raises(MarkerError, match=r'"outbox_relay".* is gone: was the table emptied'):
            await source.lag()


async def test_rows_that_others_delete(brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any]) -> None:
    put(service, *values(0, 3))
    async with PostgresTable(dsn, OUTBOX) as source:
        rows = await source.read(None, 2)
    service.execute("TRUNCATE outbox")
    service.commit()
    async with PostgresTable(dsn, OUTBOX) as source:
        with pytest.raises(MarkerError, match="that row is gone"):
            await source.read(rows[-1][1], 1)


# --- what can't be opened


async def test_no_such_table(dsn: str) -> None:
    with pytest.raises(ConfigError, match=r'has no outbox .other.*ddl\("postgres"\)'):
        async with PostgresTable(dsn, Outbox("other")):
            pass


async def test_no_such_database(dsn: str) -> None:
    with pytest.raises(DatabaseError, match="does not exist"):
        async with PostgresTable(dsn.replace("/orders_", "/missing_"), OUTBOX):
            pass


async def test_a_role_that_lacks_a_right(dsn: str, service: psycopg.Connection[Any]) -> None:
    role = f"role_{uuid4().hex}"
    service.execute(f"CREATE ROLE {role} LOGIN".encode())
    service.execute(f"GRANT SELECT ON outbox TO {role}".encode())
    service.commit()
    with pytest.raises(ConfigError, match="permission denied for table outbox"):
        async with PostgresTable(dsn.replace("orders@", f"{role}@"), OUTBOX):
            pass


async def test_a_role_that_may_not_see_each_row(dsn: str, service: psycopg.Connection[Any]) -> None:
    """By the policy it would pass over rows."""
    role = f"role_{uuid4().hex}"
    service.execute(f"CREATE ROLE {role} LOGIN".encode())
    service.execute(f"GRANT ALL ON outbox, outbox_relay TO {role}".encode())
    service.execute("CREATE POLICY shown ON outbox USING (topic = 'others')")
    service.execute("ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
    put(service, b"0")
    with pytest.raises(ConfigError, match="row-level security policy for table") as raised:
        async with PostgresTable(dsn.replace("orders@", f"{role}@"), OUTBOX):
            pass
    assert "BYPASSRLS" in str(raised.value)


async def test_a_database_without_an_encoding(brokers: FakeCluster, postgres: str) -> None:
    name = f"ascii_{uuid4().hex}"
    sql = f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.encode())
    dsn = postgres.replace("/postgres?", f"/{name}?")
    with psycopg.connect(dsn) as connection:
        connection.execute(OUTBOX.ddl("postgres").encode())
        put(connection, b"\xff")
    async with PostgresTable(dsn, OUTBOX) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"\xff"]


@pytest.mark.parametrize("table", ["outbox", "shop.outbox"])
async def test_the_rights_that_roles_need(
    brokers: FakeCluster, dsn: str, service: psycopg.Connection[Any], table: str
) -> None:
    """Those of the relay are what the hint of the error says; a service needs to insert."""
    outbox = Outbox(table)
    relay, writer = f"relay_{uuid4().hex}", f"writer_{uuid4().hex}"
    rights = [f"CREATE ROLE {role} LOGIN" for role in (relay, writer)]
    if table != "outbox":
        rights += ["CREATE SCHEMA shop", outbox.ddl("postgres"), f"GRANT USAGE ON SCHEMA shop TO {relay}, {writer}"]
    for right in rights:
        service.execute(right.encode())
    service.commit()
    as_relay = dsn.replace("orders@", f"{relay}@")
    with pytest.raises(ConfigError, match="lacks a right: permission denied") as raised:
        async with PostgresTable(as_relay, outbox):
            pass
    granted = (raised.value.hint or "").partition(": ")[2].replace("<role>", relay)
    service.execute(granted.encode())
    service.execute(f"GRANT INSERT ON {table} TO {writer}".encode())
    service.commit()
    async with PostgresTable(as_relay, outbox) as source, running_task(new_relay(brokers, source).run()) as task:
        while not count(service, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1870492001"):
            await asyncio.sleep(0.002)
        with psycopg.connect(dsn.replace("orders@", f"{writer}@")) as connection:
            outbox.put(connection, "orders", b"0")
            connection.commit()
        await until_empty(source.lag, task)
    async with PostgresTable(as_relay, outbox) as source:
        await relay_all(brokers, source)
    assert sent(brokers) == [b"0"]
    assert not count(service, f"SELECT count(*) FROM {table}")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql:/shop:secret@db/shop",
        "postgresql+asyncpg://shop:secret@db/shop",
        "postgresql://shop:sec%zzret@db/shop",
        "postgresql://shop:sec/ret@db/shop",
        "postgresql://shop:1/secret@db/shop",
        "postgresql://shop:sec@ret@db/shop",
        "host=db password=my secret",
    ],
)
def test_a_dsn_that_can_not_be_read_is_not_shown(dsn: str) -> None:
    with pytest.raises(ConfigError, match=r"can't be read.*%40") as raised:
        PostgresTable(dsn, OUTBOX)
    shown = "".join(traceback.format_exception(raised.value, limit=0))
    assert "ret" not in shown


async def test_a_server_that_is_not_there() -> None:
    source = PostgresTable("postgresql://shop:secret@127.0.0.1:1/shop", OUTBOX)
    with pytest.raises(DatabaseError, match="refused") as raised:
        async with source:
            pass
    assert "secret" not in f"{raised.value!r} {raised.value.__cause__!r} {source!r}"


async def test_a_pool_that_shares_connections_between_transactions(dsn: str) -> None:
    """The next statement comes to another process of the server, which does not have the lock."""
    async with (
        PostgresTable(dsn, OUTBOX) as source,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as another,
    ):
        assert list(await source.read(None, 1)) == []
        session = source._usable_session()
        ours, session._connection = session._connection, another
        with pytest.raises(ConfigError, match="a pool shares it between transactions"):
            await source.read(None, 1)
        session._connection = ours


async def test_an_end_that_is_cancelled_once_more_releases_the_table(dsn: str) -> None:
    source = PostgresTable(dsn, OUTBOX)
    await source.__aenter__()
    with pytest.raises(asyncio.CancelledError):
        await end_cancelled(source)
    async with PostgresTable(dsn, OUTBOX):
        pass


async def test_a_table_that_is_not_open(dsn: str) -> None:
    source = PostgresTable(dsn, OUTBOX)
    with pytest.raises(UsageError, match="async with"):
        _ = source.owner
    with pytest.raises(UsageError, match="async with"):
        await source.read(None, 1)
    with pytest.raises(UsageError, match="async with"):
        await Relay(source, "127.0.0.1:1", transactional_id="outbox").run()
