"""How long each kind of work blocks the event loop: the longest CPU time between two beats of the loop.

`python -m integration.loop_gaps [host:port]` prints a table; without an address it starts a broker. It measures the CPU
time of the thread, so that other load of the machine does not count. Garbage collection is off while a case runs.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import uvloop

import aioprod
from aioprod import Producer
from aioprod.admin import Admin
from aioprod.testing import KafkaCluster

RECORDS = 200_000
HARD_RECORDS = 50_000
PARTITIONS = 8
LARGE: dict[str, Any] = {"batch_size": 900_000, "max_request_size": 1_000_000, "linger_ms": 50}
CODECS: dict[str, dict[str, Any]] = {
    "none": {},
    "gzip 9": {"compression_type": "gzip", "compression_gzip_level": 9},
    "snappy": {"compression_type": "snappy"},
    "lz4": {"compression_type": "lz4"},
    "lz4 12": {"compression_type": "lz4", "compression_lz4_level": 12},
    "zstd": {"compression_type": "zstd"},
    "zstd 19": {"compression_type": "zstd", "compression_zstd_level": 19},
}

Work = Callable[[Producer], Awaitable[object]]


class Beat:
    """A callback in each turn of the loop that notes the processor time since the one before."""

    def __init__(self) -> None:
        self.largest_s = 0.0
        self.turns = 0
        self._loop = asyncio.get_running_loop()
        self._last_s = time.thread_time()
        self._handle = self._loop.call_soon(self._beat)

    def _beat(self) -> None:
        now_s = time.thread_time()
        self.largest_s = max(self.largest_s, now_s - self._last_s)
        self.turns += 1
        self._last_s = now_s
        self._handle = self._loop.call_soon(self._beat)

    def stop(self) -> None:
        """End it; what was noted stays."""
        self._handle.cancel()


class Gaps:
    """Runs cases against one topic and prints what they found."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.topic = f"loop-gaps-{uuid.uuid4().hex[:8]}"
        self.kept: list[object] = []
        """What would take long to be dropped."""
        numbers = random.Random(1)
        names = ("alice", "bob", "carol")
        self.values = [
            json.dumps({"id": numbers.randrange(10**9), "name": numbers.choice(names), "x": numbers.random()}).encode()
            for _ in range(RECORDS)
        ]

    async def case(self, name: str, work: Work, **options: Any) -> None:
        """Measure `work` on a producer that knows its topic, and the close after it."""
        async with AsyncExitStack() as stack:
            producer = await stack.enter_async_context(Producer(self.bootstrap_servers, **options))
            await producer.partitions_for(self.topic)
            gc.collect()
            gc.disable()
            beat = Beat()
            try:
                await work(producer)
                await producer.close()
            finally:
                beat.stop()
                gc.enable()
        print(f"{name:44}{beat.largest_s * 1000:8.2f} ms in {beat.turns} turns", flush=True)

    async def one_by_one(self, producer: Producer, count: int = RECORDS) -> None:
        """Full load by `send_nowait`."""
        for number in range(count):
            producer.send_nowait(self.topic, self.values[number])
            if number % 500 == 499:
                await producer.drain()
        await producer.flush()

    async def given_up(self, producer: Producer) -> None:
        """A close while everything waits."""
        producer._engine.parts.client.link = lambda node_id: None
        for number in range(HARD_RECORDS):
            self.kept.append(producer.submit(self.topic, self.values[number]))
            if number % 500 == 499:
                await asyncio.sleep(0)
        self.kept.append(await producer.close(0))

    async def run(self) -> None:
        """All cases."""
        for codec, options in CODECS.items():
            count = HARD_RECORDS if codec.endswith("19") else RECORDS

            async def full_load(producer: Producer, count: int = count) -> None:
                await self.one_by_one(producer, count)

            await self.case(f"send_nowait, 900 KB batches, {codec}", full_load, **LARGE, **options)
            await self.case(f"send_nowait, 16 KB batches, {codec}", full_load, **options)
        await self.case("send_many", lambda producer: producer.send_many(self.topic, self.values))
        await self.case(
            "send_many, keys, 900 KB batches, gzip 9",
            lambda producer: producer.send_many(self.topic, self.values, keys=self.values),
            **LARGE,
            **CODECS["gzip 9"],
        )
        large = bytes(900_000)
        await self.case("one record of 900 KB", lambda producer: producer.send(self.topic, large))
        await self.case("50,000 futures, all given up", self.given_up)


async def main(bootstrap_servers: str | None) -> None:
    """Measure against a given broker, or one of our own."""
    print(f"aioprod {aioprod.__version__}, {'compiled' if aioprod.COMPILED else 'interpreted'}")
    async with AsyncExitStack() as stack:
        if bootstrap_servers is None:
            cluster = await stack.enter_async_context(await KafkaCluster.start())
            bootstrap_servers = cluster.bootstrap_servers
        gaps = Gaps(bootstrap_servers)
        async with Admin(bootstrap_servers) as admin:
            await admin.create_topic(gaps.topic, partitions=PARTITIONS)
        await gaps.run()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
