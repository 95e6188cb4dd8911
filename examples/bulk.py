"""Send many records with one call: `send_many()` takes any iterable, and returns when all records have an outcome.

It is the fastest call: it has no future and no callback per record, and waits for buffer memory by itself. The failure
of one record does not stop the others.

    python examples/bulk.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from aioprod import Producer, SendResult
from aioprod.serializers import JsonSerializer, StringSerializer

COUNTRIES = ("AT", "CH", "DE", "IT")


async def rows(count: int) -> AsyncIterator[dict[str, object]]:
    """Generate rows, in place of a database cursor."""
    for number in range(count):
        if number % 1000 == 0:
            await asyncio.sleep(0)
        yield {"id": number, "name": f"customer {number}"}


async def load(bootstrap_servers: str, topic: str, count: int) -> SendResult:
    """Send this many rows, keyed by country, and return where they are stored."""
    keys = [COUNTRIES[number % len(COUNTRIES)] for number in range(count)]
    async with Producer(
        bootstrap_servers,
        key_serializer=StringSerializer(),
        value_serializer=JsonSerializer(),
        compression_type="lz4",
    ) as producer:
        result = await producer.send_many(topic, rows(count), keys=keys, headers=[("source", b"crm")])
    return result.raise_for_failures()


if __name__ == "__main__":
    stored = asyncio.run(load(sys.argv[1], "customers", 20_000))
    print(f"{stored.count:,} rows are stored:")
    for (topic, partition), offsets in stored.offsets.items():
        for span in offsets:
            print(f"  {topic}-{partition}: offsets {span.start} to {span.stop - 1}")
