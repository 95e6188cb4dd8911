"""Tests in simulated time: limits of some milliseconds, on a machine of any speed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from aioprod import Producer
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.testing.simulation.producers import start

__all__ = ["far_away", "in_simulated_time"]

P = ParamSpec("P")


def far_away(
    scene: Callable[[FakeCluster, Producer], Coroutine[Any, Any, None]],
    round_trip_s: float,
    *,
    brokers: int = 1,
    partitions: int = 1,
    **options: Any,
) -> None:
    """Play a scene with a producer of brokers that are half a round trip away, and a topic "t"."""

    async def play() -> None:
        loop.network.conditions.latency_min_s = loop.network.conditions.latency_max_s = round_trip_s / 2
        async with FakeCluster(brokers) as cluster:
            cluster.create_topic("t", partitions=partitions)
            producer = Producer(cluster.bootstrap, **options)
            await start(producer, loop)
            await scene(cluster, producer)
            await producer.close()

    with SimulatedLoop(1) as loop:
        loop.run(play())


def in_simulated_time(scene: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make a test of a coroutine function. Time passes only while all tasks wait: pauses of the process don't count."""

    @functools.wraps(scene)
    def play(*arguments: P.args, **options: P.kwargs) -> None:
        with SimulatedLoop(1) as loop:
            loop.run(scene(*arguments, **options))

    return play
