"""What it costs to keep records on disk first: `python -m benchmarks.spool`.

A real broker, records of 100 bytes with keys, and a folder on the disk of the working directory. Printed are CPU time
and rate of `send_nowait` and `send_many`, beside `Producer` in turns of the same run; how long `send` takes while the
broker answers and while it does not; and what a start with a backlog takes until the first record is in Kafka.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aioprod import Producer
from aioprod.spool import SpooledProducer
from aioprod.testing import KafkaCluster

_VALUE: Final = b"x" * 100
_KEYS: Final = [b"%d" % number for number in range(1000)]
_MAX_BYTES: Final = 64 << 30
_TURN: Final = 200
"""Records of `send_nowait` between two turns of the loop."""


async def _nowait(producer: Producer | SpooledProducer, count: int) -> None:
    for first in range(0, count, _TURN):
        for number in range(first, first + _TURN):
            producer.send_nowait("t", _VALUE, key=_KEYS[number % 1000])
        if isinstance(producer, Producer):
            await producer.drain()
        else:
            await asyncio.sleep(0)
    await producer.flush()


async def _many(producer: Producer | SpooledProducer, count: int) -> None:
    result = await producer.send_many("t", [_VALUE] * count, keys=_KEYS * (count // 1000))
    result.raise_for_failures()
    await producer.flush()


async def _cost(work: Awaitable[None], count: int) -> tuple[float, float]:
    """Records a second, and microseconds of CPU for each."""
    start, cpu = time.perf_counter(), time.process_time()
    await work
    return count / (time.perf_counter() - start), (time.process_time() - cpu) / count * 1e6


async def _compare(cluster: KafkaCluster, folder: Path, count: int, rounds: int) -> None:
    calls: dict[str, Callable[[Producer | SpooledProducer, int], Awaitable[None]]] = {
        "send_nowait": _nowait,
        "send_many": _many,
    }
    for name, call in calls.items():
        found: dict[str, list[tuple[float, float]]] = {"Producer": [], "SpooledProducer": []}
        for number in range(rounds):
            async with Producer(cluster.bootstrap_servers) as plain:
                await call(plain, 10_000)
                found["Producer"].append(await _cost(call(plain, count), count))
            async with SpooledProducer(
                cluster.bootstrap_servers, folder=folder / f"{name}-{number}", max_bytes=_MAX_BYTES
            ) as spooled:
                await call(spooled, 10_000)
                found["SpooledProducer"].append(await _cost(call(spooled, count), count))
        for kind, costs in found.items():
            rate, cpu = (statistics.median(column) for column in zip(*costs, strict=True))
            print(f"{name}, {kind}: {rate:,.0f} records/s to Kafka, {cpu:.2f} us of CPU a record")


async def _latencies(producer: SpooledProducer, count: int) -> str:
    took = []
    for _ in range(count):
        start = time.perf_counter()
        await producer.send("t", _VALUE)
        took.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.001)
    cuts = statistics.quantiles(took, n=100)
    return f"p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms"


async def _latency(cluster: KafkaCluster, folder: Path) -> None:
    producer = SpooledProducer(cluster.bootstrap_servers, folder=folder / "latency")
    await producer.start()
    await (await producer.send("t", _VALUE)).stored()
    print("send, Kafka up:", await _latencies(producer, 2000))
    await cluster.pause(1)
    print("send, Kafka away:", await _latencies(producer, 2000))
    await cluster.resume(1)
    await producer.close()


async def _backlog(cluster: KafkaCluster, folder: Path, size: int) -> None:
    place = folder / "backlog"
    async with SpooledProducer(cluster.bootstrap_servers, folder=place, max_bytes=_MAX_BYTES, relays=False) as producer:
        count = 0
        while producer.health().kept_bytes < size:
            await producer.send_many("t", [_VALUE] * 100_000, keys=_KEYS * 100)
            count += 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    again = SpooledProducer(cluster.bootstrap_servers, folder=place, max_bytes=_MAX_BYTES)
    await again.start()
    opened_s = time.perf_counter() - start
    while again.metrics()["relay_records_total"] == 0:  # what a run takes is far longer
        await asyncio.sleep(0.001)
    first_s = time.perf_counter() - start
    await again.flush()
    all_s = time.perf_counter() - start
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"backlog of {size / 2**30:.2f} GiB, {count:,} records: open after {opened_s:.2f} s, the first in Kafka after "
        f"{first_s:.2f} s, all after {all_s:.0f} s, with {more:.0f} MB of memory more than before"
    )
    await again.close()


async def _measure(count: int, rounds: int, backlog: int) -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        async with await KafkaCluster.start(1) as cluster:
            await cluster.create_topic("t", 12)
            await _compare(cluster, folder, count, rounds)
            await _latency(cluster, folder)
            await _backlog(cluster, folder, backlog)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000, help="of each call that is measured (300,000)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (5)")
    parser.add_argument("--backlog", type=int, default=2 << 30, help="bytes of the backlog (2 GiB)")
    given = parser.parse_args()
    asyncio.run(_measure(given.records, given.rounds, given.backlog))


if __name__ == "__main__":
    main()
