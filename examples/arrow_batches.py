"""Send Arrow data without Python objects per row: `send_arrow()` reads the rows directly from Arrow's memory.

It accepts anything with the Arrow PyCapsule interface: record batches, tables, readers, data frames. In place of the
generated reader you could use `pyarrow.dataset.dataset("readings.parquet").scanner().to_reader()`: only a few of its
batches are in memory at a time.

    python examples/arrow_batches.py localhost:9092
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import pyarrow as pa

from aioprod import Producer, SendResult

ROWS_PER_BATCH = 5000
START_MS = 1_735_689_600_000

SCHEMA = pa.schema(
    {
        "key": pa.dictionary(pa.int32(), pa.string()),
        "value": pa.string(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "headers": pa.map_(pa.string(), pa.binary()),
    }
)
"""The columns are named like the fields of a record."""


def readings(count: int) -> pa.RecordBatchReader:
    """Generate this many readings of twenty sensors, in place of a file."""

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, count, ROWS_PER_BATCH):
            numbers = range(start, min(start + ROWS_PER_BATCH, count))
            sensors = pa.array([f"sensor {number % 20}" for number in numbers]).dictionary_encode()
            celsius = pa.array([f"{20 + number % 7 / 10:.1f}" for number in numbers])
            times = pa.array([START_MS + 1000 * number for number in numbers], SCHEMA.field("timestamp").type)
            headers = pa.array([[("unit", b"celsius")]] * len(numbers), SCHEMA.field("headers").type)
            yield pa.record_batch([sensors, celsius, times, headers], schema=SCHEMA)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


async def load(bootstrap_servers: str, topic: str, count: int) -> SendResult:
    """Send this many readings, keyed by sensor, and return where they are stored."""
    async with Producer(bootstrap_servers, batch_size=131_072, compression_type="zstd") as producer:
        return (await producer.send_arrow(readings(count), topic=topic)).raise_for_failures()


if __name__ == "__main__":
    stored = asyncio.run(load(sys.argv[1], "readings", 100_000))
    print(f"{stored.count:,} rows are stored:")
    for (topic, partition), offsets in stored.offsets.items():
        for span in offsets:
            print(f"  {topic}-{partition}: offsets {span.start} to {span.stop - 1}")
