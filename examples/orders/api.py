"""The service: takes orders, and stores each with its event in one transaction of the database.

    DATABASE=orders.db uvicorn --factory examples.orders.api:make_app

It does not talk to Kafka: orders are taken while Kafka is away. Start as many of it as there are requests for.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from examples.orders.orders import Order, Orders
from examples.orders.settings import Settings

__all__ = ["BODY_MAX", "make_app"]

log = logging.getLogger(__name__)

BODY_MAX: Final = 16_384
"""The most bytes of a request: an order has 1,600 at most, or four times that where JSON escapes them."""

router = APIRouter()


def orders_of(request: Request) -> Orders:
    """Those of the database that the application has opened."""
    orders: Orders = request.app.state.orders
    return orders


Opened = Annotated[Orders, Depends(orders_of)]


@router.post("/orders", status_code=201)
async def take(order: Order, orders: Opened, response: Response) -> Order:
    """201: the order is stored, and its event will be in Kafka. 200: it was stored before, by an earlier request."""
    if not await orders.add(order):
        if await orders.find(order.id) != order:
            raise HTTPException(409, f"There is another order with the id {order.id}.")
        response.status_code = 200
    return order


@router.get("/orders/{order_id}")
async def show(order_id: UUID, orders: Opened) -> Order:
    """The order with this id."""
    order = await orders.find(order_id)
    if order is None:
        raise HTTPException(404, f"There is no order with the id {order_id}.")
    return order


@router.get("/live")
async def live() -> dict[str, str]:
    """The process serves requests."""
    return {}


@router.get("/ready")
async def ready(orders: Opened) -> dict[str, int]:
    """The database answers; how many events wait in it for the relay."""
    return {"waiting": await orders.waiting()}


async def database_failed(request: Request, error: Exception) -> JSONResponse:
    """503: the order may be stored, if the answer to the commit was lost. To send it again with its id is safe."""
    log.error("The database has failed: %s", error)
    detail = "The database can't be used now. Send the order again, with the same id."
    return JSONResponse({"detail": detail}, status_code=503)


async def is_no_order(request: Request, error: Exception) -> Response:
    """422 as FastAPI's own, without the input: that may be what no response can hold, such as NaN."""
    assert isinstance(error, RequestValidationError)
    detail = [{name: one[name] for name in ("type", "loc", "msg")} for one in error.errors()]
    return Response(json.dumps({"detail": detail}), status_code=422, media_type="application/json")


class BodyLimit:
    """413 for a body that is larger than any order, before all of it is in memory."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count what arrives."""
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_MAX:
                raise HTTPException(413, f"A request has {BODY_MAX} bytes at most.")
            return message

        await self._app(scope, counted, send)


def make_app(settings: Settings | None = None) -> FastAPI:
    """The application; its settings come from the environment if none are given."""
    given = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Orders.opened(given) as app.state.orders:
            yield

    app = FastAPI(
        title="Orders",
        lifespan=lifespan,
        exception_handlers={SQLAlchemyError: database_failed, RequestValidationError: is_no_order},
    )
    app.add_middleware(BodyLimit)
    app.include_router(router)
    return app
