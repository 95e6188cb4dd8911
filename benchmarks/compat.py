"""What a service pays that changes one import: aiokafka's calls on aioprod, beside aiokafka itself.

`python -m benchmarks.compat` prints a table; AIOPROD_NO_EXT=1 does so for the interpreted build. Both producers have
the same settings and send the same values to one mock broker. Rounds are interleaved in one process. CPU time is that
of all threads, and the ratio is the median of that to aiokafka's in the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import aiokafka

from aioprod import COMPILED
from aioprod.compat.aiokafka import AIOKafkaProducer
from aioprod.console.tables import Table
from aioprod.console.terminal import show
from benchmarks.brokers import start

TOPIC: Final = "records"
VALUE: Final = bytes(100)
ROUND: Final = 5_000
"""After so many records their futures are awaited."""
TASKS: Final = 100

Send = Callable[[int], Awaitable[None]]


def futures(producer: Any, *, has_keys: bool) -> Send:
    """`send` for each record; the futures are awaited together."""

    async def send(count: int) -> None:
        for _ in range(count // ROUND):
            keys = (b"customer %d" % number if has_keys else None for number in range(ROUND))
            await asyncio.gather(*[await producer.send(TOPIC, VALUE, key) for key in keys])

    return send


def tasks(producer: Any) -> Send:
    """`send_and_wait` in tasks, as a web service has it."""

    async def one(count: int) -> None:
        for _ in range(count):
            await producer.send_and_wait(TOPIC, VALUE)

    async def send(count: int) -> None:
        await asyncio.gather(*(one(count // TASKS) for _ in range(TASKS)))

    return send


def batches(producer: Any) -> Send:
    """Batches that the caller fills."""

    async def send(count: int) -> None:
        sent, waiting = 0, []
        while sent < count:
            batch = producer.create_batch()
            while sent < count and batch.append(key=None, value=VALUE, timestamp=None) is not None:
                sent += 1
            waiting.append(await producer.send_batch(batch, TOPIC, partition=0))
        await asyncio.gather(*waiting)

    return send


WAYS: Final[dict[str, Callable[[Any], Send]]] = {
    "send, futures awaited together": lambda producer: futures(producer, has_keys=False),
    "the same with keys": lambda producer: futures(producer, has_keys=True),
    f"send_and_wait in {TASKS} tasks": tasks,
    "create_batch, send_batch": batches,
}


async def measure(rounds: int, records: int) -> list[tuple[object, ...]]:
    """Rows of the table: way, CPU time per record of aiokafka and of aioprod, their ratio in the same round."""
    async with AsyncExitStack() as stack:
        servers = (await stack.enter_async_context(start("mock"))).bootstrap_servers
        settings: Any = {"bootstrap_servers": servers, "acks": "all"}
        producers: tuple[Any, Any] = (aiokafka.AIOKafkaProducer(**settings), AIOKafkaProducer(**settings))
        for producer in producers:
            await stack.enter_async_context(producer)
        rows: list[tuple[object, ...]] = []
        for way, made in WAYS.items():
            sends = [made(producer) for producer in producers]
            found = []
            for _ in range(rounds + 1):
                costs = []
                for send in sends:
                    begun = time.process_time()
                    await send(records)
                    costs.append((time.process_time() - begun) / records * 1e6)
                found.append(costs)
            theirs, ours = zip(*found[1:], strict=True)  # The first one warms up.
            ratio = statistics.median(own / their for own, their in zip(ours, theirs, strict=True))
            rows.append((way, statistics.median(theirs), statistics.median(ours), ratio))
        return rows


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compat", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--records", type=int, default=50_000, help=f"of each way in each round, in {ROUND:,}s")
    given = parser.parse_args()
    rows = asyncio.run(measure(given.rounds, max(ROUND, given.records // ROUND * ROUND)))
    build = "compiled" if COMPILED else "interpreted"
    heading = f"CPU time of a record by aiokafka's calls, {build}"
    show([Table(heading, "", ("way", "aiokafka, us", "aioprod, us", "ratio"), rows)], sys.stdout)


if __name__ == "__main__":
    main()
