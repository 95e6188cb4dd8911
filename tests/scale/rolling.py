"""Every broker of a cluster is restarted, one after the other, while producers send."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tests.scale.simulated import TOPIC, Fleet, fleet, simulate

__all__ = ["Rolled", "rolling_restart"]

DOWN_S: Final = 10.0
"""How long a broker is down: its partitions have other leaders then."""
BETWEEN_S: Final = 5.0
CALM_S: Final = 10.0
RATE: Final = 10.0
PARTITIONS_OF_A_BROKER: Final = 2


@dataclass(frozen=True, slots=True)
class Rolled:
    """What the producers saw. Latencies are in ms: of all records, and of the worst one.

    `late` records took over a second. `metadata_per_s` and `metadata_peak` are the mean and the highest second of the
    Metadata requests of all producers; `connections` are all attempts to connect.
    """

    producers: int
    brokers: int
    duration_s: float
    records: int
    lost: int
    duplicated: int
    errors: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    late: int
    metadata_per_s: float
    metadata_peak: int
    connections: int


def rolling_restart(producers: int, brokers: int, seed: int = 1) -> Rolled:
    """Simulate it."""
    return simulate(_rolling(producers, brokers), seed)


async def _rolling(producers: int, brokers: int) -> Rolled:
    end_s = 2 * CALM_S + brokers * (DOWN_S + BETWEEN_S)
    async with fleet(brokers, PARTITIONS_OF_A_BROKER * brokers) as run:
        await run.start(producers)
        sending = asyncio.create_task(run.send(RATE, end_s))
        await asyncio.sleep(CALM_S)
        for node_id in list(run.cluster.brokers):
            await _restart(run, node_id)
        await sending
        stored = run.stored()
        load, counts = run.load, run.counts
        latencies = sorted(latency * 1000 for _, latency in load.latencies)
        metadata = counts.per_s(counts.requests["Metadata"], CALM_S, end_s)
        return Rolled(
            producers=producers,
            brokers=brokers,
            duration_s=round(run.now, 1),
            records=load.sent,
            lost=len(latencies) - len(stored),
            duplicated=sum(stored.values()) - len(stored),
            errors=load.errors.total(),
            p50_ms=round(latencies[len(latencies) // 2], 1),
            p99_ms=round(latencies[len(latencies) * 99 // 100], 1),
            max_ms=round(latencies[-1], 1),
            late=sum(latency > 1000 for latency in latencies),
            metadata_per_s=round(sum(metadata) / len(metadata), 1),
            metadata_peak=max(metadata),
            connections=counts.connections.total(),
        )


async def _restart(run: Fleet, node_id: int) -> None:
    """Stop a broker, start it again, and give it its partitions back, as the preferred leader election does."""
    cluster = run.cluster
    partitions = cluster.topics[TOPIC].partitions
    own = [index for index, partition in enumerate(partitions) if partition.leader == node_id]
    await cluster.kill(node_id)
    await asyncio.sleep(DOWN_S)
    await cluster.brokers[node_id].start()
    await asyncio.sleep(BETWEEN_S / 2)
    for index in own:
        cluster.move_leader(TOPIC, index, node_id)
    await asyncio.sleep(BETWEEN_S / 2)
