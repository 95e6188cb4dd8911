"""The ways to await outcomes, shared by the asyncio clients; each client provides the call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Any

from benchmarks import data
from benchmarks.job import Job
from benchmarks.measure import ROUND, Tally

__all__ = ["Collect", "Send", "each", "gathered", "idle", "tasks"]

Send = Callable[[str, bytes], Awaitable[Any]]
"""Sends one record and waits for its acknowledgement."""
Collect = Callable[[str, Iterator[bytes], Tally], Awaitable[list[asyncio.Future[Any]]]]
"""Sends the next `ROUND` values, samples their latencies, and returns one future for each."""

TASKS = 1000
TASK_SAMPLE = 10
"""One in this many records of a task is timed."""


async def each(collect: Collect, job: Job, count: int, tally: Tally) -> None:
    """Await rounds of futures one by one."""
    stream = data.values(job)
    for _ in range(count // ROUND):
        futures = await collect(job.topics[0], stream, tally)
        for future in futures:
            await future
        tally.acknowledged += len(futures)


async def gathered(collect: Collect, job: Job, count: int, tally: Tally) -> None:
    """Await rounds of futures with `asyncio.gather`."""
    stream = data.values(job)
    for _ in range(count // ROUND):
        tally.acknowledged += len(await asyncio.gather(*await collect(job.topics[0], stream, tally)))


async def tasks(send: Send, job: Job, count: int, tally: Tally) -> None:
    """Run 1000 tasks, each with one record in flight at a time."""
    topic = job.topics[0]
    stream = data.values(job)
    samples = count // TASKS // TASK_SAMPLE

    async def task() -> None:
        for _ in range(samples):
            start = time.perf_counter()
            await send(topic, next(stream))
            tally.latencies_s.append(time.perf_counter() - start)
            for value in islice(stream, TASK_SAMPLE - 1):
                await send(topic, value)
            tally.acknowledged += TASK_SAMPLE

    await asyncio.gather(*[task() for _ in range(TASKS)])


async def idle(send: Send, job: Job, count: int, tally: Tally) -> None:
    """Send one record at a time with nothing else in flight, and time each."""
    topic = job.topics[0]
    for value in islice(data.values(job), count):
        start = time.perf_counter()
        await send(topic, value)
        tally.latencies_s.append(time.perf_counter() - start)
        tally.acknowledged += 1
