"""The service: what it answers, and what it stores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from examples.orders.api import BODY_MAX, make_app
from examples.orders.settings import Settings
from tests.examples.orders.databases import events, execute

CAKE = {"id": "11111111-1111-4111-8111-111111111111", "customer": "Ada", "item": "cake", "quantity": 2}


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an application that has started."""
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://orders") as client,
    ):
        yield client


async def test_an_order_is_stored_once_with_its_event(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        first = await client.post("/orders", json=CAKE)
        again = await client.post("/orders", json=CAKE)
        shown = await client.get(f"/orders/{CAKE['id']}")
        assert (first.status_code, again.status_code, shown.status_code) == (201, 200, 200)
        assert first.json() == again.json() == shown.json() == CAKE
        assert (await client.get("/ready")).json() == {"waiting": 1}
        assert (await client.get("/live")).status_code == 200
    assert await events(Settings(dsn)) == [("orders", b"Ada", first.content)]


async def test_an_id_names_one_order(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        await client.post("/orders", json=CAKE)
        response = await client.post("/orders", json=CAKE | {"quantity": 3})
        assert response.status_code == 409
        assert CAKE["id"] in response.json()["detail"]
        assert (await client.get("/ready")).json() == {"waiting": 1}


async def test_an_order_that_is_none(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        for wrong in ({"quantity": 0}, {"customer": ""}, {"id": "7"}):
            assert (await client.post("/orders", json=CAKE | wrong)).status_code == 422
        assert (await client.get(f"/orders/{CAKE['id']}")).status_code == 404
        assert (await client.get("/ready")).json() == {"waiting": 0}


@pytest.mark.parametrize("field", ["customer", "item", "id", "quantity"])
@pytest.mark.parametrize("text", [r"A\u0000da", r"A\ud800da", r"\udc00", "\\ud800" * 300])
async def test_a_text_that_no_database_takes_is_no_order(dsn: str, field: str, text: str) -> None:
    """A NUL is not text in Postgres, and half of a surrogate pair is none in UTF-8."""
    with_it = json.dumps(CAKE | {field: "?"}).replace('"?"', f'"{text}"')
    async with serving(make_app(Settings(dsn))) as client:
        response = await client.post("/orders", content=with_it, headers={"content-type": "application/json"})
        assert response.status_code == 422
        assert [error["loc"] for error in response.json()["detail"]] == [["body", field]]
        assert (await client.get("/ready")).json() == {"waiting": 0}


@pytest.mark.parametrize("content", [rb'{"\ud800": "\ud800"}', rb'["\ud800"]', rb'"\ud800"', b'{"quantity": NaN}'])
async def test_a_body_that_cannot_be_repeated_is_no_order(dsn: str, content: bytes) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        response = await client.post("/orders", content=content, headers={"content-type": "application/json"})
        assert response.status_code == 422


async def test_any_other_text_is_stored(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        order = CAKE | {"customer": "\x01\ufffe𝄞é", "item": "\n"}
        assert (await client.post("/orders", json=order)).status_code == 201
        assert (await client.get(f"/orders/{CAKE['id']}")).json() == order


async def test_a_database_that_fails_is_told(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        await execute(Settings(dsn), "DROP TABLE outbox")
        response = await client.post("/orders", json=CAKE)
        assert response.status_code == 503
        detail = response.json()["detail"]
        assert detail == "The database can't be used now. Send the order again, with the same id.", "it names a table"
        assert (await client.get(f"/orders/{CAKE['id']}")).status_code == 404, "it was stored without its event"


async def test_a_body_that_is_larger_than_any_order_is_refused(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        largest = CAKE | {"customer": "\u2615" * 200, "item": "\u2615" * 200}
        kind = {"content-type": "application/json"}
        assert (await client.post("/orders", content=json.dumps(largest), headers=kind)).status_code == 201
        response = await client.post("/orders", content=json.dumps(CAKE) + " " * BODY_MAX, headers=kind)
        assert (response.status_code, response.json()["detail"]) == (413, "A request has 16384 bytes at most.")


async def test_a_chosen_id_is_not_needed(dsn: str) -> None:
    async with serving(make_app(Settings(dsn))) as client:
        first, second = [(await client.post("/orders", json=CAKE | {"id": None})).status_code for _ in range(2)]
        assert (first, second) == (422, 422)
        without = {name: value for name, value in CAKE.items() if name != "id"}
        ids = {(await client.post("/orders", json=without)).json()["id"] for _ in range(3)}
        assert len(ids) == 3


@pytest.mark.parametrize("environment", [{}, {"DATABASE": "postgresql://h/d", "KAFKA": "k:9", "TOPIC": "t"}])
def test_settings_come_from_the_environment(environment: dict[str, str]) -> None:
    found = Settings.from_environment(environment)
    assert found.database == environment.get("DATABASE", "orders.db")
    assert found.kafka == environment.get("KAFKA", "localhost:9092")
    assert (found.topic, found.transactional_id) == (environment.get("TOPIC", "orders"), "orders-relay")
    assert Settings.from_environment(found.to_environment()) == found
