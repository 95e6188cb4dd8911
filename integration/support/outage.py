"""A program that fills a producer's memory while its cluster is down, and prints the results as JSON.

Run with the bootstrap servers, a topic, and whether the producer has its metadata: "known" or "parked". It prints
"ready" when it has started, and continues after a line on its standard input; the brokers must be down by then.
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
    """A memory figure of this process in bytes: VmRSS is the current use, VmHWM the peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


async def fill(producer: Producer, topic: str, source: random.Random) -> int:
    """Send until the memory is full; returns the number of accepted records."""
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
    on_error: Counter[str] = Counter()
    producer = Producer(servers, on_error=lambda error, _: on_error.update([type(error).__name__]))
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
    send_errors = [type(error).__name__ for error in await asyncio.gather(*waiting, return_exceptions=True)]
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
                "on_error": dict(on_error),
                "left": list(producer.buffered),
                "send_errors": sorted(set(send_errors)),
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
