"""Each driver, with a real database: a row is there if the transaction commits, and only then."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

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


# --- sessions of SQLAlchemy


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    name: Mapped[str] = mapped_column(primary_key=True)
    orders: Mapped[int]


@pytest.fixture
def account(path: str) -> str:
    """A file with an outbox and an account."""
    engine = create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    with sqlite3.connect(path) as connection:
        connection.executescript(Outbox().ddl("sqlite"))
        connection.execute("INSERT INTO accounts VALUES ('a', 0)")
    return path


def test_statements_of_a_session_come_before_the_row(account: str) -> None:
    """They lock what keeps the order of two transactions."""
    engine = create_engine(f"sqlite:///{account}")
    with Session(engine) as session, session.begin():
        changed = session.get_one(Account, "a")
        changed.orders = 1
        Outbox().put(session, "orders", b"1")
        assert changed not in session.dirty
        with session.no_autoflush:
            changed.orders = 2
            Outbox().put(session, "orders", b"2")
            assert changed in session.dirty
    engine.dispose()


async def test_statements_of_a_session_of_asyncio_come_before_the_row(account: str) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{account}")
    async with AsyncSession(engine) as session, session.begin():
        changed = await session.get_one(Account, "a")
        changed.orders = 1
        await Outbox().put(session, "orders", b"1")
        assert changed not in session.dirty
    await engine.dispose()


def test_an_event_of_a_flush_puts(account: str) -> None:
    engine = create_engine(f"sqlite:///{account}")
    with Session(engine) as session, session.begin():
        event.listen(session, "after_flush", lambda session, _: Outbox().put(session, "orders", b"1"))
        session.get_one(Account, "a").orders = 1
    engine.dispose()
    with sqlite3.connect(account) as connection:
        assert connection.execute("SELECT value FROM outbox").fetchall() == [(b"1",)]


@NEEDS_POSTGRES
async def test_a_driver_in_autocommit_of_which_sqlalchemy_does_not_know(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(Outbox().ddl("postgres").encode())
    engine = create_async_engine(dsn.replace("postgresql:", "postgresql+psycopg:"), connect_args={"autocommit": True})
    async with engine.begin() as asyncio_connection:
        with pytest.raises(UsageError, match="commits each statement by itself"):
            await Outbox().put(asyncio_connection, "orders", b"alone")
        with pytest.raises(UsageError, match="commits each statement by itself"):
            await asyncio_connection.run_sync(lambda connection: Outbox().put(connection, "orders", b"alone"))
    await engine.dispose()


def test_a_driver_of_sqlite_in_autocommit_of_which_sqlalchemy_does_not_know(account: str) -> None:
    engine = create_engine(f"sqlite:///{account}", connect_args={"isolation_level": None})
    with engine.begin() as connection, pytest.raises(UsageError, match="commits each statement by itself"):
        Outbox().put(connection, "orders", b"alone")
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    with engine.begin() as connection:
        Outbox().put(connection, "orders", b"1")
    engine.dispose()
