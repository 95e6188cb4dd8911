"""Orders, and the event of each, which are stored together or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final, Self
from uuid import UUID, uuid4

from pydantic import BaseModel, Field
from sqlalchemy import inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from examples.orders.settings import OUTBOX, Settings

__all__ = ["Order", "Orders"]

TABLE: Final = """\
CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL, quantity BIGINT NOT NULL);
"""
LOCKS: Final = {"postgresql": "SELECT pg_advisory_xact_lock(491624654181)", "sqlite": "BEGIN IMMEDIATE"}
"""What makes processes that create tables wait for each other: in Postgres a number that all of them lock."""

# What can't be stored is no name: a NUL, which is not text in Postgres, and half of a surrogate pair, which JSON can
# have and UTF-8 can't. The pattern has no NUL, and no pattern takes the other.
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class Order(BaseModel):
    """What a customer wants. A client that chooses `id` itself may send the order again after a lost response."""

    id: UUID = Field(default_factory=uuid4)
    customer: Name
    item: Name
    quantity: Annotated[int, Field(ge=1, le=1_000_000)]


class Orders:
    """Those of a database. All raises SQLAlchemyError; a commit whose answer was lost may have taken effect."""

    def __init__(self, engine: AsyncEngine, topic: str) -> None:
        self._engine = engine
        self._topic = topic

    @classmethod
    @asynccontextmanager
    async def opened(cls, settings: Settings) -> AsyncIterator[Self]:
        """A block with the database of these settings, whose tables are created if they are missing."""
        engine = settings.engine()
        try:
            await create_tables(engine)
            yield cls(engine, settings.topic)
        finally:
            await engine.dispose()

    async def add(self, order: Order) -> bool:
        """Store an order and its event. False, and no change, if there is an order with this id."""
        sql = "INSERT INTO orders VALUES (:id, :customer, :item, :quantity) ON CONFLICT (id) DO NOTHING"
        async with self._engine.begin() as connection:
            is_new = bool((await connection.execute(text(sql), order.model_dump() | {"id": str(order.id)})).rowcount)
            if is_new:
                event, customer = order.model_dump_json().encode(), order.customer.encode()
                await OUTBOX.put(connection, self._topic, event, key=customer)
        return is_new

    async def find(self, order_id: UUID) -> Order | None:
        """The order with this id."""
        async with self._engine.connect() as connection:
            found = await connection.execute(text("SELECT * FROM orders WHERE id = :id"), {"id": str(order_id)})
            row = found.mappings().first()
        return None if row is None else Order(**row)

    async def waiting(self) -> int:
        """How many events are in the outbox; this also says that the database answers."""
        async with self._engine.connect() as connection:
            return int((await connection.execute(text("SELECT count(*) FROM outbox"))).scalar_one())


async def create_tables(engine: AsyncEngine) -> None:
    """Create orders and outbox if they are missing. A migration may do it as well."""
    async with engine.begin() as connection:
        await connection.exec_driver_sql(LOCKS[engine.dialect.name])
        if not await connection.run_sync(lambda sync: inspect(sync).has_table("orders")):
            ddl = OUTBOX.ddl("postgres" if engine.dialect.name == "postgresql" else "sqlite")
            for statement in (TABLE + ddl).split(";\n")[:-1]:
                await connection.exec_driver_sql(statement)
