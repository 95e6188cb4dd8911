"""The settings of the service and of its relay, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from aioprod.outbox import Outbox, PostgresTable, SqliteTable

__all__ = ["OUTBOX", "Settings"]

OUTBOX: Final = Outbox("outbox")


@dataclass(frozen=True, slots=True)
class Settings:
    """`database` is a DSN of Postgres (`postgresql://...`), or the path of SQLite's file."""

    database: str = "orders.db"
    kafka: str = "localhost:9092"
    topic: str = "orders"
    transactional_id: str = "orders-relay"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read DATABASE, KAFKA, TOPIC and TRANSACTIONAL_ID; what is not set has its default."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: environment[name.upper()] for name in names if name.upper() in environment})

    def to_environment(self) -> dict[str, str]:
        """The variables that say the same."""
        return {name.upper(): value for name, value in asdict(self).items()}

    @property
    def is_postgres(self) -> bool:
        """Whether the database is Postgres."""
        return self.database.startswith(("postgresql://", "postgres://"))

    def engine(self) -> AsyncEngine:
        """SQLAlchemy's connections, for the service."""
        if self.is_postgres:
            url = make_url(self.database).set(drivername="postgresql+psycopg")
            return create_async_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
        return create_async_engine(URL.create("sqlite+aiosqlite", database=self.database), connect_args={"timeout": 30})

    def source(self) -> PostgresTable | SqliteTable:
        """The outbox, for the relay."""
        return (PostgresTable if self.is_postgres else SqliteTable)(self.database, OUTBOX)
