"""aiokafka's calls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import aiokafka
from aiokafka import AIOKafkaProducer
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks.contenders import awaited
from benchmarks.job import Job, Measurement
from benchmarks.log_ins import aiokafka_settings
from benchmarks.measure import ROUND, SLICE, Meter, Tally, run_measured

__all__ = ["measure"]

Call = Callable[[Any, Job, int, Tally], Awaitable[None]]


def settings(job: Job) -> dict[str, Any]:
    """Return the producer's settings except its address; aiokafka always uses gzip level 9."""
    given = {
        "acks": "all",
        "linger_ms": job.linger_ms,
        "max_batch_size": job.batch_size,
        "compression_type": None if job.compression == "none" else job.compression,
    }
    return {name: value for name, value in given.items() if value is not None}


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job; raises AssertionError if aiokafka's compiled modules are missing."""
    assert "_crecords" in DefaultRecordBatchBuilder.__module__, "aiokafka runs without its compiled parts."
    call = CALLS[job.call]
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap_servers, **settings(job), **aiokafka_settings(job.log_in)
    )
    await producer.start()
    try:
        return await run_measured(
            job,
            meter,
            lambda count, tally: call(producer, job, count, tally),
            settings(job) | {"loop": job.loop, "enable_idempotence": False},
            {"aiokafka": aiokafka.__version__},
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


async def _send_each(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.each(partial(_send, producer), job, count, tally)


async def _send_gathered(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.gathered(partial(_send, producer), job, count, tally)


async def _tasks(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.tasks(producer.send_and_wait, job, count, tally)


async def _idle(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.idle(producer.send_and_wait, job, count, tally)


CALLS: dict[str, Call] = {
    "send_each": _send_each,
    "send_gathered": _send_gathered,
    "tasks": _tasks,
    "idle": _idle,
}
