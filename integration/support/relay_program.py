"""A relay of numbers, `python -m integration.support.relay_program SERVERS TOPIC COUNT`: prints a line for each run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Final

from aioprod import ProducerRecord
from aioprod.errors import MarkerError
from aioprod.relay import Relay

__all__ = ["KEYS", "Numbers", "main"]

KEYS: Final = 100
"""Record n has the key n % 100."""
_READ_MAX: Final = 500
"""Runs stay small, so that there are many."""


class Numbers:
    """Record n has n as its value, from 1 on, and n is its position."""

    owner = "numbers"

    def __init__(self, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self.is_done = asyncio.Event()

    async def read(self, after: bytes | None, limit: int) -> Sequence[tuple[ProducerRecord, bytes]]:
        begin = 0 if after is None else int(after)
        if begin > self._count:
            raise MarkerError(f"There are {self._count} numbers, and {begin} are in Kafka.")
        numbers = range(begin + 1, min(begin + min(limit, _READ_MAX), self._count) + 1)
        return [(ProducerRecord(self._topic, b"%d" % n, key=b"%d" % (n % KEYS)), b"%d" % n) for n in numbers]

    async def wait(self) -> None:
        await asyncio.Event().wait()  # There will never be more.

    async def delivered(self, position: bytes) -> None:
        print(position.decode(), flush=True)
        if int(position) == self._count:
            self.is_done.set()


async def main(servers: str, topic: str, count: str) -> None:
    """Relay all numbers, whatever an earlier relay has done of it."""
    source = Numbers(topic, int(count))
    relay = asyncio.create_task(Relay(source, servers, transactional_id=topic).run())
    await asyncio.wait([relay, asyncio.create_task(source.is_done.wait())], return_when=asyncio.FIRST_COMPLETED)
    if relay.done():
        relay.result()
    relay.cancel()
    await asyncio.wait([relay])
    print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
