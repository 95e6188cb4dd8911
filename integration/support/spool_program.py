"""A spooled producer of numbers, `python -m integration.support.spool_program SERVERS TOPIC FOLDER FIRST RATE ENDING`.

It keeps numbers from FIRST on, so many in a second, and prints `kept N` when all up to N are on disk. ENDING is "run",
until it is killed; "commit", where it kills itself between a commit in Kafka and what the spool does then; or "flush":
it keeps nothing, brings everything to Kafka, and prints "done".
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Final

from aioprod.spool import SpooledProducer
from aioprod.spool.source import SpoolSource

__all__ = ["KEYS", "main"]

KEYS: Final = 100
"""Number n has the key n % 100."""
_BATCHES: Final = 20
"""How many times a second it sends."""


async def main(servers: str, topic: str, folder: str, first: str, rate: str, ending: str) -> None:
    """Keep numbers."""
    if ending == "commit":
        SpoolSource.delivered = _die_after(3)  # type: ignore[method-assign]
    producer = SpooledProducer(servers, folder=folder, max_bytes=4 << 30, segment_bytes=1 << 20)
    await producer.start()
    if ending == "flush":
        await producer.flush()
        print("done", flush=True)
        await producer.close()
        return
    number, step = int(first), int(rate) // _BATCHES
    while True:
        values = range(number, number + step)
        await producer.send(topic, b"%d" % number, key=b"%d" % (number % KEYS))
        await producer.send_many(topic, [b"%d" % n for n in values[1:]], keys=[b"%d" % (n % KEYS) for n in values[1:]])
        number += step
        print("kept", number - 1, flush=True)
        await asyncio.sleep(1 / _BATCHES)


def _die_after(calls: int):  # type: ignore[no-untyped-def]
    """Stands for `delivered`: the third commit is the last thing that the process does."""
    kept = SpoolSource.delivered
    left = calls

    async def delivered(self: SpoolSource, position: bytes) -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        await kept(self, position)

    return delivered


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
