"""The orders and their outbox, in one database, so that an order and its event are stored together or not at all.

The outbox is a table of records to send. They are numbered from 0 without a gap, in the order of their commits: the
next number is a row of its own, which a transaction changes last and keeps locked until it commits. An identity
column would number rows before their commit, and a reader that has seen number 8 could miss number 7, which is
committed later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, LiteralString, NamedTuple, Protocol
from uuid import UUID, uuid4

from examples.orders.order import Order

__all__ = ["Connector", "Database", "DatabaseError", "Execute", "OutboxRow", "OutboxState"]

TABLES: tuple[LiteralString, ...] = (
    """
    CREATE TABLE IF NOT EXISTS orders (
        id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, quantity BIGINT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS outbox (
        number BIGINT PRIMARY KEY, id TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS outbox_state (
        only_row INTEGER PRIMARY KEY CHECK (only_row = 1), owner TEXT NOT NULL, next BIGINT NOT NULL
    )
    """,
)


class DatabaseError(OSError):
    """The database did not do what was requested. A commit whose answer was lost may have taken effect.

    An OSError, as relays try again after these.
    """


class Execute(Protocol):
    """Run one statement, with `?` for each argument, in the open transaction, and return its rows."""

    def __call__(self, sql: LiteralString, *arguments: object) -> Awaitable[Sequence[tuple[Any, ...]]]: ...


class Connector(Protocol):
    """One kind of database. Its blocks are transactions: an exception rolls them back; all raise DatabaseError."""

    @property
    def columns_of(self) -> LiteralString:
        """The statement whose rows are the names of the columns of a table, its argument."""
        ...

    def reading(self) -> AbstractAsyncContextManager[Execute]:
        """A transaction that only reads."""
        ...

    def writing(self) -> AbstractAsyncContextManager[Execute]:
        """A transaction that writes."""
        ...

    def creating(self) -> AbstractAsyncContextManager[Execute]:
        """A transaction that creates tables; other processes that do so wait for its end."""
        ...


class OutboxRow(NamedTuple):
    """A record to send. A database that was restored from a copy gives a number again, but never a random `id`."""

    number: int
    id: str
    key: str
    value: str


class OutboxState(NamedTuple):
    """The name of the outbox, and the number that the next row gets."""

    owner: str
    next: int


class Database:
    """The statements of the service and of its relay; all raise DatabaseError."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def create_tables(self) -> None:
        """Create tables that are missing, and a column; the owner of a new outbox is a random name."""
        async with self._connector.creating() as execute:
            for table in TABLES:
                await execute(table)
            if "id" not in {name for (name,) in await execute(self._connector.columns_of, "outbox")}:
                # Of an earlier version of this example. Its rows get an empty text, for unknown.
                await execute("ALTER TABLE outbox ADD COLUMN id TEXT NOT NULL DEFAULT ''")
            # Not ON CONFLICT: an earlier version's table has more columns, which must not be empty.
            await execute(
                "INSERT INTO outbox_state (only_row, owner, next) "
                "SELECT 1, ?, 0 WHERE NOT EXISTS (SELECT 1 FROM outbox_state)",
                uuid4().hex,
            )

    # --- the service

    async def add(self, order: Order) -> bool:
        """Store an order and its event. False, and no change, if there is an order with this id."""
        order_id = str(order.id)
        async with self._connector.writing() as execute:
            added = await execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id",
                *(order_id, order.customer, order.item, order.quantity),
            )
            if not added:
                return False
            ((number,),) = await execute("UPDATE outbox_state SET next = next + 1 RETURNING next - 1")
            await execute(
                "INSERT INTO outbox (number, id, key, value) VALUES (?, ?, ?, ?)",
                *(number, uuid4().hex, order.customer, order.model_dump_json()),
            )
        return True

    async def order(self, order_id: UUID) -> Order | None:
        """The order with this id."""
        async with self._connector.reading() as execute:
            rows = await execute("SELECT id, customer, item, quantity FROM orders WHERE id = ?", str(order_id))
        for found, customer, item, quantity in rows:
            return Order(id=found, customer=customer, item=item, quantity=quantity)
        return None

    # --- its relay

    async def outbox_state(self) -> OutboxState:
        """The state of the outbox."""
        async with self._connector.reading() as execute:
            ((owner, following),) = await execute("SELECT owner, next FROM outbox_state")
        return OutboxState(owner, following)

    async def outbox(self, start: int, limit: int) -> list[OutboxRow]:
        """The rows from a number on, in their order, so many at most."""
        async with self._connector.reading() as execute:
            rows = await execute(
                "SELECT number, id, key, value FROM outbox WHERE number >= ? ORDER BY number LIMIT ?", start, limit
            )
        return [OutboxRow(*row) for row in rows]

    async def delete_outbox(self, end: int) -> None:
        """Delete the rows before a number: they were sent."""
        async with self._connector.writing() as execute:
            await execute("DELETE FROM outbox WHERE number < ?", end)
