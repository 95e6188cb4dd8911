"""A relay, until it is terminated: `python -P -m benchmarks.outbox.relays KIND DSN SERVERS TOPIC [PROFILE]`.

KIND is "before", the example's own code, or "library". PROFILE is a file for cProfile. Prints its CPU time at the end.
"""

from __future__ import annotations

import asyncio
import cProfile
import signal
import sys
import time
from importlib import import_module

from aioprod.outbox import PostgresTable
from aioprod.relay import Relay
from benchmarks.outbox.writers import OUTBOX

__all__ = ["main"]


async def _before(dsn: str, servers: str, topic: str) -> None:
    settings = import_module("examples.orders.settings")
    async with settings.open_database(dsn) as database:
        given = settings.Settings(dsn, servers, topic, topic)
        relay = await import_module("examples.orders.relay_app").new_relay(database, given)
        await relay.run()


async def _library(dsn: str, servers: str, topic: str) -> None:
    async with PostgresTable(dsn, OUTBOX) as source:
        await Relay(source, servers, transactional_id=topic, marker_topic=topic, transaction_timeout_ms=10_000).run()


async def main(kind: str, dsn: str, servers: str, topic: str) -> None:
    """Relay until SIGTERM."""
    task = asyncio.create_task((_before if kind == "before" else _library)(dsn, servers, topic))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    print(time.process_time())


if __name__ == "__main__":
    if len(sys.argv) > 5:
        cProfile.run("asyncio.run(main(*sys.argv[1:5]))", sys.argv[5])
    else:
        asyncio.run(main(*sys.argv[1:5]))
