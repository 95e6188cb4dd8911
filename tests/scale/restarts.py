"""All producers start at once, and come back at once after an outage of the whole cluster.

`outage` simulates real producers. `modelled` computes the same for one broker of a fleet that is too large for that:
each producer is one link, which tries again after the delays of the backoff that is shipped. Tests compare the two.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Final

from aioprod.net.protocol.backoff import Backoff
from aioprod.net.settings import RECONNECT_BACKOFF
from tests.scale.simulated import fleet, simulate

__all__ = ["Comeback", "modelled", "outage"]

CALM_S: Final = 5.0
AFTER_S: Final = 10.0
SETTLING_S: Final = 2
LATENCY_S: Final = 0.001
"""Between an attempt and its refusal, on average as in the simulated network."""


@dataclass(frozen=True, slots=True)
class Comeback:
    """Connection attempts and Metadata requests that reach one broker, per second since the start of the outage.

    `first_s` is how long after the start of all producers the last of them made its first attempt, and `ready_s` when
    the last of them was ready; both only where producers were simulated. `steady_peak` is the highest number of
    attempts in a second of the 30 s that begin `SETTLING_S` after the loss, divided by their mean; `peak` the same from
    the loss on. `tenths_peak` is that of the tenths of a second, in the same 30 s as `steady_peak`.
    """

    producers: int
    brokers: int
    attempts: tuple[float, ...]
    metadata: tuple[float, ...]
    outage_s: float
    first_s: float = 0.0
    ready_s: float = 0.0
    tenths_peak: float = 0.0

    @property
    def peak(self) -> float:
        """The highest second of the first 30, by their mean."""
        return _peak(self.attempts[:30])

    @property
    def steady_peak(self) -> float:
        """The same after the first delays, which double."""
        return _peak(self.attempts[SETTLING_S : SETTLING_S + 30])


def _peak(attempts: tuple[float, ...]) -> float:
    return max(attempts) / (sum(attempts) / len(attempts))


def outage(producers: int, brokers: int, outage_s: float, seed: int = 1) -> Comeback:
    """Simulate producers that send all the time while no broker listens for `outage_s`."""
    return simulate(_outage(producers, brokers, outage_s), seed)


async def _outage(producers: int, brokers: int, outage_s: float) -> Comeback:
    end_s = CALM_S + outage_s + AFTER_S
    async with fleet(brokers, partitions=brokers) as run:
        await run.start(producers)
        ready_s = run.now
        first_s = (max(run.counts.connections) + 1) * 0.1 if run.counts.connections else 0.0
        sending = asyncio.create_task(run.send(2.0, end_s))
        await asyncio.sleep(CALM_S - run.now)
        for broker in run.cluster.brokers.values():
            await broker.kill(stay_in_metadata=True)
        await asyncio.sleep(CALM_S + outage_s - run.now)
        for broker in run.cluster.brokers.values():
            await broker.start()
        await sending
        counts = run.counts
        settled_s = CALM_S + SETTLING_S
        tenths = [counts.connections[bucket] for bucket in range(round(settled_s * 10), round(settled_s * 10) + 300)]
        return Comeback(
            producers=producers,
            brokers=brokers,
            attempts=_of_one(counts.per_s(counts.connections, CALM_S, end_s), brokers),
            metadata=_of_one(counts.per_s(counts.requests["Metadata"], CALM_S, end_s), brokers),
            outage_s=outage_s,
            first_s=first_s,
            ready_s=ready_s,
            tenths_peak=_peak(_of_one(tenths, brokers)),
        )


def _of_one(counts: list[int], brokers: int) -> tuple[float, ...]:
    return tuple(round(count / brokers, 2) for count in counts)


def modelled(producers: int, outage_s: float, backoff: Backoff = RECONNECT_BACKOFF, seed: int = 1) -> Comeback:
    """Compute what reaches one broker to which so many producers lost their connections at the same moment."""
    random = Random(seed)
    end_s = round(outage_s + AFTER_S)
    tenths = [0] * end_s * 10
    for _ in range(producers):
        at, failures = backoff.delay_s(0, random), 0
        while True:
            tenths[int(at * 10)] += 1
            if at >= outage_s:
                break
            failures += 1
            at += LATENCY_S + backoff.delay_s(failures, random)
    attempts = tuple(float(sum(tenths[at : at + 10])) for at in range(0, len(tenths), 10))
    settled = tuple(map(float, tenths[10 * SETTLING_S : 10 * SETTLING_S + 300]))
    return Comeback(producers, 1, attempts, (), outage_s, tenths_peak=_peak(settled))
