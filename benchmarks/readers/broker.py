"""A process with a fake broker that has topics to read: `python -m benchmarks.readers.broker SCALE`."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aioprod.records import PREFIX, Compression, RecordBatchBuilder
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakePartition
from benchmarks.data import pairs
from benchmarks.job import Job

__all__ = ["PARTITIONS", "TOPICS", "Topic", "main", "running", "started"]

ROOT = Path(__file__).parent.parent.parent
PARTITIONS = 4
BATCH_SIZE = 64 * 1024
BATCHES_MADE = 32
"""Batches with different records; a topic repeats them."""
NOW = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Topic:
    """Records of a size in bytes, in batches of 64 KiB before compression."""

    name: str
    value_size: int
    codec: Compression
    records: int


TOPICS = tuple(
    Topic(f"{size}-{codec.name.lower()}", size, codec, records)
    for size, records in ((100, 400_000), (1000, 100_000))
    for codec in (Compression.NONE, Compression.LZ4)
)


def _batches(topic: Topic) -> Iterator[tuple[int, bytes]]:
    """Records and bytes of batches, again and again."""
    job = Job(
        client="", call="", records=0, warm_up=0, bootstrap_servers="", topics=(), partitions=0,
        value_size=topic.value_size,
    )  # fmt: skip
    given = pairs(job)
    made = []
    for _ in range(BATCHES_MADE):
        builder = RecordBatchBuilder(bytearray(PREFIX + BATCH_SIZE))
        count = 0
        for key, value in given:
            if not builder.append(NOW + count, key, value):
                break
            count += 1
        builder.seal(codec=topic.codec, level=None)
        made.append((count, bytes(builder.wire(0, flexible=False)[8:])))
    return itertools.cycle(made)


def _fill(partitions: list[FakePartition], topic: Topic, records: int) -> int:
    """Store at least so many records; return how many they are."""
    stored = 0
    for (count, data), log in zip(_batches(topic), itertools.cycle(partitions)):
        log.store(log.next_offset.to_bytes(8) + data[8:])
        stored += count
        if stored >= records:
            break
    return stored


async def _serve(scale: float) -> None:
    async with FakeCluster() as cluster:
        counts = [
            _fill(cluster.create_topic(topic.name, PARTITIONS).partitions, topic, int(topic.records * scale))
            for topic in TOPICS
        ]
        print(cluster.bootstrap, *counts, flush=True)
        await asyncio.to_thread(sys.stdin.read)


@asynccontextmanager
async def running(scale: float) -> AsyncIterator[tuple[str, dict[str, int]]]:
    """The address of such a broker in a process of its own, and the records of its topics."""
    process = await started("broker", str(scale))
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        address, *counts = (await process.stdout.readline()).decode().split()
        yield address, {topic.name: int(count) for topic, count in zip(TOPICS, counts, strict=True)}
    finally:
        process.stdin.close()
        await process.wait()


async def started(module: str, *arguments: str) -> asyncio.subprocess.Process:
    """A process that runs a module beside this one."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", f"benchmarks.readers.{module}", *arguments, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip


def main() -> None:
    """Serve until the input ends, after a line with the address and the records of each topic."""
    asyncio.run(_serve(float(sys.argv[1])))


if __name__ == "__main__":
    main()
