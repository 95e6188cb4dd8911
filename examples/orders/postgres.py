"""Postgres as the database, by psycopg and its pool of connections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, LiteralString, Self

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from examples.orders.database import DatabaseError, Execute

__all__ = ["PostgresConnector"]

CONNECTIONS_MAX: Final = 10
WAIT_S: Final = 10.0
"""How long a transaction waits for a connection."""
SCHEMA_LOCK: Final = 0x6F72646572
"""A number that all processes of this service lock while they create tables, and others don't."""


class PostgresConnector:
    """A pool of connections to a server; each transaction has one of them."""

    columns_of: Final = "SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0"

    def __init__(self, dsn: str) -> None:
        self._pool = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=CONNECTIONS_MAX,
            timeout=WAIT_S,
            open=False,
            check=AsyncConnectionPool.check_connection,
        )

    async def __aenter__(self) -> Self:
        try:
            await self._pool.open(wait=True, timeout=WAIT_S)
        except PoolTimeout as error:
            await self._pool.close()
            raise DatabaseError(
                "Postgres can't be reached, or rejects the log-in: see the log of psycopg.pool."
            ) from error
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Execute]:
        """A transaction: the pool commits it, or rolls it back, when it gets the connection back."""
        try:
            async with self._pool.connection() as connection:

                async def execute(sql: LiteralString, *arguments: object) -> Sequence[tuple[Any, ...]]:
                    cursor = await connection.execute(sql.replace("?", "%s"), arguments)
                    return [] if cursor.description is None else await cursor.fetchall()

                yield execute
        except psycopg.Error as error:
            raise DatabaseError(f"Postgres: {error}") from error

    reading = writing

    @asynccontextmanager
    async def creating(self) -> AsyncIterator[Execute]:
        """A transaction that creates tables: Postgres does not serialize `CREATE TABLE IF NOT EXISTS` by itself."""
        async with self.writing() as execute:
            await execute("SELECT pg_advisory_xact_lock(?)", SCHEMA_LOCK)
            yield execute
