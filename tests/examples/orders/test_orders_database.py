"""The orders and their outbox: an order and its event are stored together or not at all."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from sqlalchemy.exc import SQLAlchemyError

from examples.orders.orders import Order, Orders
from examples.orders.settings import OUTBOX, Settings
from tests.examples.orders.databases import events, execute


def order(item: str) -> Order:
    return Order(customer="Ada", item=item, quantity=1)


async def test_processes_that_start_at_once_share_an_outbox(dsn: str) -> None:
    async def start(number: int) -> None:
        async with Orders.opened(Settings(dsn)) as orders:
            assert await orders.add(order(f"{number}"))

    await asyncio.gather(*map(start, range(5)))
    assert len(await events(Settings(dsn))) == 5


async def test_processes_take_orders_beside_each_other(dsn: str) -> None:
    settings = Settings(dsn)
    async with Orders.opened(settings) as one, Orders.opened(settings) as other:
        assert all(await asyncio.gather(*((one, other)[n % 2].add(order(f"{n}")) for n in range(60))))
        assert await one.waiting() == 60
    items = {json.loads(value)["item"] for _, _, value in await events(settings)}
    assert items == {f"{n}" for n in range(60)}


async def test_an_event_that_cannot_be_put_leaves_no_order(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("sold out")

    cake = order("cake")
    async with Orders.opened(Settings(dsn)) as orders:
        with monkeypatch.context() as patch:
            patch.setattr(type(OUTBOX), "put", fail)
            with pytest.raises(RuntimeError, match="sold out"):
                await orders.add(cake)
        assert await orders.find(cake.id) is None
        assert await orders.waiting() == 0
        assert await orders.add(cake)


async def test_a_call_that_is_cancelled_leaves_nothing_open(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = asyncio.Event()

    async def hang(*_: object, **__: object) -> None:
        entered.set()
        await asyncio.Event().wait()

    async with Orders.opened(Settings(dsn)) as orders:
        with monkeypatch.context() as patch:
            patch.setattr(type(OUTBOX), "put", hang)
            hanging = asyncio.create_task(orders.add(order("bread")))
            await entered.wait()
            hanging.cancel()
            await asyncio.wait([hanging])
        assert await orders.add(order("cake"))
    assert await execute(Settings(dsn), "SELECT item FROM orders") == [("cake",)]


async def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(SQLAlchemyError, match=r"connection (failed|is bad)"):
        async with Orders.opened(Settings("postgresql://nobody@/nothing?host=/nonexistent")):
            pass


async def test_a_file_that_cannot_be_opened_is_told() -> None:
    with pytest.raises(SQLAlchemyError, match="unable to open"):
        async with Orders.opened(Settings("/nonexistent/orders.db")):
            pass
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join)  # aiosqlite's: its last call is for this loop.
