"""A program that writes numbered batches, each in one transaction that several producers share, each batch once.

    python -m integration.support.shared_batches SERVERS TOPIC BATCHES SEED

It is killed, or frozen and thawed while another one does its work. Prints a line for each batch that is committed, and
"done" when all are. What it does after each fault is what docs/transaction-session.md says.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
from typing import Final

from aioprod import OffsetAndMetadata, TopicPartition, TransactionHandle, TransactionSession
from aioprod.errors import AioprodError, ProducerFencedError, TransactionUnknownError

__all__ = ["PRODUCERS", "TAKEN_OVER", "rows_of"]

PRODUCERS: Final = 4
"""Each writes the partition of its number."""

TAKEN_OVER: Final = 3
"""The exit code of a driver that found out that another one runs."""


def rows_of(batch: int, partition: int) -> list[bytes]:
    """What a batch has for a partition."""
    return [b"%d:%d:%d" % (batch, partition, row) for row in range(10 + (batch * 7 + partition) % 40)]


async def write(servers: str, topic: str, handle: TransactionHandle, batch: int, partition: int, fails: bool) -> None:
    """One producer's part; one that fails leaves something behind."""
    rows = rows_of(batch, partition)
    async with handle.producer(servers, batch_size=500) as producer:
        result = await producer.send_many(topic, rows[: len(rows) // 2] if fails else rows, partition=partition)
    if fails:
        raise RuntimeError("a worker failed on purpose")
    if result.failures:
        raise result.failures[0][1]


async def attempt(session: TransactionSession, servers: str, topic: str, batch: int, chance: random.Random) -> None:
    """Write one batch, unless it is there."""
    marker = TopicPartition(topic, 0)
    handle = await session.begin()
    done = (await session.committed_offsets(topic, [marker]))[marker]
    if done is not None and done.offset > batch:
        return
    assert (0 if done is None else done.offset) == batch, "a batch was left out"
    culprit = chance.randrange(PRODUCERS * 8)
    async with asyncio.TaskGroup() as group:
        for partition in range(PRODUCERS):
            group.create_task(write(servers, topic, handle, batch, partition, partition == culprit))
    await session.send_offsets({marker: OffsetAndMetadata(batch + 1, f"batch {batch}")}, topic)
    await session.commit()


async def main(servers: str, topic: str, batches: str, seed: str) -> int:
    chance = random.Random(seed)
    async with TransactionSession(servers, transactional_id=topic) as session:
        batch = 0
        while batch < int(batches):
            try:
                await attempt(session, servers, topic, batch, chance)
            except ProducerFencedError:
                return TAKEN_OVER
            except TransactionUnknownError:
                continue
            except (AioprodError, ExceptionGroup):
                with contextlib.suppress(AioprodError):
                    await session.abort()
                continue
            batch += 1
            print(f"committed {batch}", flush=True)
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
