"""A fake broker with topics to read, as a process: `python -m benchmarks.fake`.

It prints its address, then stores what each line of its standard input asks for, and ends with it.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Iterator
from typing import Final

from aioprod.records import PREFIX, Compression, RecordBatchBuilder
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakePartition
from benchmarks.data import pairs_of

__all__ = ["BATCH_SIZE", "fill", "main"]

BATCH_SIZE: Final = 64 * 1024
BATCHES_MADE: Final = 32
"""Batches with different records; a topic repeats them."""
NOW: Final = 1_700_000_000_000


def _batches(value_size: int, codec: Compression) -> Iterator[tuple[int, bytes]]:
    """Records and bytes of batches, again and again."""
    given = pairs_of(value_size)
    made = []
    for _ in range(BATCHES_MADE):
        builder = RecordBatchBuilder(bytearray(PREFIX + BATCH_SIZE))
        count = 0
        for key, value in given:
            if not builder.append(NOW + count, key, value):
                break
            count += 1
        builder.seal(codec=codec, level=None)
        made.append((count, bytes(builder.wire(0, flexible=False)[8:])))
    return itertools.cycle(made)


def fill(partitions: list[FakePartition], value_size: int, codec: Compression, records: int) -> int:
    """Store at least so many records, in batches of 64 KiB before compression; return how many they are."""
    stored = 0
    for (count, data), log in zip(_batches(value_size, codec), itertools.cycle(partitions)):
        log.store(log.next_offset.to_bytes(8) + data[8:])
        stored += count
        if stored >= records:
            break
    return stored


async def _serve() -> None:
    async with FakeCluster(keeps_requests=False) as cluster:
        print(cluster.bootstrap, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, partitions, value_size, codec, records = line.split()
            topic = cluster.create_topic(name, int(partitions))
            print(fill(topic.partitions, int(value_size), Compression[codec.upper()], int(records)), flush=True)


def main() -> None:
    """Serve until the input ends; each line of it names a topic, partitions, bytes of a value, codec and records."""
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
