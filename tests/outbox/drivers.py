"""The drivers that an outbox knows, each as two functions: a transaction that puts, and a put without one.

A transaction puts one record and commits, or puts it and fails.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import aiosqlite
import asyncpg
import django
import psycopg
from django.conf import settings
from django.db import connection as django_proxy
from django.db import connections, transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from aioprod.outbox import Outbox

__all__ = ["POSTGRES", "SQLITE", "FailedError"]

Writing: TypeAlias = Callable[[str, Outbox, bytes, bool], Awaitable[None]]
"""Gets the database, the outbox, a value, and whether a transaction fails; or whether there is none at all."""


class FailedError(Exception):
    """What makes a transaction roll back."""


HEADERS = [("a", b"1")]
PARTS: dict[str, Any] = {"key": b"k", "headers": HEADERS, "timestamp": 1_800_000_000_000}


def _end(fails: bool) -> None:
    if fails:
        raise FailedError


async def _psycopg(dsn: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    with psycopg.connect(dsn) as connection:
        assert outbox.put(connection, "orders", value, **PARTS) is None
        _end(fails)


async def _psycopg_none(dsn: str, outbox: Outbox, value: bytes, _: bool) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        outbox.put(connection, "orders", value, **PARTS)


async def _psycopg_block(dsn: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.transaction():
        outbox.put(connection, "orders", value, **PARTS)
        _end(fails)


async def _psycopg_async(dsn: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await outbox.put(connection, "orders", value, **PARTS)
        _end(fails)


async def _psycopg_async_none(dsn: str, outbox: Outbox, value: bytes, _: bool) -> None:
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await outbox.put(connection, "orders", value, **PARTS)


async def _asyncpg(dsn: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await outbox.put(connection, "orders", value, **PARTS)
            _end(fails)
    finally:
        await connection.close()


async def _asyncpg_none(dsn: str, outbox: Outbox, value: bytes, _: bool) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await outbox.put(connection, "orders", value, **PARTS)
    finally:
        await connection.close()


async def _asyncpg_pool(dsn: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    async with (
        asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await outbox.put(connection, "orders", value, **PARTS)
        _end(fails)


async def _sqlite3(path: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    connection = sqlite3.connect(path)
    try:
        with connection:
            assert outbox.put(connection, "orders", value, **PARTS) is None
            _end(fails)
    finally:
        connection.close()


async def _sqlite3_none(path: str, outbox: Outbox, value: bytes, _: bool) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        outbox.put(connection, "orders", value, **PARTS)
    finally:
        connection.close()


async def _aiosqlite(path: str, outbox: Outbox, value: bytes, fails: bool) -> None:
    async with aiosqlite.connect(path) as connection:
        await outbox.put(connection, "orders", value, **PARTS)
        _end(fails)
        await connection.commit()


async def _aiosqlite_none(path: str, outbox: Outbox, value: bytes, _: bool) -> None:
    async with aiosqlite.connect(path, isolation_level=None) as connection:
        await outbox.put(connection, "orders", value, **PARTS)


def _sqlalchemy(scheme: str, *, is_session: bool, **options: Any) -> Writing:
    async def write(database: str, outbox: Outbox, value: bytes, fails: bool) -> None:
        engine = create_engine(_url(scheme, database), **options)
        try:
            with Session(engine) as session, session.begin() if is_session else engine.begin() as connection:
                assert outbox.put(session if is_session else connection, "orders", value, **PARTS) is None
                _end(fails)
        finally:
            engine.dispose()

    return write


def _sqlalchemy_async(scheme: str, *, is_session: bool, **options: Any) -> Writing:
    async def write(database: str, outbox: Outbox, value: bytes, fails: bool) -> None:
        engine = create_async_engine(_url(scheme, database), **options)
        try:
            if is_session:
                async with AsyncSession(engine) as session, session.begin():
                    await outbox.put(session, "orders", value, **PARTS)
                    _end(fails)
            else:
                async with engine.begin() as connection:
                    await outbox.put(connection, "orders", value, **PARTS)
                    _end(fails)
        finally:
            await engine.dispose()

    return write


def _url(scheme: str, database: str) -> str:
    return f"{scheme}:///{database}" if "sqlite" in scheme else database.replace("postgresql:", f"{scheme}:")


def _django(engine: str, *, is_atomic: bool) -> Writing:
    def write(database: str, outbox: Outbox, value: bytes, fails: bool) -> None:
        with django_connection(engine, database) as connection:
            if is_atomic:
                with transaction.atomic():
                    assert outbox.put(connection, "orders", value, **PARTS) is None
                    _end(fails)
            else:
                outbox.put(connection, "orders", value, **PARTS)

    async def in_thread(database: str, outbox: Outbox, value: bytes, fails: bool) -> None:
        await asyncio.to_thread(write, database, outbox, value, fails)  # Django refuses to block an event loop.

    return in_thread


class django_connection:  # noqa: N801  # used as a function
    """The proxy that Django's users import, for this database."""

    def __init__(self, engine: str, database: str) -> None:
        if not settings.configured:
            settings.configure(DATABASES={}, INSTALLED_APPS=[], LOGGING_CONFIG=None)
            django.setup()
        name, _, host = database.rpartition("@/")[2].partition("?host=")
        self._settings = {
            "ENGINE": f"django.db.backends.{engine}",
            "NAME": name,
            "HOST": host,
            "USER": "orders" if host else "",
        }

    def __enter__(self) -> Any:
        connections.settings = connections.configure_settings({"default": self._settings})
        return django_proxy

    def __exit__(self, *_: object) -> None:
        connections["default"].close()
        del connections["default"]


POSTGRES: dict[str, tuple[Writing, Writing]] = {
    "psycopg": (_psycopg, _psycopg_none),
    "psycopg, transaction()": (_psycopg_block, _psycopg_none),
    "psycopg, asyncio": (_psycopg_async, _psycopg_async_none),
    "asyncpg": (_asyncpg, _asyncpg_none),
    "asyncpg, pool": (_asyncpg_pool, _asyncpg_none),
    "Django": (_django("postgresql", is_atomic=True), _django("postgresql", is_atomic=False)),
}
SQLITE: dict[str, tuple[Writing, Writing]] = {
    "sqlite3": (_sqlite3, _sqlite3_none),
    "aiosqlite": (_aiosqlite, _aiosqlite_none),
    "Django": (_django("sqlite3", is_atomic=True), _django("sqlite3", is_atomic=False)),
}
for is_session in (False, True):
    what = "session" if is_session else "connection"
    for drivers, scheme, make in (
        (POSTGRES, "postgresql+psycopg", _sqlalchemy),
        (POSTGRES, "postgresql+psycopg", _sqlalchemy_async),
        (POSTGRES, "postgresql+asyncpg", _sqlalchemy_async),
        (SQLITE, "sqlite", _sqlalchemy),
        (SQLITE, "sqlite+aiosqlite", _sqlalchemy_async),
    ):
        drivers[f"SQLAlchemy, {make.__name__[12:]} {what} of {scheme}"] = (
            make(scheme, is_session=is_session),
            make(scheme, is_session=is_session, isolation_level="AUTOCOMMIT"),
        )
