"""The settings of the service and of its relay, from the environment."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from examples.orders.database import Connector, Database

__all__ = ["VARIABLES", "Settings", "open_database"]

VARIABLES: Final = {
    "DATABASE": "database",
    "KAFKA": "bootstrap_servers",
    "TOPIC": "topic",
    "TRANSACTIONAL_ID": "transactional_id",
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`database` is a DSN of Postgres (`postgresql://...`), or the path of SQLite's file."""

    database: str = "orders.db"
    bootstrap_servers: str = "localhost:9092"
    topic: str = "orders"
    transactional_id: str = "orders-relay"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read DATABASE, KAFKA, TOPIC and TRANSACTIONAL_ID; what is not set has its default."""
        return cls(**{field: environment[name] for name, field in VARIABLES.items() if name in environment})


def connector_of(database: str) -> AbstractAsyncContextManager[Connector]:
    """The connector for this DSN or path; psycopg is imported for Postgres only."""
    if database.startswith(("postgresql://", "postgres://")):
        from examples.orders.postgres import PostgresConnector

        return PostgresConnector(database)
    from examples.orders.sqlite import SQLiteConnector

    return SQLiteConnector(database)


@asynccontextmanager
async def open_database(database: str) -> AsyncIterator[Database]:
    """The database of this DSN or path, with its tables; raises DatabaseError."""
    async with connector_of(database) as connector:
        opened = Database(connector)
        await opened.create_tables()
        yield opened
