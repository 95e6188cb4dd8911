"""Fire and forget, with a callback per record and back-pressure: nothing waits, and nothing is lost in silence.

`send_nowait()` accepts a record and returns. What became of it comes to `on_delivery(metadata, error)`: exactly one of
the two is None. When `buffer.memory` is used up it raises BufferFullError, and `await drain()` waits for room.

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
    """Send so many readings and return how many met which outcome."""
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
    # Leaving the block has delivered everything, and every callback has been called.
    return outcomes


if __name__ == "__main__":
    for outcome, count in asyncio.run(report(sys.argv[1], "readings", 20_000)).items():
        print(f"{count:,} {outcome}")
