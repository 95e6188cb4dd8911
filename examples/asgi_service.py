"""A web service that responds when Kafka has acknowledged the record: one producer, one `await send()` per request.

The producer starts and closes with the application. On an error the response says whether the order is not stored, or
may be stored. If the client disconnects and the handler is cancelled, a record that was not sent yet is removed.

    uvicorn --factory examples.asgi_service:make_app         with any ASGI server; KAFKA=host:port[,...]
    python examples/asgi_service.py localhost:9092           sends one order to itself, no server needed
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from aioprod import Producer
from aioprod.errors import AioprodError

TOPIC = "orders"


async def create_order(request: Request) -> JSONResponse:
    """`POST /orders/{customer}`: the body is the order; 201 says where it is stored."""
    producer: Producer = request.app.state.producer
    try:
        stored = await producer.send(TOPIC, await request.body(), key=request.path_params["customer"].encode())
    except AioprodError as error:
        if error.may_be_stored:
            return failed(error, 504, "It may be stored: look before you try again.")
        return failed(error, 503, "It is not stored: you may try again.")
    return JSONResponse({"partition": stored.partition, "offset": stored.offset}, status_code=201)


def failed(error: AioprodError, status: int, advice: str) -> JSONResponse:
    """Return a response that says what happened and what to do."""
    return JSONResponse({"error": error.message, "advice": advice}, status_code=status)


def make_app(bootstrap_servers: str | None = None) -> Starlette:
    """Return the application, with a producer that starts and closes with it."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        servers = bootstrap_servers or os.environ.get("KAFKA", "localhost:9092")
        # A server can't be stopped while it starts, so the start must fail soon without Kafka. Orchestrators give a pod
        # 30 s after SIGTERM, for the last requests and then for the producer to close.
        producer = Producer(
            servers,
            max_block_ms=10_000,
            request_timeout_ms=3_000,
            delivery_timeout_ms=10_000,
            close_timeout_ms=8_000,
        )
        await producer.start()
        app.state.producer = producer
        yield
        report = await producer.close()
        for error in report.undelivered:
            print(f"lost at shutdown: {error}")

    return Starlette(routes=[Route("/orders/{customer}", create_order, methods=["POST"])], lifespan=lifespan)


async def order_once(bootstrap_servers: str) -> httpx.Response:
    """Run the application without a server, and send one order to it."""
    app = make_app(bootstrap_servers)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://service") as client,
    ):
        return await client.post("/orders/42", content=b'{"book": 1}')


if __name__ == "__main__":
    response = asyncio.run(order_once(sys.argv[1]))
    print(response.status_code, response.text)
