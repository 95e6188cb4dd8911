"""One transaction in three processes: this one begins and commits it, and two workers write in it.

Run it twice: the second run finds that the load was committed before, and writes nothing.

    python examples/shared_transaction.py localhost:9092
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from aioprod import OffsetAndMetadata, TopicPartition
from aioprod.admin import Admin
from aioprod.transactions import TransactionHandle, TransactionSession

TOPIC = "shared-load"
WORKERS = 2
ROWS = 5000
MARKER = TopicPartition(TOPIC, 0)


async def write(bootstrap_servers: str, handle: TransactionHandle, partition: int) -> int:
    """Write one worker's records to a partition of its own; return how many are stored."""
    async with handle.producer(bootstrap_servers) as producer:
        rows = (b"row %d" % number for number in range(partition, ROWS, WORKERS))
        result = await producer.send_many(TOPIC, rows, partition=partition)
    return result.count - len(result.failures)


def worker(bootstrap_servers: str, handle: TransactionHandle, partition: int) -> int:
    """The worker process: it gets the handle by pickle."""
    return asyncio.run(write(bootstrap_servers, handle, partition))


async def load(bootstrap_servers: str, number: int) -> str:
    """Load `number` once, however often this is called; return what was done."""
    async with TransactionSession(bootstrap_servers, transactional_id=TOPIC) as session:
        handle = await session.begin()
        done = (await session.committed_offsets(TOPIC, [MARKER]))[MARKER]
        if done is not None and done.offset > number:
            await session.abort()
            return f"load {number} was committed before: {done.metadata}"
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
            shares = [loop.run_in_executor(pool, worker, bootstrap_servers, handle, at) for at in range(WORKERS)]
            written = sum(await asyncio.gather(*shares))
        if written != ROWS:
            await session.abort()
            return f"load {number} was aborted: {written} of {ROWS} rows were stored"
        note = f"{written:,} rows by {WORKERS} workers"
        await session.send_offsets({MARKER: OffsetAndMetadata(number + 1, note)}, TOPIC)
        await session.commit()
        return f"load {number} is committed: {note}"


async def main(bootstrap_servers: str) -> None:
    """Create the topic unless it exists, and load."""
    async with Admin(bootstrap_servers) as admin:
        if TOPIC not in await admin.topics():
            await admin.create_topic(TOPIC, partitions=WORKERS)
    print(await load(bootstrap_servers, 0))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
