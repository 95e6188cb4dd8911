"""confluent-kafka's `AIOProducer`: it collects records and hands them to a thread pool, which calls librdkafka."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from confluent_kafka.aio import AIOProducer

from benchmarks.contenders import awaited, confluent
from benchmarks.contenders.log_ins import librdkafka_log_in
from benchmarks.job import Job, Measurement
from benchmarks.measure import ROUND, SLICE, Meter, Tally, run_measured

__all__ = ["measure"]

Call = Callable[[Any, Job, int, Tally], Awaitable[None]]
COLLECTED = 1000
"""The number of records that it collects before it passes them to librdkafka, by default."""


async def measure(job: Job, meter: Meter) -> Measurement:
    """Run the job."""
    call = CALLS[job.call]
    used = confluent.settings(job)
    collected = 1 if job.call == "idle" else COLLECTED
    address = {"bootstrap.servers": job.bootstrap_servers, **librdkafka_log_in(job)}
    producer = AIOProducer({**address, **used}, batch_size=collected)
    await producer.list_topics(job.topics[0], timeout=10)
    try:
        return await run_measured(
            job,
            meter,
            lambda count, tally: call(producer, job, count, tally),
            used | {"loop": job.loop, "enable.idempotence": False, "AIOProducer.batch_size": collected},
            confluent.versions(),
        )
    finally:
        await producer.close()


async def _produce(producer: Any, topic: str, values: Iterator[bytes], tally: Tally) -> list[asyncio.Future[Any]]:
    """Send one round of futures and flush: otherwise the last ones wait for its timer of one second."""
    futures: list[asyncio.Future[Any]] = []
    for _ in range(ROUND // SLICE):
        start = time.perf_counter()
        futures += [await producer.produce(topic, value) for value in islice(values, SLICE)]
        tally.watch(futures[-SLICE], start)
    await producer.flush()
    return futures


async def _produce_each(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.each(partial(_produce, producer), job, count, tally)


async def _produce_gathered(producer: Any, job: Job, count: int, tally: Tally) -> None:
    await awaited.gathered(partial(_produce, producer), job, count, tally)


async def _idle(producer: Any, job: Job, count: int, tally: Tally) -> None:
    """Send one record and flush: its fastest way to one acknowledgement."""

    async def send(topic: str, value: bytes) -> None:
        future = await producer.produce(topic, value)
        await producer.flush()
        await future

    await awaited.idle(send, job, count, tally)


CALLS: dict[str, Call] = {
    "produce_each": _produce_each,
    "produce_gathered": _produce_gathered,
    "idle": _idle,
}
