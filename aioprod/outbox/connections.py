"""Executing a statement on the connection that a caller has, of any driver that is known. None of them is imported."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from aioprod.errors import UsageError
from aioprod.outbox.statements import Dialect, Insertion

__all__ = ["Driver", "driver_of"]

Arguments: TypeAlias = tuple[Any, ...]
Execution: TypeAlias = Callable[[Any, Insertion, Arguments], Any]
"""Puts a row by a connection; raises UsageError where the connection would commit it at once.

What it returns for an asyncio connection has to be awaited.
"""


class Driver(NamedTuple):
    """How rows are put by connections of one kind."""

    is_async: bool
    put: Execution
    attribute: str
    """What connections have, and cursors, pools and engines of the same package have not."""


def driver_of(connection: object) -> Driver:
    """The driver of a connection, or of a session; raises UsageError."""
    kind: Any = (
        connection.__class__
    )  # That of what is wrapped, for the proxies of tracers. mypy takes no type for Hashable.
    driver = _driver_of_type(kind)
    if driver is None or not hasattr(connection, driver.attribute):
        raise UsageError(
            f"An outbox can't put a row by an object of type {kind.__module__}.{kind.__qualname__}.",
            hint="Give the connection of the transaction: of psycopg, asyncpg, sqlite3, aiosqlite, or Django, or a "
            "connection or session of SQLAlchemy.",
        )
    return driver


@lru_cache(100)
def _driver_of_type(kind: type[Any]) -> Driver | None:
    bases = kind.__mro__
    for base in bases:
        name = base.__module__.partition(".")[0]
        found = _DRIVERS.get(name)
        if found is not None:
            is_async = False not in found or any(_is_async(base) for base in bases)
            return Driver(is_async, found[is_async], _ATTRIBUTES[name])
    return None


def _is_async(base: type) -> bool:
    return base.__name__.lower().startswith("async") or base.__module__.startswith("sqlalchemy.ext.asyncio")


def _require(*, is_open: bool) -> None:
    """Raise UsageError unless a transaction is open, or will be opened by the next statement."""
    if not is_open:
        raise UsageError(
            "The connection commits each statement by itself: the row would be sent whatever becomes of the others.",
            hint="Call put() inside the transaction of the rows that it is about.",
        )


# --- what drivers write for an argument


def _percent(_: int) -> str:
    return "%s"


def _question(_: int) -> str:
    return "?"


def _dollar(index: int) -> str:
    return f"${index + 1}"


def _colon(index: int) -> str:
    return f":a{index}"


# --- psycopg

_IDLE: Final = 0
"""The status of a connection without a transaction, as libpq numbers it."""


def _psycopg(connection: Any, insertion: Insertion, arguments: Arguments) -> Any:
    _require(is_open=not connection.autocommit or connection.info.transaction_status != _IDLE)
    return connection.execute(insertion("postgres", _percent), arguments)


async def _psycopg_async(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    await _psycopg(connection, insertion, arguments)


# --- asyncpg


async def _asyncpg(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    _require(is_open=connection.is_in_transaction())
    await connection.execute(insertion("postgres", _dollar), *arguments)


# --- SQLite


def _sqlite(connection: Any, insertion: Insertion, arguments: Arguments) -> Any:
    # `autocommit` came with Python 3.12: True, False, or -1 for what `isolation_level` says.
    mode = getattr(connection, "autocommit", -1)
    begins = mode is False or (mode is not True and connection.isolation_level is not None)
    _require(is_open=begins or connection.in_transaction)
    return connection.execute(insertion("sqlite", _question), arguments)


async def _sqlite_async(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    cursor = await _sqlite(connection, insertion, arguments)
    await cursor.close()


# --- SQLAlchemy


def _sqlalchemy(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    if hasattr(connection, "get_bind"):  # A session.
        if _flushes(connection):
            connection.flush()
        connection = connection.connection()
    connection.execute(*_sqlalchemy_statement(connection, insertion, arguments))


async def _sqlalchemy_async(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    if hasattr(connection, "get_bind"):
        if _flushes(connection):
            await connection.flush()
        connection = await connection.connection()
    await connection.execute(*_sqlalchemy_statement(connection.sync_connection, insertion, arguments))


def _flushes(session: Any) -> bool:
    """Whether its statements come before the row's, as those of a query would: they take the locks that keep order."""
    return session.autoflush and not getattr(session, "_flushing", False)  # An event of a flush may put as well.


def _sqlalchemy_statement(connection: Any, insertion: Insertion, arguments: Arguments) -> tuple[Any, dict[str, Any]]:
    dialect = _dialect(connection.dialect.name)
    level = connection.get_execution_options().get("isolation_level")
    level = level or getattr(connection.dialect, "_on_connect_isolation_level", None)
    _require(is_open=level != "AUTOCOMMIT" and not _commits_by_itself(connection, dialect))
    sql = insertion(dialect, _colon)
    return _sqlalchemy_text(sql), {f"a{index}": argument for index, argument in enumerate(arguments)}


def _commits_by_itself(connection: Any, dialect: Dialect) -> bool:
    """Whether its driver does, of which SQLAlchemy does not know: by `connect_args`, or an event of the engine."""
    pooled = connection.connection
    if dialect == "postgres":
        return getattr(pooled.dbapi_connection, "autocommit", False) is True
    driver = pooled.driver_connection
    return getattr(driver, "isolation_level", "") is None and connection.in_transaction() and not driver.in_transaction


@lru_cache(100)
def _sqlalchemy_text(sql: str) -> Any:
    from sqlalchemy import text

    return text(sql)


# --- Django


def _django(connection: Any, insertion: Insertion, arguments: Arguments) -> None:
    _require(is_open=connection.in_atomic_block or not connection.get_autocommit())
    with connection.cursor() as cursor:
        cursor.execute(insertion(_dialect(connection.vendor), _percent), arguments)


def _dialect(name: str) -> Dialect:
    """The dialect by the name that SQLAlchemy or Django has for it; raises UsageError."""
    if name == "postgresql":
        return "postgres"
    if name == "sqlite":
        return "sqlite"
    raise UsageError(f"The connection is to {name}: an outbox knows Postgres and SQLite.")


_DRIVERS: Final[dict[str, dict[bool, Execution]]] = {
    "psycopg": {False: _psycopg, True: _psycopg_async},
    "asyncpg": {True: _asyncpg},
    "sqlite3": {False: _sqlite},
    "aiosqlite": {True: _sqlite_async},
    "sqlalchemy": {False: _sqlalchemy, True: _sqlalchemy_async},
    "django": {False: _django},
}
"""How rows are put, by the package of the connection's class, and by whether that has to be awaited."""
_ATTRIBUTES: Final = {
    "psycopg": "autocommit",
    "asyncpg": "is_in_transaction",
    "sqlite3": "in_transaction",
    "aiosqlite": "in_transaction",
    "sqlalchemy": "execute",
    "django": "in_atomic_block",
}
"""`Driver.attribute`, by the same package."""
