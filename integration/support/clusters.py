"""Topics of a test, and brokers that are down or frozen inside a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from aioprod.testing import KafkaCluster

__all__ = ["MakeTopic", "dead", "frozen"]


class MakeTopic(Protocol):
    """Create a topic with a name of its own and return the name; `config` are Kafka's topic settings."""

    async def __call__(
        self, cluster: KafkaCluster, partitions: int = 1, replication_factor: int | None = None, **config: object
    ) -> str: ...


@asynccontextmanager
async def dead(cluster: KafkaCluster, *broker_ids: int) -> AsyncIterator[None]:
    """Kill brokers; at the end of the block they serve again."""
    for broker_id in broker_ids:
        await cluster.kill(broker_id)
    try:
        yield
    finally:
        for broker_id in broker_ids:
            await cluster.restart(broker_id)


@asynccontextmanager
async def frozen(cluster: KafkaCluster, broker_id: int) -> AsyncIterator[None]:
    """Freeze a broker; at the end of the block it serves again."""
    await cluster.pause(broker_id)
    try:
        yield
    finally:
        await cluster.resume(broker_id)
