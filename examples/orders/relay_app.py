"""The relay as a service, with the probes that an orchestrator requests: states and numbers; the log has reasons.

    DATABASE=orders.db KAFKA=localhost:9092 uvicorn --factory examples.orders.relay_app:make_app

A second one waits until the first one has ended. `aioprod outbox relay` does the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Response

from aioprod.relay import Relay
from examples.orders.orders import Orders
from examples.orders.settings import Settings

__all__ = ["make_app"]

log = logging.getLogger(__name__)


def make_app(settings: Settings | None = None) -> FastAPI:
    """The application; its settings come from the environment if none are given."""
    given = settings or Settings.from_environment()
    source = given.source()
    # A transaction that was interrupted keeps readers waiting until it is ended: 10 s at most.
    relay = Relay(source, given.kafka, transactional_id=given.transactional_id, transaction_timeout_ms=10_000)

    async def run() -> None:
        try:
            async with source:
                await relay.run()
        except Exception:
            log.exception("The relay has ended, and sends nothing any more.")

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Orders.opened(given):  # Which creates the tables, whichever process is first.
            app.state.running = asyncio.create_task(run())
            yield
            app.state.running.cancel()
            await asyncio.wait([app.state.running])

    app = FastAPI(title="Relay of the orders", lifespan=lifespan)

    @app.get("/live")
    async def live(response: Response) -> None:
        """503: the relay has ended for good. Kafka or the database being away is no reason to restart it."""
        response.status_code = 503 if app.state.running.done() else 200

    @app.get("/ready")
    async def ready(response: Response) -> dict[str, Any]:
        """503: no events are sent now, or one has waited for half a minute."""
        health, table = relay.health(), source.health()
        # One that waits for the end of another relay is ready: a rollout ends the other one after that.
        is_standby = health.state == "new" and not app.state.running.done()
        response.status_code = 200 if is_standby or (health.is_ready() and table.is_ready()) else 503
        numbers = {"failures": health.failures, "waiting": table.waiting_rows, "held_age_s": table.held_age_s}
        return {"state": health.state, **numbers}

    return app
