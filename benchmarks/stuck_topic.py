"""How fast a topic is while another one of the same producer has no leader: `python -m benchmarks.stuck_topic`.

Real brokers; 100 tasks for each of two topics send records of 1 kB to a partition as fast as the memory (8 MB) lets
them. The only replica of the second one is on a broker that is killed. The figures are records per second of the first
one: alone, beside the stuck one by default, and with all of the memory for what is stuck, as it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import Final

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster

_VALUE: Final = b"x" * 1000
_MEMORY: Final = 8_000_000
_TASKS: Final = 100
"""With 100 kB each, so that those of one topic could hold all of the memory."""


async def _send(producer: Producer, topic: str, partition: int, until: float) -> int:
    """Send 100 records at a time until that time; how many were delivered."""
    delivered = 0
    while time.monotonic() < until:
        try:
            result = await asyncio.wait_for(
                producer.send_many(topic, [_VALUE] * 100, partition=partition), until - time.monotonic() + 1
            )
        except (AioprodError, TimeoutError):
            continue
        delivered += result.count - len(result.failures)
    return delivered


async def _rate(
    cluster: KafkaCluster, places: tuple[int, int], seconds: float, *, fraction: float, is_alone: bool
) -> float:
    options = {"buffer_memory": _MEMORY, "buffer_memory_stuck_fraction": fraction}
    async with Producer(cluster.bootstrap_servers, config=options) as producer:
        moving, stuck = places
        start = time.monotonic()
        until = start + seconds
        tasks = [asyncio.create_task(_send(producer, "moving", moving, until)) for _ in range(_TASKS)]
        if not is_alone:
            tasks += [asyncio.create_task(_send(producer, "stuck", stuck, until)) for _ in range(_TASKS)]
        counts = await asyncio.gather(*tasks)
        await producer.close(0.1)
        return sum(counts[:_TASKS]) / seconds


async def _led_by(cluster: KafkaCluster, topic: str, broker_id: int) -> int:
    async with Producer(cluster.bootstrap_servers) as producer:
        infos = await producer.partitions_for(topic)
    return next(info.partition for info in infos if info.leader is not None and info.leader.id == broker_id)


async def _measure(seconds: float) -> None:
    async with await KafkaCluster.start(3) as cluster:
        for topic in ("moving", "stuck"):
            await cluster.create_topic(topic, 3, replication_factor=1)
        places = await _led_by(cluster, "moving", 1), await _led_by(cluster, "stuck", 2)
        await cluster.kill(2)
        alone = await _rate(cluster, places, seconds, fraction=0.5, is_alone=True)
        beside = await _rate(cluster, places, seconds, fraction=0.5, is_alone=False)
        before = await _rate(cluster, places, seconds, fraction=1.0, is_alone=False)
    print(f"alone: {alone:,.0f} records/s")
    print(f"beside a topic without leader: {beside:,.0f} records/s, {beside / alone:.2f} of that")
    print(f"the same with buffer.memory.stuck.fraction=1: {before:,.0f} records/s, {before / alone:.2f} of that")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long each of the three takes (300)")
    asyncio.run(_measure(parser.parse_args().seconds))


if __name__ == "__main__":
    main()
