"""Producers for tests: short backoffs, a clock that the test advances, a check for leaks; and recorders of outcomes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from aioprod import Producer, ProducerRecord, RecordMetadata
from aioprod.errors import AioprodError
from aioprod.messages import ProduceRequest
from aioprod.producer.clock import Clock
from aioprod.producer.environment import Environment
from aioprod.records.parser import parse_batches
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start

PATIENCE_S = 20.0
"""The timeout of waits: no result depends on how long anything takes."""

QUICK: dict[str, Any] = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 2,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 2,
}


class ShiftedClock(Clock):
    """A monotonic clock that the test advances; the scheduler has to be woken then, see `pass_time`."""

    def __init__(self) -> None:
        super().__init__()
        self.offset_s = 0.0

    def seconds(self) -> float:
        return self.now_ns() / 1e9

    def now_ns(self) -> int:
        return time.monotonic_ns() + int(self.offset_s * 1e9)


def new_producer(bootstrap: str | None, **options: Any) -> Producer:
    """A producer that is not started, with short backoffs."""
    return Producer(bootstrap, **(QUICK | options))


async def begin(producer: Producer, clock: ShiftedClock | None = None) -> None:
    """Start a producer, with the time of the loop where that is a simulated one."""
    loop = asyncio.get_running_loop()
    if clock is not None:
        await producer._start_in(Environment(clock=clock))
    else:
        await (start(producer, loop) if isinstance(loop, SimulatedLoop) else producer.start())


@contextlib.asynccontextmanager
async def running(
    brokers: FakeCluster, *, clock: ShiftedClock | None = None, close_s: float | None = 5.0, **options: Any
) -> AsyncIterator[Producer]:
    """A started producer, closed within `close_s` seconds at the end; it may leave no task and no memory in use."""
    before = asyncio.all_tasks()
    producer = new_producer(brokers.bootstrap, **options)
    await begin(producer, clock)
    try:
        yield producer
    finally:
        await producer.close(close_s)
    assert producer.buffered == (0, 0)
    assert left_over(before) == []


def left_over(before: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """Tasks that were not there before; the brokers' own don't count."""
    return [task for task in asyncio.all_tasks() - before if "FakeBroker" not in repr(task)]


def pass_time(producer: Producer, clock: ShiftedClock, seconds: float) -> None:
    """Advance a producer's clock."""
    clock.offset_s += seconds
    producer._engine.parts.wake()


async def until(condition: Callable[[], object]) -> None:
    """Yield to the loop until the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


async def turns(count: int = 20) -> None:
    """Run `count` iterations of the loop."""
    for _ in range(count):
        await asyncio.sleep(0)


def produced(brokers: FakeCluster) -> list[list[tuple[str, int, list[bytes | None]]]]:
    """What each Produce request carried: topic (empty where the request has its id only), partition and values."""
    return [
        [
            (topic.name, partition.index, values_in(partition.records))
            for topic in request.topic_data
            for partition in topic.partition_data
        ]
        for request in brokers.seen_of(ProduceRequest)
    ]


def values_in(records: Any) -> list[bytes | None]:
    """The values in the batch of a Produce request."""
    return [record.value for batch in parse_batches(bytes(records)) for record in batch.records()]


class ErrorLog:
    """An `on_error` callback that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[AioprodError, ProducerRecord]] = []

    def __call__(self, error: AioprodError, record: ProducerRecord) -> None:
        self.calls.append((error, record))

    @property
    def errors(self) -> list[AioprodError]:
        return [error for error, _ in self.calls]

    @property
    def values(self) -> list[Any]:
        return [record.value for _, record in self.calls]


class Outcomes:
    """A delivery callback that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[RecordMetadata | None, AioprodError | None]] = []

    def __call__(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        self.calls.append((metadata, error))

    @property
    def offsets(self) -> list[int]:
        return [metadata.offset for metadata, _ in self.calls if metadata is not None]

    @property
    def errors(self) -> list[AioprodError]:
        return [error for _, error in self.calls if error is not None]


class Spy:
    """An interceptor that records its calls."""

    def __init__(self) -> None:
        self.sent: list[ProducerRecord] = []
        self.acknowledged: list[tuple[RecordMetadata, AioprodError | None]] = []
        self.closed = 0

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.sent.append(record)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
        self.acknowledged.append((metadata, error))

    def close(self) -> None:
        self.closed += 1
