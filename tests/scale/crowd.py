"""What thousands of producers cost a cluster: a model, and a simulation of fewer producers to check it against."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tests.scale.simulated import fleet, simulate

__all__ = ["Crowd", "computed", "simulated"]

MAX_AGE_S: Final = 300.0
"""`metadata.max.age.ms`."""
RATE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Crowd:
    """What producers that use every broker cost at rest, once they have started, all at the same moment.

    `metadata_peak` is the highest second of their Metadata requests after the start.
    """

    producers: int
    brokers: int
    connections_of_a_broker: float
    connection_attempts: float
    metadata_per_s: float
    metadata_peak: float


def computed(producers: int, brokers: int) -> Crowd:
    """Each producer has one connection to each broker, made once, and refreshes its metadata about every `MAX_AGE_S`.

    Each has a period of its own, between 90 and 100 % of that: the first refreshes of producers that have started
    together fall into the 30 s between, which is the highest rate there is.
    """
    return Crowd(
        producers=producers,
        brokers=brokers,
        connections_of_a_broker=producers,
        connection_attempts=producers * brokers,
        metadata_per_s=round(producers / (0.95 * MAX_AGE_S), 3),
        metadata_peak=round(producers / (0.1 * MAX_AGE_S), 1),
    )


def simulated(producers: int, brokers: int, duration_s: float = 10 * MAX_AGE_S, seed: int = 1) -> Crowd:
    """Count the same in simulated time, after the start: the last of several refreshes is whole."""
    return simulate(_count(producers, brokers, duration_s), seed)


async def _count(producers: int, brokers: int, duration_s: float) -> Crowd:
    async with fleet(brokers, partitions=brokers) as run:
        await run.start(producers)
        sending = asyncio.create_task(run.send(RATE, duration_s + 30.0))
        await asyncio.sleep(30.0)
        asked = run.counts.requests["Metadata"].total()
        await asyncio.sleep(duration_s - run.now + 30.0)
        await sending
        open_connections = sum(broker.connections for broker in run.cluster.brokers.values())
        return Crowd(
            producers=producers,
            brokers=brokers,
            connections_of_a_broker=round(open_connections / brokers, 1),
            connection_attempts=run.counts.connections.total(),
            metadata_peak=max(run.counts.per_s(run.counts.requests["Metadata"], 30.0, duration_s)),
            metadata_per_s=round((run.counts.requests["Metadata"].total() - asked) / duration_s, 3),
        )
