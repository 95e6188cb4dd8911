"""A program that fills a producer's memory while its cluster is down, and says as JSON how it fared.

Run with the bootstrap servers, a topic, and whether the producer knows it before: "known" or "parked". It says "ready"
when it has started, and goes on at a line on its standard input, by when the brokers must be gone.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

from aioprod import Producer
from aioprod.errors import BufferFullError

VALUE_SIZE = 1024
WAITING_TASKS = 200


def memory_bytes(field: str) -> int:
    """A figure of this process: VmRSS is what it holds now, VmHWM the most that it ever held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


async def fill(producer: Producer, topic: str, source: random.Random) -> int:
    """Send until there is no room; how many records were accepted."""
    accepted = 0
    while True:
        try:
            producer.send_nowait(topic, source.randbytes(VALUE_SIZE), key=b"%d" % accepted)
        except BufferFullError:
            return accepted
        accepted += 1
        if accepted % 500 == 0:
            await asyncio.sleep(0)


async def main(servers: str, topic: str, start: str) -> None:
    source = random.Random(1)
    heard: Counter[str] = Counter()
    producer = Producer(servers, on_error=lambda error, _: heard.update([type(error).__name__]))
    await producer.start()
    if start == "known":
        await producer.send_many(topic, [source.randbytes(VALUE_SIZE) for _ in range(2000)])
    delivered = producer.metrics()["record_send_total"]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

    before = memory_bytes("VmRSS")
    accepted = await fill(producer, topic, source)
    waiting = [
        asyncio.create_task(producer.send(topic, source.randbytes(VALUE_SIZE), key=b"waits"))
        for _ in range(WAITING_TASKS)
    ]
    await asyncio.sleep(5)
    buffered = producer.buffered
    peak = memory_bytes("VmHWM")

    started = time.perf_counter()
    report = await producer.close(2)
    close_s = time.perf_counter() - started
    refused = [type(error).__name__ for error in await asyncio.gather(*waiting, return_exceptions=True)]
    print(
        json.dumps(
            {
                "accepted": accepted + int(delivered),
                "buffered_bytes": buffered.bytes,
                "buffered_records": buffered.records,
                "buffer_memory": producer.config.buffer_memory,
                "growth": peak - before,
                "growth_after_close": memory_bytes("VmHWM") - before,
                "close_s": close_s,
                "delivered": report.delivered,
                "not_sent": report.not_sent,
                "unknown": report.unknown,
                "rejected": report.rejected,
                "undelivered": len(report.undelivered),
                "heard": dict(heard),
                "left": list(producer.buffered),
                "refused": sorted(set(refused)),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
