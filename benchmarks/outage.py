"""A service that is killed while Kafka is away: `python -m benchmarks.outage`. What is lost, and what is there twice?

Two services take orders and answer each: one keeps them with `SpooledProducer`, the other has a list and a loop that
sends each until Kafka has it, as programs do that have no spool. A broker answers nothing from time to time, and
the services are killed and started again. An order that was answered must be in Kafka once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from typing import Final

from aioprod import Producer, read
from aioprod.errors import AioprodError
from aioprod.spool import SpooledProducer
from aioprod.testing import KafkaCluster

_RATE: Final = 200
"""Orders a second."""


async def spooled(servers: str, folder: str, first: int) -> None:
    """Answer each order when it is on disk."""
    async with SpooledProducer(servers, folder=folder) as producer:
        number = first
        while True:
            await producer.send("spooled", b"%d" % number)
            print(number, flush=True)
            number += 1
            await asyncio.sleep(1 / _RATE)


async def retried(servers: str, folder: str, first: int) -> None:
    """Answer each order at once, and send it until that works."""
    waiting: asyncio.Queue[int] = asyncio.Queue()

    async def send_all() -> None:
        async with Producer(servers, delivery_timeout_ms=5000, request_timeout_ms=2000, linger_ms=0) as producer:
            while True:
                number = await waiting.get()
                while True:
                    try:
                        await producer.send("retried", b"%d" % number)
                        break
                    except AioprodError:
                        await asyncio.sleep(0.1)

    async def send_until_it_starts() -> None:
        while True:
            try:
                await send_all()
            except AioprodError:
                await asyncio.sleep(0.1)

    sending = asyncio.create_task(send_until_it_starts())
    number = first
    while not sending.done():
        waiting.put_nowait(number)
        print(number, flush=True)
        number += 1
        await asyncio.sleep(1 / _RATE)


async def _life(kind: str, servers: str, folder: str, first: int, seconds: float) -> list[int]:
    """Run a service for so long; the numbers that it has answered."""
    command = (sys.executable, "-m", "benchmarks.outage", "--service", kind, servers, folder, str(first))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    await asyncio.sleep(seconds)
    process.kill()
    out, _ = await process.communicate()
    return [int(line) for line in out.split(b"\n")[:-1]]


async def _lives(kind: str, servers: str, folder: str, kills: int) -> list[int]:
    chance = random.Random(3)
    answered: list[int] = []
    for number in range(kills):
        answered += await _life(kind, servers, folder, number * 1_000_000, 2 + 6 * chance.random())
    answered += await _life(kind, servers, folder, kills * 1_000_000, 20)
    return answered


async def _measure(kills: int, outages: Sequence[float]) -> None:
    kinds = ("spooled", "retried")
    with tempfile.TemporaryDirectory(dir=".") as folder:
        async with await KafkaCluster.start(1) as cluster:
            for kind in kinds:
                await cluster.create_topic(kind, 1)
            lives = [asyncio.create_task(_lives(kind, cluster.bootstrap_servers, folder, kills)) for kind in kinds]
            for seconds in outages:
                await asyncio.sleep(3)
                await cluster.pause(1)
                await asyncio.sleep(seconds)
                await cluster.resume(1)
            answered = dict(zip(kinds, await asyncio.gather(*lives), strict=True))
            async with SpooledProducer(cluster.bootstrap_servers, folder=folder) as last:
                await last.flush()
            for kind in kinds:
                found = Counter(
                    [
                        int(record.value or b"")
                        async for record in read(
                            kind, bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
                        )
                    ]
                )
                lost = len(set(answered[kind]) - set(found))
                twice = sum(count > 1 for count in found.values())
                print(f"{kind}: {len(answered[kind]):,} orders answered, {lost:,} lost, {twice:,} there twice")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each service (10)")
    parser.add_argument("--outages", type=float, nargs="*", default=[5.0, 10.0, 5.0, 8.0], help="seconds of each")
    parser.add_argument("--service", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.service:
        kind, servers, folder, first = given.service
        asyncio.run((spooled if kind == "spooled" else retried)(servers, folder, int(first)))
    else:
        asyncio.run(_measure(given.kills, given.outages))


if __name__ == "__main__":
    main()
