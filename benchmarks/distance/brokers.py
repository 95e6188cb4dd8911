"""The brokers of a cell: a sink in a process of its own, or a real Kafka behind proxies that delay."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import cycle, islice
from typing import Final, TypeAlias

from aioprod import Producer
from aioprod.testing import KafkaCluster
from benchmarks.brokers import WRITTEN_TO, program
from benchmarks.distance.cells import Cell
from benchmarks.distance.sink import BROKERS as NODES
from benchmarks.measure import ROUND

__all__ = ["BROKERS", "Places"]

_WARM_UP_CALLS: Final = 200
"""For a topic: brokers get faster in their first seconds, and a partition's first records cost them milliseconds."""
Places: TypeAlias = Callable[[Cell], AbstractAsyncContextManager[str]]
"""Give the addresses of brokers with the topic of a cell, as far away as it says."""


@asynccontextmanager
async def _sinks() -> AsyncIterator[Places]:
    @asynccontextmanager
    async def place(cell: Cell) -> AsyncIterator[str]:
        words = cell.topic, str(cell.partitions), str(cell.delay_s)
        async with program("distance.sink", *words) as (_, address):
            yield address

    yield place


@asynccontextmanager
async def _kafka() -> AsyncIterator[Places]:
    cluster = await KafkaCluster.start(
        NODES,
        backend="local",
        proxied=True,
        progress=lambda line: print(line, file=sys.stderr),
        **WRITTEN_TO,
    )

    @asynccontextmanager
    async def place(cell: Cell) -> AsyncIterator[str]:
        await cluster.create_topic(cell.topic, cell.partitions, 1)
        await _warm_up(cluster, cell)
        for proxy in cluster.proxies.values():
            proxy.delay_s = cell.delay_s / 2
        try:
            yield cluster.bootstrap_servers
        finally:
            for proxy in cluster.proxies.values():
                proxy.delay_s = 0.0
            await cluster.delete_topic(cell.topic)

    async with cluster:
        yield place


async def _warm_up(cluster: KafkaCluster, cell: Cell) -> None:
    keys = [key.encode() for key in islice(cycle(cell.keys), ROUND)] if cell.keys else None
    async with Producer(cluster.bootstrap_servers) as producer:
        for _ in range(_WARM_UP_CALLS):
            (await producer.send_many(cell.topic, [b"x" * 100] * ROUND, keys=keys)).raise_for_failures()


BROKERS: Final[dict[str, Callable[[], AbstractAsyncContextManager[Places]]]] = {"sink": _sinks, "kafka": _kafka}
