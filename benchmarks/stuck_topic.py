"""How fast a topic is while another one of the same producer has no leader: `python -m benchmarks.stuck_topic`.

Real brokers; 100 tasks for each of two topics send records of 1 kB to a partition: those of the first one at a rate, or
as fast as the memory (8 MB) lets them (`--rate 0`), those of the second one always as fast. The only replica of the
second one is on a broker that is killed. The figures are records per second of the first one: alone, beside the stuck
one by default, and with all of the memory for what is stuck, as it was before.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from typing import Final

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.testing import KafkaCluster

_VALUE: Final = b"x" * 1000
_MEMORY: Final = 8_000_000
_CALL: Final = 100
"""Records of a call."""
_TASKS: Final = 100
"""With 100 kB each, so that those of one topic could hold all of the memory."""


async def _send(producer: Producer, topic: str, partition: int, until: float, pause_s: float = 0.0) -> int:
    """Send 100 records at a time until that time, one call in each `pause_s`; how many were delivered."""
    delivered = 0
    due = time.monotonic() + random.random() * pause_s
    while time.monotonic() < until:
        await asyncio.sleep(due - time.monotonic())
        due += pause_s
        try:
            result = await asyncio.wait_for(
                producer.send_many(topic, [_VALUE] * _CALL, partition=partition), until - time.monotonic() + 1
            )
        except (AioprodError, TimeoutError):
            continue
        delivered += result.count - len(result.failures)
    return delivered


async def _rate(
    cluster: KafkaCluster, places: tuple[int, int], rate: float, seconds: float, *, fraction: float, is_alone: bool
) -> float:
    options = {"buffer_memory": _MEMORY, "buffer_memory_stuck_fraction": fraction}
    async with Producer(cluster.bootstrap_servers, config=options) as producer:
        moving, stuck = places
        start = time.monotonic()
        until = start + seconds
        pause_s = _TASKS * _CALL / rate if rate else 0.0
        tasks = [asyncio.create_task(_send(producer, "moving", moving, until, pause_s)) for _ in range(_TASKS)]
        if not is_alone:
            tasks += [asyncio.create_task(_send(producer, "stuck", stuck, until)) for _ in range(_TASKS)]
        counts = await asyncio.gather(*tasks)
        await producer.close(0.1)
        return sum(counts[:_TASKS]) / seconds


async def _led_by(cluster: KafkaCluster, topic: str, broker_id: int) -> int:
    async with Producer(cluster.bootstrap_servers) as producer:
        infos = await producer.partitions_for(topic)
    return next(info.partition for info in infos if info.leader is not None and info.leader.id == broker_id)


async def _measure(rate: float, seconds: float) -> None:
    async with await KafkaCluster.start(3) as cluster:
        for topic in ("moving", "stuck"):
            await cluster.create_topic(topic, 3, replication_factor=1)
        places = await _led_by(cluster, "moving", 1), await _led_by(cluster, "stuck", 2)
        await cluster.kill(2)
        alone = await _rate(cluster, places, rate, seconds / 5, fraction=0.5, is_alone=True)
        beside = await _rate(cluster, places, rate, seconds, fraction=0.5, is_alone=False)
        before = await _rate(cluster, places, rate, seconds / 5, fraction=1.0, is_alone=False)
    print(f"alone: {alone:,.0f} records/s")
    print(f"beside a topic without leader: {beside:,.0f} records/s, {beside / alone:.2f} of that")
    print(f"the same with buffer.memory.stuck.fraction=1: {before:,.0f} records/s, {before / alone:.2f} of that")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long they are beside each other (300)")
    parser.add_argument(
        "--rate", type=float, default=50_000, help="records per second of the first one (50,000), 0: all"
    )
    arguments = parser.parse_args()
    asyncio.run(_measure(arguments.rate, arguments.seconds))


if __name__ == "__main__":
    main()
