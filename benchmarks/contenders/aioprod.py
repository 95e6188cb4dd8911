"""aioprod's calls, used as documented."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any

import aioprod
from aioprod import Producer, SendResult
from aioprod.errors import BufferFullError
from benchmarks import data
from benchmarks.contenders import awaited
from benchmarks.contenders.build import check_build
from benchmarks.job import Job, Measurement
from benchmarks.measure import ROUND, SLICE, Meter, Tally, run_measured

__all__ = ["measure", "settings"]

Call = Callable[[Producer, Job, int, Tally], Awaitable[None]]


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings except its address."""
    given = {
        "acks": "all",
        "linger_ms": job.linger_ms,
        "batch_size": job.batch_size,
        "compression_type": job.compression,
        "compression_gzip_level": job.gzip_level,
        "buffer_memory": job.buffer_memory,
        "enable_idempotence": job.idempotence,
    }
    return {name: value for name, value in given.items() if value is not None}


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job; raises AssertionError if this is not the build that the job requires."""
    check_build(job)
    call = CALLS[job.call]
    async with Producer(job.bootstrap_servers, **settings(job), **job.log_in) as producer:
        if job.call == "spread":
            await _touch(producer, job)
        config = producer.config
        used = settings(job) | {"build": job.build, "loop": job.loop, "enable_idempotence": config.enable_idempotence}
        return await run_measured(
            job,
            meter,
            lambda count, tally: call(producer, job, count, tally),
            used,
            {"aioprod": aioprod.__version__},
        )


async def _send_nowait(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    """Send bursts of records, to one topic after the other if there are several."""
    stream = data.values(job)
    counted = tally.on_delivery
    for number in range(count // SLICE):
        topic = job.topics[number % len(job.topics)]
        callback = tally.timed(counted)
        for value in islice(stream, SLICE):
            while True:
                try:
                    producer.send_nowait(topic, value, on_delivery=callback)
                    break
                except BufferFullError:
                    await producer.drain()
            callback = counted
        await producer.drain()
    await producer.flush()


async def _send_nowait_keyed(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    topic = job.topics[0]
    stream = data.pairs(job)
    counted = tally.on_delivery
    for _ in range(count // SLICE):
        callback = tally.timed(counted)
        for key, value in islice(stream, SLICE):
            while True:
                try:
                    producer.send_nowait(topic, value, key=key, on_delivery=callback)
                    break
                except BufferFullError:
                    await producer.drain()
            callback = counted
        await producer.drain()
    await producer.flush()


async def _touch(producer: Producer, job: Job) -> None:
    """Send one record to each partition of each topic, so that the producer has used them all."""
    tally = Tally()
    for topic in job.topics:
        for partition in range(job.partitions):
            producer.send_nowait(topic, b"", partition=partition, on_delivery=tally.on_delivery)
        await producer.drain()
    await producer.flush()
    assert tally.acknowledged == len(job.topics) * job.partitions, "Not every partition took its first record."


async def _submit(producer: Producer, topic: str, values: Iterator[bytes], tally: Tally) -> list[asyncio.Future[Any]]:
    futures: list[asyncio.Future[Any]] = []
    for _ in range(ROUND // SLICE):
        start = time.perf_counter()
        futures += [producer.submit(topic, value) for value in islice(values, SLICE)]
        tally.watch(futures[-SLICE], start)
    return futures


async def _submit_each(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    await awaited.each(partial(_submit, producer), job, count, tally)


async def _submit_gathered(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    await awaited.gathered(partial(_submit, producer), job, count, tally)


async def _tasks(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    await awaited.tasks(producer.send, job, count, tally)


async def _idle(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    await awaited.idle(producer.send, job, count, tally)


def _stored(result: SendResult) -> int:
    assert not result.failures
    return sum(len(offsets) for ranges in result.offsets.values() for offsets in ranges)


async def _send_many(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    values = list(islice(data.values(job), ROUND))
    keys = list(islice(cycle(data.KEYS), ROUND)) if job.keyed else None
    for _ in range(count // ROUND):
        tally.acknowledged += _stored(await producer.send_many(job.topics[0], values, keys=keys))


async def _send_arrow(producer: Producer, job: Job, count: int, tally: Tally) -> None:
    import pyarrow

    keys, values = zip(*islice(data.pairs(job), ROUND), strict=True)
    columns = {"value": pyarrow.array(values, pyarrow.binary())}
    if job.keyed:
        columns["key"] = pyarrow.array(keys, pyarrow.binary())
    batch = pyarrow.record_batch(columns)
    sender: Any = producer
    for _ in range(count // ROUND):
        tally.acknowledged += _stored(await sender.send_arrow(batch, topic=job.topics[0]))


CALLS: dict[str, Call] = {
    "send_nowait": _send_nowait,
    "send_nowait_keyed": _send_nowait_keyed,
    "spread": _send_nowait,
    "submit_each": _submit_each,
    "submit_gathered": _submit_gathered,
    "tasks": _tasks,
    "send_many": _send_many,
    "send_arrow": _send_arrow,
    "idle": _idle,
}
