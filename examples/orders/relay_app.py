"""The relay as a service, with the probes that an orchestrator requests: states and numbers; the log has reasons.

    DATABASE=orders.db KAFKA=localhost:9092 uvicorn --factory examples.orders.relay_app:make_app

One of them runs for each outbox. A second one takes over, and the first one answers `/live` with 503.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from examples.orders.relay import Relay
from examples.orders.settings import Settings, open_database

__all__ = ["make_app"]

log = logging.getLogger(__name__)


class Probes:
    """What is known of a relay that runs as a task, without a request to Kafka."""

    def __init__(self, relay: Relay, running: asyncio.Task[None]) -> None:
        self._relay = relay
        self._running = running

    async def live(self) -> JSONResponse:
        """503: the relay has ended for good. Kafka or the database being away is no reason to restart it."""
        if not self._running.done():
            return JSONResponse({})
        return JSONResponse({"error": type(self._running.exception()).__name__}, 503)

    async def ready(self) -> JSONResponse:
        """503: nothing is sent now."""
        producer = self._relay.producer
        if producer is None:
            return JSONResponse({"state": "new"}, 503)
        health = producer.health()
        detail = {
            "state": health.state,
            "connected": len(health.connected),
            "away": len(health.away),
            "oldest_age_s": health.oldest_age_s,
        }
        return JSONResponse(detail, 200 if health.is_ready() and not self._running.done() else 503)


def report_end(running: asyncio.Task[None]) -> None:
    """Log why a relay has ended, unless it was cancelled."""
    if not running.cancelled():
        log.error("The relay has ended, and sends nothing any more: %s", running.exception())


def make_app(settings: Settings | None = None) -> FastAPI:
    """The application; its settings come from the environment if none are given."""
    given = settings or Settings.from_environment()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_database(given.database) as database:
            relay = Relay(database, given)
            running = asyncio.create_task(relay.run())
            running.add_done_callback(report_end)
            probes = Probes(relay, running)
            app.add_api_route("/live", probes.live)
            app.add_api_route("/ready", probes.ready)
            yield
            running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await running

    return FastAPI(title="Relay of the orders", lifespan=lifespan)
