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

from aioprod.relay import Relay
from examples.orders.database import Database
from examples.orders.outbox_source import OutboxSource
from examples.orders.settings import Settings, open_database

__all__ = ["make_app", "new_relay"]

log = logging.getLogger(__name__)


async def new_relay(database: Database, settings: Settings) -> Relay:
    """The relay of this database's outbox; raises DatabaseError."""
    return Relay(
        await OutboxSource.open(database, settings.topic),
        settings.bootstrap_servers,
        transactional_id=settings.transactional_id,
        marker_topic=settings.topic,
        # A transaction that was interrupted keeps readers waiting until it is ended: 10 s at most.
        transaction_timeout_ms=10_000,
    )


class Probes:
    """What is known of a relay, without a request to Kafka."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def live(self) -> JSONResponse:
        """503: the relay has ended for good. Kafka or the database being away is no reason to restart it."""
        health = self._relay.health()
        return JSONResponse({}) if health.is_alive else JSONResponse({"error": type(health.error).__name__}, 503)

    async def ready(self) -> JSONResponse:
        """503: no rows are sent now, or one has waited for half a minute."""
        health = self._relay.health()
        detail = {"state": health.state, "failures": health.failures, **health.lag._asdict()}
        return JSONResponse(detail, 200 if health.is_ready() else 503)


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
            relay = await new_relay(database, given)
            running = asyncio.create_task(relay.run())
            running.add_done_callback(report_end)
            probes = Probes(relay)
            app.add_api_route("/live", probes.live)
            app.add_api_route("/ready", probes.ready)
            yield
            running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await running

    return FastAPI(title="Relay of the orders", lifespan=lifespan)
