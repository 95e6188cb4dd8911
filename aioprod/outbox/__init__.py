"""Records that are stored in the transaction of the rows that they are about, and brought to Kafka by a relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.outbox.errors import DatabaseError
    from aioprod.outbox.health import OutboxHealth
    from aioprod.outbox.outbox import Outbox
    from aioprod.outbox.postgres import PostgresTable
    from aioprod.outbox.rows import OutboxLag
    from aioprod.outbox.sqlite import SqliteTable

__all__ = ["DatabaseError", "Outbox", "OutboxHealth", "OutboxLag", "PostgresTable", "SqliteTable"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "DatabaseError": "errors",
            "Outbox": "outbox",
            "OutboxHealth": "health",
            "OutboxLag": "rows",
            "PostgresTable": "postgres",
            "SqliteTable": "sqlite",
        },
    )
