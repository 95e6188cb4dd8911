"""Fire and forget, with a callback per record and back-pressure: no call waits, and every failure is reported.

`send_nowait()` accepts a record and returns. The outcome goes to `on_delivery(metadata, error)`; exactly one of the two
is None. When `buffer.memory` is exhausted, it raises BufferFullError, and `await drain()` waits for free memory.

    python examples/fire_and_forget.py localhost:9092
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, BufferFullError, DeliveryError

SENSORS = 50


async def report(bootstrap_servers: str, topic: str, readings: int) -> Counter[str]:
    """Send this many readings and return the number of records by outcome."""
    outcomes: Counter[str] = Counter()

    def on_delivery(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        outcomes["stored" if error is None else type(error).__name__] += 1
        if isinstance(error, DeliveryError):
            print(f"lost after {error.age_s:.1f} s and {error.attempts} attempts: {error}")

    async with Producer(bootstrap_servers, linger_ms=20, compression_type="zstd") as producer:
        for number in range(readings):
            sensor = b"sensor-%d" % random.randrange(SENSORS)
            celsius = b"%.2f" % random.gauss(21, 3)
            while True:
                try:
                    producer.send_nowait(topic, celsius, key=sensor, on_delivery=on_delivery)
                    break
                except BufferFullError:
                    await producer.drain()
            if number % 100 == 0:
                # A loop that never awaits would starve the producer, and every other task of the event loop.
                await asyncio.sleep(0)
    # At the end of the block every record has its outcome, and every callback was called.
    return outcomes


if __name__ == "__main__":
    for outcome, count in asyncio.run(report(sys.argv[1], "readings", 20_000)).items():
        print(f"{count:,} {outcome}")
