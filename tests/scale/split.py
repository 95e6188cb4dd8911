"""The network is cut in two: the producers reach half of the brokers, for five minutes."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.scale.simulated import TOPIC, Fleet, fleet, simulate

__all__ = ["Cut", "cut"]

CALM_S: Final = 10.0
ELECTION_S: Final = 18.0
"""After this time without heartbeats (`broker.session.timeout.ms`, 9 s, and its rounds) other brokers are leaders."""
AFTER_S: Final = 60.0
RATE: Final = 20.0
STEP_S: Final = 10.0
BUFFER: Final = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Cut:
    """What became of the records. `moves`: the brokers that the producers reach elect leaders for all partitions.

    `expired` records failed after `delivery.timeout.ms`, `refused` ones because the memory was full for `max.block.ms`;
    `lost` were acknowledged and are not stored. `buffer_peak_kb` is the fullest buffer of any producer. `longest_s`
    is the longest time to an acknowledgement, `recovered_s` when the last record that was sent during the cut had its
    outcome, since the end of the cut. The last two count records by the time of sending, in steps of 10 s.
    """

    producers: int
    brokers: int
    cut_s: float
    moves: bool
    records: int
    delivered: int
    expired: int
    refused: int
    lost: int
    duplicated: int
    buffer_peak_kb: int
    longest_s: float
    recovered_s: float
    delivered_by_time: tuple[int, ...]
    failed_by_time: tuple[int, ...]


def cut(producers: int, brokers: int, cut_s: float, *, moves: bool, seed: int = 1) -> Cut:
    """Simulate it."""
    return simulate(_cut(producers, brokers, cut_s, moves), seed)


async def _cut(producers: int, brokers: int, cut_s: float, moves: bool) -> Cut:
    end_s = CALM_S + cut_s + AFTER_S
    async with fleet(brokers, partitions=2 * brokers) as run:
        await run.start(producers, buffer_memory=BUFFER)
        sending = asyncio.create_task(run.send(RATE, end_s))
        sampler = asyncio.create_task(_fullest(run))
        await asyncio.sleep(CALM_S)
        away = list(run.cluster.brokers)[brokers // 2 :]
        addresses = [run.cluster[node_id].address for node_id in away]
        network = run.loop.network
        network.silent.update(addresses)
        for address in addresses:
            for wire in network.wires_to(address):
                wire.stall()
        if moves:
            await asyncio.sleep(ELECTION_S)
            _elect(run, away)
        await asyncio.sleep(CALM_S + cut_s - run.now)
        healed_s = run.now
        network.silent.clear()
        for address in addresses:
            for wire in network.wires_to(address):
                wire.resume()
        await sending
        sampler.cancel()
        load, stored = run.load, run.stored()
        before = [(sent_s, latency_s) for sent_s, latency_s in load.latencies if sent_s < healed_s]
        return Cut(
            producers=producers,
            brokers=brokers,
            cut_s=cut_s,
            moves=moves,
            records=load.sent,
            delivered=len(load.latencies),
            expired=load.errors["NotSentError"] + load.errors["UnknownOutcomeError"],
            refused=load.errors["BufferFullError"],
            lost=max(0, len(load.latencies) - len(stored)),
            duplicated=sum(stored.values()) - len(stored),
            buffer_peak_kb=run.buffer_peak // 1024,
            longest_s=round(max(latency_s for _, latency_s in load.latencies), 1),
            recovered_s=max(0.0, round(max(sent_s + latency_s for sent_s, latency_s in before) - healed_s, 1)),
            delivered_by_time=_by_time([sent_s for sent_s, _ in load.latencies], end_s),
            failed_by_time=_by_time(load.failed_at, end_s),
        )


def _by_time(sent: list[float], end_s: float) -> tuple[int, ...]:
    counts = Counter(int(sent_s / STEP_S) for sent_s in sent)
    return tuple(counts[step] for step in range(round(end_s / STEP_S)))


def _elect(run: Fleet, away: list[int]) -> None:
    """The brokers that are reached elect leaders among themselves, and their metadata no longer has the others."""
    here = [node_id for node_id in run.cluster.brokers if node_id not in away]
    for index, partition in enumerate(run.cluster.topics[TOPIC].partitions):
        if partition.leader in away:
            run.cluster.move_leader(TOPIC, index, here[index % len(here)])


async def _fullest(run: Fleet) -> None:
    while True:
        run.buffer_peak = max(run.buffer_peak, *(producer.buffered.bytes for producer in run.producers))
        await asyncio.sleep(1.0)
