"""The relay as a service: what its probes say, and who relays where two of them run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from aioprod.errors import ErrorCode
from aioprod.messages import ProduceRequest
from aioprod.outbox import watch
from aioprod.testing.fixtures import FakeClusterThread
from examples.orders.orders import Order, Orders
from examples.orders.relay_app import make_app
from examples.orders.settings import Settings
from tests.examples.orders.databases import execute


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_EVERY_S", 0.01)


@pytest.fixture
def settings(fake_cluster: FakeClusterThread, dsn: str) -> Settings:
    fake_cluster.create_topic("orders", partitions=3)
    return Settings(dsn, fake_cluster.bootstrap)


@asynccontextmanager
async def relaying(settings: Settings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a relay that has started."""
    app = make_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://relay") as client,
    ):
        yield client


async def until(client: httpx.AsyncClient, path: str, status: int) -> httpx.Response:
    while (response := await client.get(path)).status_code != status:
        await asyncio.sleep(0.01)
    return response


async def until_running(client: httpx.AsyncClient) -> httpx.Response:
    """Until it has the outbox's lock, and is ready."""
    while (response := await until(client, "/ready", 200)).json()["state"] != "running":
        await asyncio.sleep(0.01)
    return response


async def place(orders: Orders, *items: str) -> None:
    for item in items:
        assert await orders.add(Order(customer="Ada", item=item, quantity=1))


async def until_sent(orders: Orders) -> None:
    while await orders.waiting():
        await asyncio.sleep(0.01)


def sent(cluster: FakeClusterThread) -> list[str]:
    """The items in the order in which a reader with read_committed gets them; a customer has one partition."""
    records = [record for index in range(3) for record in cluster.records("orders", index)]
    return [Order.model_validate_json(record.value or b"").item for record in records]


async def test_one_relay_of_two_is_ready_and_the_other_takes_over(
    fake_cluster: FakeClusterThread, settings: Settings
) -> None:
    async with Orders.opened(settings) as orders:
        async with relaying(settings) as first:
            response = await until_running(first)
            assert set(response.json()) == {"state", "failures", "waiting", "held_age_s"}
            await place(orders, "bread")
            await until_sent(orders)
            second = relaying(settings)
            client = await second.__aenter__()
            assert (await client.get("/live")).status_code == 200
            assert (await client.get("/ready")).json()["state"] == "new"
            assert (await client.get("/ready")).status_code == 200
        await until_running(client)
        await place(orders, "cake")
        await until_sent(orders)
        await second.__aexit__(None, None, None)
    assert sent(fake_cluster) == ["bread", "cake"]


async def test_a_rejected_event_ends_the_relay_and_is_not_skipped_by_the_next_one(
    fake_cluster: FakeClusterThread, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    fault = fake_cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    async with Orders.opened(settings) as orders:
        await place(orders, "bread", "cake")
        async with relaying(settings) as client:
            response = await until(client, "/live", 503)
            assert response.content == b"null", "it tells what is in the log"
            assert (await client.get("/ready")).status_code == 503
        assert await orders.waiting() == 2
        assert "The relay has ended" in caplog.text
        fake_cluster.call(fault.end)
        async with relaying(settings):
            await until_sent(orders)
    assert sent(fake_cluster) == ["bread", "cake"]


async def test_an_event_that_waits_for_long_is_told(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    fault = fake_cluster.fault(ProduceRequest, hold=True)
    hour = "interval '1 hour'" if settings.is_postgres else "3600000"
    async with Orders.opened(settings) as orders:
        await place(orders, "bread")
        await execute(settings, f"UPDATE outbox SET put_at = put_at - {hour}")
        async with relaying(settings) as client:
            while (ready := (await client.get("/ready")).json())["state"] != "running" or not ready["waiting"]:
                await asyncio.sleep(0.01)
            assert (await client.get("/ready")).status_code == 503
            fake_cluster.call(fault.release)
            await until(client, "/ready", 200)
    assert sent(fake_cluster) == ["bread"]


async def test_a_relay_without_kafka_lives_and_is_not_ready(dsn: str) -> None:
    async with relaying(Settings(dsn, "127.0.0.1:1")) as client:
        await until(client, "/ready", 503)
        assert (await client.get("/live")).status_code == 200
