"""The relay of an outbox: `python -m integration.outbox.relay PostgresTable|SqliteTable DATABASE SERVERS ID`."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from aioprod.outbox import DatabaseError, PostgresTable, SqliteTable
from aioprod.relay import Relay
from integration.outbox.plans import OUTBOX

__all__ = ["main"]

_TABLES: Final[dict[str, type[PostgresTable | SqliteTable]]] = {
    "PostgresTable": PostgresTable,
    "SqliteTable": SqliteTable,
}


async def main(kind: str, database: str, servers: str, name: str) -> None:
    """Relay until killed."""
    while True:
        try:
            async with _TABLES[kind](database, OUTBOX) as source:
                await Relay(source, servers, transactional_id=name, transaction_timeout_ms=10_000).run()
        except DatabaseError:  # The server is away just now.
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
