"""The outbox: its numbers have no gap, and are in the order of the commits."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, LiteralString

import pytest

from examples.orders.database import DatabaseError
from examples.orders.order import Order
from examples.orders.settings import connector_of, open_database


def order(item: str) -> Order:
    return Order(customer="Ada", item=item, quantity=1)


async def test_processes_that_start_at_once_share_an_outbox(dsn: str) -> None:
    async def owner() -> str:
        async with open_database(dsn) as database:
            return (await database.outbox_state()).owner

    assert len({*await asyncio.gather(*(owner() for _ in range(5)))}) == 1


async def test_processes_that_start_at_once_wait_for_the_mode_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite raises at once where it would have to wait for another process that changes the mode, too."""
    connect, left = sqlite3.connect, [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY]

    class Busy(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if "journal_mode" in sql and left:
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = left.pop()
                raise error
            return super().execute(sql, *arguments)

    def busy(path: str, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(path, factory=Busy, **options)
        return made

    monkeypatch.setattr("examples.orders.sqlite.sqlite3.connect", busy)
    async with open_database(str(tmp_path / "orders.db")) as database:
        assert await database.add(order("cake"))
    assert not left


async def test_a_database_of_an_earlier_version_is_used_on(dsn: str) -> None:
    async with connector_of(dsn) as connector, connector.creating() as execute:
        await execute("CREATE TABLE outbox (number BIGINT PRIMARY KEY, key TEXT NOT NULL, value TEXT NOT NULL)")
        await execute("INSERT INTO outbox VALUES (0, 'Ada', 'old')")
        await execute(
            "CREATE TABLE outbox_state (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), owner TEXT NOT NULL, "
            "next BIGINT NOT NULL, has_begun INTEGER NOT NULL)"
        )
        await execute("INSERT INTO outbox_state VALUES (1, 'me', 1, 1)")
    for number in (1, 2):  # What was added is not added again.
        async with open_database(dsn) as database:
            assert await database.add(order("cake"))
            assert await database.outbox_state() == ("me", number + 1)
            old, *new = await database.outbox(0, 9)
            assert old == (0, "", "Ada", "old")  # No id: it is not compared with the one in the marker.
            assert [(row.number, len(row.id), row.key) for row in new] == [(at + 1, 32, "Ada") for at in range(number)]


async def test_numbers_have_no_gap_and_no_duplicate(dsn: str) -> None:
    async with open_database(dsn) as one, open_database(dsn) as other:
        assert all(await asyncio.gather(*((one, other)[n % 2].add(order(f"{n}")) for n in range(60))))
        rows = await one.outbox(0, 100)
        assert [row.number for row in rows] == list(range(60))
        assert {Order.model_validate_json(row.value).item for row in rows} == {f"{n}" for n in range(60)}
        assert [row.number for row in await other.outbox(57, 2)] == [57, 58]
        await other.delete_outbox(59)
        assert [row.number for row in await one.outbox(0, 100)] == [59]


async def test_a_later_number_waits_for_an_earlier_one(dsn: str) -> None:
    """Or a relay could see the later one, and never look for the earlier one again."""
    async with open_database(dsn) as one, open_database(dsn) as other, open_database(dsn) as reader:
        async with one._connector.writing() as execute:
            await execute("UPDATE outbox_state SET next = next + 1")
            await execute("INSERT INTO outbox VALUES (0, 'id', 'Ada', 'first')")
            later = asyncio.create_task(other.add(order("later")))
            # A second at least in which it could overtake; however long it takes, it must not.
            await asyncio.wait([later], timeout=1.0)
            assert not later.done()
            assert await reader.outbox(0, 9) == []
        assert await later
        assert [(row.number, row.value == "first") for row in await one.outbox(0, 9)] == [(0, True), (1, False)]


async def test_a_transaction_that_fails_takes_no_number(dsn: str) -> None:
    async with open_database(dsn) as database:

        async def fail(sql: LiteralString) -> None:
            async with database._connector.writing() as execute:
                await execute("UPDATE outbox_state SET next = next + 1")
                await execute(sql)
                raise RuntimeError("sold out")

        with pytest.raises(RuntimeError, match="sold out"):
            await fail("SELECT 1")
        with pytest.raises(DatabaseError):
            await fail("INSERT INTO nothing VALUES (1)")
        assert (await database.outbox_state()).next == 0
        assert await database.add(order("cake"))
        assert [row.number for row in await database.outbox(0, 9)] == [0]


async def test_a_call_that_is_cancelled_leaves_nothing_open(dsn: str) -> None:
    async with open_database(dsn) as database:
        entered = asyncio.Event()

        async def hang() -> None:
            async with database._connector.writing() as execute:
                await execute("UPDATE outbox_state SET next = next + 1")
                entered.set()
                await asyncio.Event().wait()

        hanging = asyncio.create_task(hang())
        await entered.wait()
        hanging.cancel()
        await asyncio.wait([hanging])
        assert await database.add(order("cake"))
        assert (await database.outbox_state()).next == 1


async def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.orders.postgres.WAIT_S", 0.1)
    with pytest.raises(DatabaseError, match="can't be reached"):
        async with open_database("postgresql://nobody@/nothing?host=/nonexistent"):
            pass


async def test_a_file_that_cannot_be_opened_is_told() -> None:
    with pytest.raises(DatabaseError, match="unable to open"):
        async with open_database("/nonexistent/orders.db"):
            pass
