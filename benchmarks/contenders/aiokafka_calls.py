"""The calls of aiokafka's producer, also for aioprod's with the same ones; and the settings of both."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from benchmarks import data
from benchmarks.contenders import awaited
from benchmarks.contenders.log_ins import aiokafka_log_in
from benchmarks.job import Job, Measurement
from benchmarks.measure import ROUND, SLICE, Meter, Tally, run_measured

__all__ = ["measured"]

Call = Callable[[Any, Job, int, Tally], Awaitable[None]]


def _settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings except its address; aiokafka always uses gzip level 9."""
    given = {
        "acks": "all",
        "linger_ms": job.linger_ms,
        "max_batch_size": job.batch_size,
        "compression_type": None if job.compression == "none" else job.compression,
    }
    return {name: value for name, value in given.items() if value is not None}


async def measured(
    producer_class: Any, job: Job, meter: Meter, used: dict[str, Any], versions: dict[str, str]
) -> Measurement:
    """Run the job with this kind of producer; `used` are further settings to be shown."""
    call = CALLS[job.call]
    settings = _settings(job)
    producer = producer_class(bootstrap_servers=job.bootstrap_servers, **settings, **aiokafka_log_in(job))
    await producer.start()
    try:
        return await run_measured(
            job, meter, lambda count, tally: call(producer, job, count, tally), settings | used, versions
        )
    finally:
        await producer.stop()


async def _send(producer: Any, topic: str, values: Iterator[bytes], tally: Tally) -> list[asyncio.Future[Any]]:
    futures: list[asyncio.Future[Any]] = []
    for _ in range(ROUND // SLICE):
        start = time.perf_counter()
        futures += [await producer.send(topic, value) for value in islice(values, SLICE)]
        tally.watch(futures[-SLICE], start)
    return futures


async def _send_keyed(
    producer: Any, keys: Iterator[bytes], topic: str, values: Iterator[bytes], tally: Tally
) -> list[asyncio.Future[Any]]:
    futures: list[asyncio.Future[Any]] = []
    for _ in range(ROUND // SLICE):
        start = time.perf_counter()
        keyed = zip(islice(keys, SLICE), islice(values, SLICE), strict=True)
        futures += [await producer.send(topic, value, key) for key, value in keyed]
        tally.watch(futures[-SLICE], start)
    return futures


async def _send_each(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.each(partial(_send, producer), job, count, tally)


async def _send_gathered(producer: Any, job: Job, count: int, tally: Tally) -> None:
    collect = partial(_send_keyed, producer, itertools.cycle(data.KEYS)) if job.keyed else partial(_send, producer)
    await awaited.gathered(collect, job, count, tally)


async def _tasks(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.tasks(producer.send_and_wait, job, count, tally)


async def _idle(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.idle(producer.send_and_wait, job, count, tally)


async def _send_batches(producer: Any, job: Job, count: int, tally: Tally) -> None:
    """Fill batches, and send each to one partition."""
    topic = job.topics[0]
    stream = data.values(job)
    for _ in range(count // ROUND):
        sent, waiting = 0, []
        while sent < ROUND:
            batch = producer.create_batch()
            while sent < ROUND and batch.append(key=None, value=next(stream), timestamp=None) is not None:
                sent += 1
            waiting.append(await producer.send_batch(batch, topic, partition=0))
        await asyncio.gather(*waiting)
        tally.acknowledged += sent


CALLS: dict[str, Call] = {
    "send_each": _send_each,
    "send_gathered": _send_gathered,
    "tasks": _tasks,
    "idle": _idle,
    "send_batches": _send_batches,
}
