"""How long one awaited record takes on an idle connection: aioprod's `send` beside aiokafka's `send_and_wait`.

    python benchmarks/latency.py [host:port] [--rounds N]

Both have their default settings and take turns, so that whatever else the machine does meets both alike. Between two
records the connection is idle for a moment. Without an address a broker is started on this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import aiokafka

import aioprod
from aioprod.testing import KafkaCluster

IDLE_S = 0.002
WARM_UP = 200
VALUE = b"x" * 100

Send = Callable[[], Awaitable[object]]


async def measure(sends: dict[str, Send], rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each send, sorted, by its name; each round the order is another."""
    taken: dict[str, list[float]] = {name: [] for name in sends}
    names = list(sends)
    for number in range(WARM_UP + rounds):
        names.append(names.pop(0))
        for name in names:
            await asyncio.sleep(IDLE_S)
            start = time.perf_counter()
            await sends[name]()
            if number >= WARM_UP:
                taken[name].append((time.perf_counter() - start) * 1000)
    return {name: sorted(times) for name, times in taken.items()}


def percentile(times: list[float], percent: float) -> float:
    """The value that `percent` of the sorted times don't exceed."""
    return times[min(len(times) - 1, int(len(times) * percent / 100))]


async def compare(bootstrap_servers: str, rounds: int) -> None:
    """Measure both on one topic and print p50, p99 and their ratios."""
    topic = f"latency-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(aioprod.Producer(bootstrap_servers))
        theirs = await stack.enter_async_context(aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap_servers))
        await ours.send(topic, VALUE)
        taken = await measure(
            {
                "aioprod send": lambda: ours.send(topic, VALUE),
                "aiokafka send_and_wait": lambda: theirs.send_and_wait(topic, VALUE),
            },
            rounds,
        )
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    print(f"Python {platform.python_version()}, {loop}, {rounds:,} rounds, {len(VALUE)} bytes, the defaults of each")
    print(f"{'ms':<24}{'p50':>8}{'p99':>8}")
    for name, times in taken.items():
        print(f"{name:<24}{percentile(times, 50):>8.3f}{percentile(times, 99):>8.3f}")
    ours_ms, theirs_ms = taken.values()
    ratios = [percentile(ours_ms, percent) / percentile(theirs_ms, percent) for percent in (50, 99)]
    print(f"{'ratio':<24}{ratios[0]:>8.2f}{ratios[1]:>8.2f}")


async def main() -> None:
    """Read the arguments, find or start a broker, measure."""
    parser = argparse.ArgumentParser(description="Latency of one awaited record, aioprod beside aiokafka.")
    parser.add_argument("address", nargs="?", help="host:port of a broker; without it one is started here")
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    if options.address is not None:
        await compare(options.address, options.rounds)
        return
    async with await KafkaCluster.start(backend="local", progress=lambda line: print(line, file=sys.stderr)) as cluster:
        await compare(cluster.bootstrap_servers, options.rounds)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop when it is installed, else asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as running:
        running.run(main())
