"""A fleet of producers and a cluster in simulated time, with counts of what reaches the brokers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.testing.fake import FakeCluster
from aioprod.testing.fake.faults import Seen
from aioprod.testing.simulation import SimulatedLoop, start

__all__ = ["Counts", "Fleet", "Load", "fleet", "simulate"]

TOPIC: Final = "orders"
BUCKET_S: Final = 0.1
"""The resolution of the counts."""

ResultT = TypeVar("ResultT")


@dataclass(slots=True)
class Counts:
    """Connection attempts and requests by name, per tenth of a second since the start of the simulation."""

    connections: Counter[int] = field(default_factory=Counter)
    requests: dict[str, Counter[int]] = field(default_factory=dict)

    def per_s(self, counted: Counter[int], start_s: float, end_s: float) -> list[int]:
        """The counts of each whole second from `start_s` to `end_s`."""
        tenths = [counted[bucket] for bucket in range(round(start_s / BUCKET_S), round(end_s / BUCKET_S))]
        width = round(1 / BUCKET_S)
        return [sum(tenths[at : at + width]) for at in range(0, len(tenths), width)]


class _CountedRequests(list[Seen]):
    """What the fake brokers add each request to: counted, and not kept."""

    def __init__(self, counts: Counts, loop: SimulatedLoop, start_s: float) -> None:
        super().__init__()
        self._counts = counts
        self._loop = loop
        self._start_s = start_s

    def append(self, seen: Seen) -> None:
        name = type(seen.message).NAME
        self._counts.requests.setdefault(name, Counter())[int((self._loop.time() - self._start_s) / BUCKET_S)] += 1


@dataclass(slots=True)
class Load:
    """What became of the records: latencies in seconds by the time of sending, and errors by name."""

    latencies: list[tuple[float, float]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    failed_at: list[float] = field(default_factory=list)
    sent: int = 0


class Fleet:
    """`producers` that send to a topic with `partitions` of a cluster; times are seconds since its start."""

    def __init__(self, loop: SimulatedLoop, cluster: FakeCluster, counts: Counts, start_s: float) -> None:
        self.loop = loop
        self.cluster = cluster
        self.counts = counts
        self.producers: list[Producer] = []
        self.load = Load()
        self.buffer_peak = 0
        self._start_s = start_s

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.loop.time() - self._start_s

    async def start(self, count: int, **options: Any) -> None:
        """Start so many producers at the same moment, and wait until all are ready."""
        self.producers = [Producer(self.cluster.bootstrap, **options) for _ in range(count)]
        await asyncio.gather(*(start(producer, self.loop) for producer in self.producers))

    async def send(self, per_s: float, until_s: float) -> None:
        """Have each producer send records to all partitions in turn, `per_s` each, and wait for all outcomes."""
        await asyncio.gather(*(self._send(number, per_s, until_s) for number in range(len(self.producers))))

    async def _send(self, number: int, per_s: float, until_s: float) -> None:
        producer = self.producers[number]
        partitions = len(self.cluster.topics[TOPIC].partitions)
        pending: set[asyncio.Task[None]] = set()
        count = 0
        await asyncio.sleep(self.loop.random.random() / per_s)
        while self.now < until_s:
            self.load.sent += 1
            task = asyncio.create_task(self._one(producer, b"%d-%d" % (number, count), (number + count) % partitions))
            pending.add(task)
            task.add_done_callback(pending.discard)
            count += 1
            await asyncio.sleep(1 / per_s)
        while pending:
            await asyncio.wait(pending)

    async def _one(self, producer: Producer, value: bytes, partition: int) -> None:
        sent_at = self.now
        try:
            await producer.send(TOPIC, value, partition=partition)
        except AioprodError as error:
            self.load.errors[type(error).__name__] += 1
            self.load.failed_at.append(sent_at)
        else:
            self.load.latencies.append((sent_at, self.now - sent_at))

    def stored(self) -> Counter[bytes]:
        """How often each value is in the topic."""
        return Counter(record.value or b"" for record in self.cluster.topics[TOPIC].records())

    async def close(self) -> None:
        """Close the producers, and fail what is left."""
        await asyncio.gather(*(producer.close(0) for producer in self.producers))


@contextlib.asynccontextmanager
async def fleet(brokers: int, partitions: int) -> AsyncIterator[Fleet]:
    """A cluster with one topic, in the running simulated loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    counts, start_s = Counts(), loop.time()
    connect = loop.network.connect

    async def counted(sock: Any, address: Any) -> None:
        counts.connections[int((loop.time() - start_s) / BUCKET_S)] += 1
        await connect(sock, address)

    loop.network.connect = counted  # type: ignore[method-assign]  # the simulated network of this run
    async with FakeCluster(brokers, seed=1) as cluster:
        cluster.seen = _CountedRequests(counts, loop, start_s)
        cluster.create_topic(TOPIC, partitions)
        run = Fleet(loop, cluster, counts, start_s)
        try:
            yield run
        finally:
            await run.close()


def simulate(work: Coroutine[Any, Any, ResultT], seed: int = 1) -> ResultT:
    """Run a coroutine in simulated time; what the producers log about their outages is not shown."""
    logger = logging.getLogger("aioprod")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with SimulatedLoop(seed) as loop:
            return loop.run(work)
    finally:
        logger.setLevel(level)
