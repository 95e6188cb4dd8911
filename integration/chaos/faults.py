"""Faults of the brokers and of the network to the client, one after the other."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from integration.chaos.brokers import Brokers
from integration.chaos.disk import SmallDisk
from integration.chaos.ledger import Place
from integration.chaos.modes import DOOMED, MAIN, SOLO

__all__ = ["FAULTS", "Down", "Stage"]

DEAD_S: Final = 5.0
FROZEN_S: Final = 8.0  # longer than the cluster takes to declare a broker dead, its controller included
FROZEN_HARD_S: Final = 10.0
FROZEN_ONCE_S: Final = 12.0  # twice the deadline of delivery
NETWORK_S: Final = 4.0
CALM_S: Final = 1.0
CALM_HARD_S: Final = (3.0, 7.0)
FULL_S: Final = 6.0
LATENCY_S: Final = 0.1  # each way
SLOW_BYTES_PER_S: Final = 30_000.0
CUT_AFTER_BYTES_MAX: Final = 3000


class Down(NamedTuple):
    """A broker was dead or frozen from `start` until it served again at `end`, in seconds of the monotonic clock.

    At `thawed` it was let go on, or started.
    """

    broker_id: int
    start: float
    thawed: float
    end: float


class Stage:
    """Where faults happen; `downs` and `counts` say what has happened."""

    def __init__(self, brokers: Brokers, source: random.Random, disk: SmallDisk | None) -> None:
        self.brokers = brokers
        self.cluster = brokers.cluster
        self.source = source
        self.disk = disk
        self.downs: list[Down] = []
        self.counts: Counter[str] = Counter()
        self.topic_deleted_at: float | None = None

    def leader(self) -> int:
        """The leader of some partition."""
        leaders = [leader for place, leader in sorted(self.brokers.leaders.items()) if place.topic == MAIN]
        return self.source.choice([leader for leader in leaders if leader > 0])

    @asynccontextmanager
    async def down(self, seconds: float, *broker_ids: int) -> AsyncIterator[None]:
        """Note that brokers are away until they serve again; the block, which is to bring them back, begins later."""
        start = time.monotonic()
        await asyncio.sleep(seconds)
        thawed = time.monotonic()
        yield
        end = time.monotonic()
        self.downs += [Down(broker_id, start, thawed, end) for broker_id in broker_ids]

    async def play(self, name: str) -> None:
        """Let a fault happen and the cluster recover from it."""
        self.counts[name] += 1
        await FAULTS[name](self)
        if name not in _WITHOUT_RECOVERY:
            await self.brokers.healed()
            await asyncio.sleep(CALM_S)


async def leader_killed(stage: Stage) -> None:
    victim = stage.leader()
    await stage.cluster.kill(victim)
    async with stage.down(DEAD_S, victim):
        await stage.cluster.restart(victim)


async def leader_frozen(stage: Stage) -> None:
    victim = stage.leader()
    await stage.cluster.pause(victim)
    async with stage.down(FROZEN_S, victim):
        await stage.cluster.resume(victim)


async def rolling_restart(stage: Stage) -> None:
    for broker_id in stage.cluster.broker_ids:
        async with stage.down(0, broker_id):
            await stage.cluster.restart(broker_id)
        await stage.brokers.healed()


async def leaders_moved(stage: Stage) -> None:
    for _ in range(2):
        await stage.brokers.move_leaders()
        await asyncio.sleep(CALM_S)


@asynccontextmanager
async def cutting(stage: Stage) -> AsyncIterator[None]:
    """Cut connections after some more bytes of either direction, so in the midst of a request or of an answer."""
    work = asyncio.create_task(_cut_again_and_again(stage))
    try:
        yield
    finally:
        work.cancel()
        await asyncio.wait([work])
        for proxy in stage.cluster.proxies.values():
            proxy.to_client.cut_after_bytes = proxy.to_target.cut_after_bytes = None


async def _cut_again_and_again(stage: Stage) -> None:
    while True:
        proxy = stage.source.choice(list(stage.cluster.proxies.values()))
        direction = stage.source.choice((proxy.to_client, proxy.to_target))
        direction.cut_after_bytes = stage.source.randint(1, CUT_AFTER_BYTES_MAX)
        await asyncio.sleep(stage.source.uniform(0.02, 0.2))


async def connections_cut(stage: Stage) -> None:
    async with cutting(stage):
        await asyncio.sleep(NETWORK_S)


async def latency(stage: Stage) -> None:
    for proxy in stage.cluster.proxies.values():
        proxy.delay_s = LATENCY_S
    await asyncio.sleep(NETWORK_S)
    for proxy in stage.cluster.proxies.values():
        proxy.delay_s = 0.0


async def slow_link(stage: Stage) -> None:
    proxy = stage.cluster.proxies[stage.leader()]
    proxy.throttle_bytes_per_s = SLOW_BYTES_PER_S
    await asyncio.sleep(NETWORK_S)
    proxy.throttle_bytes_per_s = None


async def disk_full(stage: Stage) -> None:
    assert stage.disk is not None
    await stage.disk.fill()
    async with stage.down(FULL_S, stage.disk.broker_id):
        await stage.disk.clear()
        await stage.cluster.restart(stage.disk.broker_id)


async def topic_deleted(stage: Stage) -> None:
    if stage.topic_deleted_at is None:
        stage.topic_deleted_at = time.monotonic()
        await stage.cluster.delete_topic(DOOMED)
    await asyncio.sleep(CALM_S)


async def two_of_three_frozen(stage: Stage) -> None:
    """The third one leads on, but nothing that needs two replicas is acknowledged."""
    spared = stage.cluster.broker_ids[sum(stage.counts.values()) % 3]
    victims = [broker_id for broker_id in stage.cluster.broker_ids if broker_id != spared]
    await asyncio.gather(*(stage.cluster.pause(victim) for victim in victims))
    async with stage.down(FROZEN_HARD_S, *victims):
        await asyncio.gather(*(stage.cluster.resume(victim) for victim in victims))
    await asyncio.sleep(stage.source.uniform(*CALM_HARD_S))


async def two_of_three_frozen_and_cut(stage: Stage) -> None:
    async with cutting(stage):
        await two_of_three_frozen(stage)


async def one_frozen(stage: Stage) -> None:
    victim = stage.brokers.leaders[Place(SOLO, 0)]
    await stage.cluster.pause(victim)
    async with stage.down(FROZEN_ONCE_S, victim):
        await stage.cluster.resume(victim)


FAULTS: Final[dict[str, Callable[[Stage], Awaitable[None]]]] = {
    "leader killed": leader_killed,
    "leader frozen": leader_frozen,
    "connections cut mid-frame": connections_cut,
    "leaders moved by reassignment": leaders_moved,
    "200 ms latency": latency,
    "slow link": slow_link,
    "rolling restart": rolling_restart,
    "topic deleted": topic_deleted,
    "disk full": disk_full,
    "two of three frozen": two_of_three_frozen,
    "two of three frozen, connections cut": two_of_three_frozen_and_cut,
    "one frozen": one_frozen,
}
_WITHOUT_RECOVERY: Final = ("two of three frozen", "two of three frozen, connections cut")
