"""Writers of orders: `python -P -m benchmarks.outbox.writers KIND DSN TOPIC WRITERS SECONDS RATE`.

KIND is "before", the example's own code, or "library". Both have the example's orders and its pool of connections. RATE
is transactions a second of all writers, 0 for as many as there can be. Prints the id of each order, and when its
transaction was committed in monotonic seconds.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, TypeAlias

from psycopg_pool import AsyncConnectionPool

from aioprod.outbox import Outbox

__all__ = ["OUTBOX", "main"]

OUTBOX = Outbox("outbox")
_POOL_SIZE = 10
"""As in the example."""
_CUSTOMERS = 1000

_Add: TypeAlias = Callable[[Any], Awaitable[object]]
"""Commits an order of the example as it was."""


@asynccontextmanager
async def _before(dsn: str, _: str) -> AsyncIterator[_Add]:
    async with import_module("examples.orders.settings").open_database(dsn) as database:
        yield database.add


@asynccontextmanager
async def _library(dsn: str, topic: str) -> AsyncIterator[_Add]:
    check = AsyncConnectionPool.check_connection
    async with AsyncConnectionPool(dsn, min_size=1, max_size=_POOL_SIZE, open=False, check=check) as pool:

        async def add(order: Any) -> None:
            async with pool.connection() as connection:
                await connection.execute(
                    "INSERT INTO orders VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO NOTHING RETURNING id",
                    (str(order.id), order.customer, order.item, order.quantity),
                )
                await OUTBOX.put(connection, topic, order.model_dump_json().encode(), key=order.customer.encode())

        yield add


async def main(kind: str, dsn: str, topic: str, writers: str, seconds: str, rate: str) -> None:
    """Commit orders for so long."""
    count, pause_s = int(writers), int(writers) / float(rate) if float(rate) else 0.0
    new_order = import_module("examples.orders.order").Order
    done: list[tuple[str, float]] = []

    async def write(add: _Add, end: float) -> None:
        following = time.monotonic() + pause_s * random.random()
        while (now := time.monotonic()) < end:
            if pause_s:
                await asyncio.sleep(max(0.0, following - now))
                following += pause_s
            order = new_order(customer=f"customer {random.randrange(_CUSTOMERS)}", item="a book", quantity=1)
            await add(order)
            done.append((str(order.id), time.monotonic()))

    async with (_before if kind == "before" else _library)(dsn, topic) as add:
        end = time.monotonic() + float(seconds)
        await asyncio.gather(*(write(add, end) for _ in range(count)))
    print(time.process_time())
    for order_id, at in done:
        print(order_id, at)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
