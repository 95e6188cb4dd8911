"""What it costs to be watched: CPU time per record, alone, with metrics collected, and with a tracer.

`python -m benchmarks.observed` prints a table; AIOPROD_NO_EXT=1 does so for the interpreted build. Rounds are
interleaved in one process and on one mock broker, and the figure is the median of the ratio to the plain producer in
the same round. A collection is timed by itself, and counted once in ten seconds of the producer's CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import NoOpTracerProvider
from prometheus_client import CollectorRegistry, generate_latest

from aioprod import COMPILED, Producer
from aioprod.console.tables import Table
from aioprod.console.terminal import show
from aioprod.observability.opentelemetry import TracedProducer, observe
from aioprod.observability.prometheus import Collector
from benchmarks.brokers import start

VALUE = b"x" * 100
SLICE = 500
EVERY_S = 10.0


async def nowait(producer: Producer, records: int) -> None:
    """`send_nowait` with backpressure."""
    for first in range(0, records, SLICE):
        for _ in range(min(SLICE, records - first)):
            producer.send_nowait("records", VALUE)
        await producer.drain()
    await producer.flush()


async def idle(producer: Producer, records: int) -> None:
    """One `await send` at a time."""
    for _ in range(records):
        await producer.send("records", VALUE)


LOADS: dict[str, tuple[Callable[[Producer, int], Awaitable[None]], int]] = {
    "send_nowait": (nowait, 200_000),
    "idle await send": (idle, 4_000),
}


async def measure(rounds: int, share: float) -> list[tuple[object, ...]]:
    """Rows of the table: load, way of watching, CPU per record, ratio to the plain producer in the same round."""
    rows: list[tuple[object, ...]] = []
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    registry = CollectorRegistry()
    async with AsyncExitStack() as stack:
        servers = (await stack.enter_async_context(start("mock"))).bootstrap_servers
        plain, scraped, observed = [await stack.enter_async_context(Producer(servers)) for _ in range(3)]
        traced = await stack.enter_async_context(TracedProducer(servers, tracer_provider=NoOpTracerProvider()))
        registry.register(Collector(scraped))
        observe(observed, meter_provider=meters)
        collect: dict[str, Callable[[], object]] = {
            "Prometheus, scraped every 10 s": lambda: generate_latest(registry),
            "OpenTelemetry metrics, every 10 s": reader.get_metrics_data,
        }
        ways = {
            "plain": plain,
            "Prometheus, scraped every 10 s": scraped,
            "OpenTelemetry metrics, every 10 s": observed,
            "TracedProducer without an SDK": traced,
        }
        for load, (send, records) in LOADS.items():
            records = max(1, int(records * share))
            for producer in ways.values():
                await send(producer, records // 10 + 1)
            found: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, producer in ways.items():
                    begun = time.process_time()
                    await send(producer, records)
                    used = time.process_time() - begun
                    if way in collect:
                        begun = time.process_time()
                        collect[way]()
                        # Of a loop that is always busy: in ten seconds of its CPU time there is one collection.
                        used *= 1 + (time.process_time() - begun) / EVERY_S
                    found[way].append(used / records * 1e6)
            for way, costs in found.items():
                ratios = [cost / base for cost, base in zip(costs, found["plain"], strict=True)]
                rows.append((load, way, statistics.median(costs), statistics.median(ratios)))
    meters.shutdown()
    return rows


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of records")
    given = parser.parse_args()
    rows = asyncio.run(measure(given.rounds, given.share))
    build = "compiled" if COMPILED else "interpreted"
    heading = f"CPU time of a watched producer, {build}"
    show([Table(heading, "", ("load", "way", "us per record", "ratio"), rows)], sys.stdout)


if __name__ == "__main__":
    main()
