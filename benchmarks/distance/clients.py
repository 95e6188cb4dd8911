"""The clients in Python; each process imports only its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

from benchmarks.distance.job import Job, Measurement
from benchmarks.distance.window import Window
from benchmarks.measure import SLICE, Tally

if TYPE_CHECKING:
    from aioprod import Producer

__all__ = ["CLIENTS", "Client"]

Client = Callable[[Job], Awaitable[Measurement]]
FULL_S: Final = 0.01
"""How long to wait for acknowledgements when librdkafka's queue is full."""


async def _aioprod(job: Job) -> Measurement:
    from aioprod import Producer

    producer = Producer(job.bootstrap_servers, **job.settings)
    await producer.start()
    try:
        return await (_singly if job.rate else _many)(producer, job)
    finally:
        await producer.close(timeout=0)


async def _many(producer: Producer, job: Job) -> Measurement:
    """`send_many` again and again, in so many tasks that the buffer is nearly full.

    What was given and is not held any more is acknowledged: calls are too large to be counted as a whole.
    """
    tally = Tally()
    count = job.records_a_call
    values = [job.value] * count
    keys = [key.encode() for key in islice(cycle(job.keys), count)] if job.keys else None
    given = 0

    async def send() -> None:
        nonlocal given
        while True:
            given += count
            (await producer.send_many(job.topic, values, keys=keys)).raise_for_failures()

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        tally.acknowledged = given - producer.buffered.records

    async with asyncio.TaskGroup() as tasks:
        sending = [tasks.create_task(send()) for _ in range(job.calls_at_once)]
        await wait(job.warm_up_s)
        window = Window(tally)
        await wait(job.seconds)
        found = window.measurement()
        for one in sending:
            one.cancel()
    return found


async def _singly(producer: Producer, job: Job) -> Measurement:
    """`submit` at a rate, each record by itself."""
    tally = Tally()
    clock = time.perf_counter
    keys = _keys(job)

    async def send_for(seconds: float) -> None:
        begun = due = clock()
        while due < begun + seconds:
            while due <= clock():
                future = producer.submit(job.topic, job.value, key=next(keys))
                tally.watch(future, clock())
                future.add_done_callback(acknowledged)
                due += 1 / job.rate
            await asyncio.sleep(due - clock())

    def acknowledged(future: asyncio.Future[Any]) -> None:
        tally.on_delivery(future.result(), None)

    await send_for(job.warm_up_s)
    window = Window(tally)
    await send_for(job.seconds)
    return window.measurement()


async def _confluent(job: Job) -> Measurement:
    """It does not use the running loop, and blocks it until it is done."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": job.bootstrap_servers, "partitioner": "murmur2_random", **job.settings})
    producer.list_topics(job.topic, timeout=10)
    tally = Tally()
    send = _produced_singly if job.rate else _produced
    send(producer, job, tally, job.warm_up_s)
    window = Window(tally)
    send(producer, job, tally, job.seconds)
    return window.measurement()


def _produced(producer: Any, job: Job, tally: Tally, seconds: float) -> None:
    """`produce` as fast as its queue has room."""
    end = time.perf_counter() + seconds
    topic, value, counted = job.topic, job.value, tally.on_message
    keys = _keys(job)
    while time.perf_counter() < end:
        try:
            for key in islice(keys, SLICE):
                producer.produce(topic, value, key, on_delivery=counted)
            producer.poll(0)
        except BufferError:
            producer.poll(FULL_S)


def _produced_singly(producer: Any, job: Job, tally: Tally, seconds: float) -> None:
    """`produce` at a rate; callbacks are called while the next record is waited for."""
    clock = time.perf_counter
    begun = due = clock()
    keys = _keys(job)
    while due < begun + seconds:
        while due <= clock():
            producer.produce(job.topic, job.value, next(keys), on_delivery=tally.timed(tally.on_message))
            due += 1 / job.rate
        while (left_s := due - clock()) > 0:
            producer.poll(left_s)


def _keys(job: Job) -> cycle[bytes | None]:
    """Keys without end, which give each partition its share."""
    given: list[bytes | None] = [key.encode() for key in job.keys]
    return cycle(given or [None])


CLIENTS: Final[dict[str, Client]] = {"aioprod": _aioprod, "confluent": _confluent}
