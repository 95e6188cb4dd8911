"""Each driver, with a real database: a row is there if the transaction commits, and only then."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest

from aioprod.errors import UsageError
from aioprod.outbox import Outbox
from aioprod.records.headers import encode_headers
from tests.outbox.drivers import HEADERS, PARTS, POSTGRES, SQLITE, FailedError
from tests.outbox.postgres_databases import NEEDS_POSTGRES

EXPECTED = ("orders", None, b"k", b"committed", encode_headers(HEADERS), PARTS["timestamp"])
SELECT = "SELECT topic, partition, key, value, headers, timestamp FROM outbox"


async def check(driver: tuple[Any, Any], database: str) -> None:
    in_transaction, without = driver
    outbox = Outbox()
    await in_transaction(database, outbox, b"committed", False)
    with pytest.raises(FailedError):
        await in_transaction(database, outbox, b"rolled back", True)
    with pytest.raises(UsageError, match="commits each statement by itself"):
        await without(database, outbox, b"alone", False)


@NEEDS_POSTGRES
@pytest.mark.parametrize("driver", POSTGRES.values(), ids=POSTGRES)
async def test_postgres(dsn: str, driver: tuple[Any, Any]) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(Outbox().ddl("postgres").encode())
    await check(driver, dsn)
    with psycopg.connect(dsn) as connection:
        assert connection.execute(SELECT).fetchall() == [EXPECTED]


@pytest.mark.parametrize("driver", SQLITE.values(), ids=SQLITE)
async def test_sqlite(path: str, driver: tuple[Any, Any]) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(Outbox().ddl("sqlite"))
    await check(driver, path)
    assert connection.execute(SELECT).fetchall() == [EXPECTED]
    connection.close()
