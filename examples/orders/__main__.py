"""`make example-orders`: a service takes orders, its relay is killed again and again, and each order is in Kafka once.

    python -m examples.orders [--orders 2000] [--kills 3] [--database auto|postgres|sqlite]

Starts a Kafka broker, Postgres if it is installed (else SQLite is the database), the service and the relay. The
exit status is 0 when every order came back once and those of each customer in their order, 1 when not, 2 when it could
not run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import httpx

from aioprod import read
from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster
from examples.demo.arguments import at_least
from examples.demo.local_postgres import PostgresUnavailableError, running_postgres, server_programs
from examples.demo.screen import Screen
from examples.demo.uvicorn_process import UvicornProcess
from examples.orders.orders import Orders
from examples.orders.settings import Settings

TOPIC: Final = "orders"
PARTITIONS: Final = 3
CUSTOMERS: Final = 20
SENT_S: Final = 120.0
DIFFERENCES_SHOWN: Final = 20


def main(arguments: Sequence[str], screen: Screen) -> int:
    """Run the example and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.orders")
    parser.add_argument("--orders", type=at_least(1), default=2000, help="how many orders customers place (2000)")
    parser.add_argument("--kills", type=at_least(0), default=3, help="how often the relay is killed meanwhile (3)")
    parser.add_argument("--database", choices=["auto", "postgres", "sqlite"], default="auto")
    given = parser.parse_args(arguments)
    try:
        return asyncio.run(run(given.orders, given.kills, given.database, screen))
    except (AioprodError, PostgresUnavailableError, httpx.HTTPError, RuntimeError, TimeoutError) as error:
        screen.say(f"The example could not finish: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 2


async def run(orders: int, kills: int, kind: str, screen: Screen) -> int:
    """Start a broker and a database, and run the example on them."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="orders-")))
        database = str(folder / "orders.db")
        if kind == "postgres" or (kind == "auto" and _has_postgres()):
            database = stack.enter_context(running_postgres())
        with screen.waiting("Starting a real Kafka broker; what it needs is fetched once ...") as show:
            cluster = await stack.enter_async_context(await KafkaCluster.start(backend="local", progress=show))
        await cluster.create_topic(TOPIC, partitions=PARTITIONS)
        settings = Settings(database, cluster.bootstrap_servers, TOPIC)
        name = "Postgres" if settings.is_postgres else "SQLite"
        screen.say(f"Kafka {cluster.version} serves at {cluster.bootstrap_servers}; the database is {name}.")
        return await take_orders(settings, folder, orders, kills, screen)


def _has_postgres() -> bool:
    try:
        server_programs()
    except PostgresUnavailableError:
        return False
    return True


async def take_orders(settings: Settings, folder: Path, orders: int, kills: int, screen: Screen) -> int:
    """Run service and relay, place orders, kill the relay, and compare what is in Kafka; returns the exit status."""
    start = time.perf_counter()
    async with (
        UvicornProcess("examples.orders.api", folder, settings.to_environment()) as api,
        UvicornProcess("examples.orders.relay_app", folder, settings.to_environment()) as relay,
    ):
        api.start()
        await api.until_ready()
        relay.start()
        await relay.until_ready()
        screen.say(f"{CUSTOMERS} customers place {orders:,} orders; the relay is killed {kills} times.")
        placed: dict[str, list[str]] = {f"customer {number}": [] for number in range(CUSTOMERS)}
        for part in range(kills + 1):
            share = range(orders * part // (kills + 1), orders * (part + 1) // (kills + 1))
            await asyncio.gather(
                *(place(api.client, customer, share[at::CUSTOMERS], placed) for at, customer in enumerate(placed))
            )
            if part < kills:
                relay.kill()
                relay.start()
        await until_sent(settings)
    stored: dict[str, list[str]] = {}
    async for record in read(settings.topic, bootstrap_servers=settings.kafka, isolation_level="read_committed"):
        stored.setdefault((record.key or b"").decode(), []).append(json.loads(record.value or b"{}").get("id", ""))
    found = differences(placed, stored)
    seconds = time.perf_counter() - start
    screen.table("orders", [("taken", f"{orders:,}"), ("relay killed", f"{kills}"), ("in all", f"{seconds:.1f} s")])
    for difference in found[:DIFFERENCES_SHOWN]:
        screen.say(f"DIFFERS {difference}")
    if found:
        return 1
    screen.say("Every order is in Kafka once, and those of each customer are in the order in which they were placed.")
    return 0


async def place(client: httpx.AsyncClient, customer: str, numbers: range, placed: dict[str, list[str]]) -> None:
    """Place the orders of one customer, one after the other."""
    for number in numbers:
        order = {"customer": customer, "item": f"item {number}", "quantity": 1 + number % 5}
        response = (await client.post("/orders", json=order)).raise_for_status()
        placed[customer].append(response.json()["id"])


async def until_sent(settings: Settings) -> None:
    """Wait until the relay has deleted the last row of the outbox; raises TimeoutError."""
    async with asyncio.timeout(SENT_S), Orders.opened(settings) as stored:
        while await stored.waiting():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def differences(placed: Mapping[str, list[str]], stored: Mapping[str, list[str]]) -> list[str]:
    """A sentence for each customer whose orders differ; both have the ids of each one's orders."""
    customers = sorted(placed.keys() | stored.keys())
    compared = ((customer, placed.get(customer, []), stored.get(customer, [])) for customer in customers)
    return [f"{customer}: {difference(sent, there)}" for customer, sent, there in compared if sent != there]


def difference(sent: list[str], there: list[str]) -> str:
    """What is the matter with one customer's orders."""
    lost, added, twice = len({*sent} - {*there}), len({*there} - {*sent}), len(there) - len({*there})
    if lost or added or twice:
        return f"{lost} of {len(sent)} orders are missing, {twice} are there twice, {added} were never placed."
    return f"its {len(sent)} orders are in another order."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Screen()))
