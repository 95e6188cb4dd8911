"""What is in the database of the orders, past the service."""

from __future__ import annotations

from typing import Any

from examples.orders.settings import Settings

__all__ = ["events", "execute"]


async def execute(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    """Run a statement, and return its rows."""
    engine = settings.engine()
    try:
        async with engine.begin() as connection:
            found = await connection.exec_driver_sql(sql)
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        await engine.dispose()


async def events(settings: Settings) -> list[tuple[Any, ...]]:
    """Topic, key and value of each row that waits in the outbox."""
    return await execute(settings, "SELECT topic, key, value FROM outbox ORDER BY id")
