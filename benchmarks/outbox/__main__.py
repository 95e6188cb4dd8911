"""`python -m benchmarks.outbox`: an outbox as a library, beside the one that `examples/orders` had before.

One server of Postgres with fsync, and one of Kafka. Writers in four processes commit orders, a relay brings them to
Kafka, and a consumer with read_committed says when each was there. The kinds take turns, each with a database and a
topic of its own. Then: how fast a relay works off a backlog, what `put` costs a transaction beside a plain INSERT, and
with --minutes how large the table gets.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psycopg

from aioprod.testing import KafkaCluster
from benchmarks.outbox import costs, pgbench
from benchmarks.outbox.reading import Reading
from tests.outbox.server import PostgresServer, server_folders

BEFORE: Final = "4610e833210ae758cb55fb9aa4c021a31cbc00bf"
"""The commit whose example is measured."""
KINDS: Final = ("before", "library")
PROCESSES: Final = 4
PARTITIONS: Final = 3
ROOT: Final = Path(__file__).parents[2]
_READ_S: Final = 300.0
_BACKLOG: Final = """
INSERT INTO outbox (topic, key, value) SELECT %s, convert_to('customer ' || n %% 1000, 'UTF8'),
convert_to(json_build_object('id', n, 'customer', 'customer ' || n %% 1000, 'item', 'a book')::text, 'UTF8')
FROM generate_series(1, %s) AS n
"""
_SIZES: Final = """
SELECT pg_total_relation_size('outbox'), (SELECT count(*) FROM outbox),
(SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'outbox')
"""


class Round(NamedTuple):
    """What one kind has done in one turn."""

    orders: int
    committed_rate: float
    """Orders a second."""
    read_rate: float
    """The same until the last one could be read."""
    p50_ms: float
    p99_ms: float
    writers_cpu_us: float
    """For each order."""
    relay_cpu_us: float


class Bench:
    """The servers, and programs that see the example's code as it was."""

    def __init__(self, before: Path, server: PostgresServer, kafka: KafkaCluster) -> None:
        path = os.pathsep.join((str(before), str(ROOT)))
        self._environment = {**os.environ, "PYTHONPATH": path}
        self.server = server
        self._kafka = kafka
        self._count = 0

    @asynccontextmanager
    async def relayed(self, kind: str, *profile: str) -> AsyncIterator[tuple[str, str, Reading, list[float]]]:
        """A new database and topic with a relay and a reader: DSN, topic, reader; at the end the relay's CPU time."""
        topic, dsn = self.new_database()
        if kind == "library":
            costs.create_tables(dsn)
        await self._kafka.create_topic(topic, PARTITIONS)
        relay = await self.program("relays", kind, dsn, self._kafka.bootstrap_servers, topic, *profile)
        reading = Reading(self._kafka.bootstrap_servers, topic, PARTITIONS)
        cpu_s: list[float] = []
        try:
            yield dsn, topic, reading, cpu_s
        finally:
            reading.close()
            if relay.returncode is None:
                relay.send_signal(signal.SIGTERM)
            out, _ = await relay.communicate()
            cpu_s += [float(line) for line in out.split()[:1]]

    def new_database(self) -> tuple[str, str]:
        """Create one; its name and its DSN."""
        self._count += 1
        name = f"shop{self._count}"
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return name, self.server.dsn.replace("/postgres?", f"/{name}?")

    async def write(self, kind: str, dsn: str, topic: str, load: Load) -> tuple[dict[str, float], float]:
        """Let writers write; when each order was committed, and their CPU time."""
        arguments = (kind, dsn, topic, str(load.writers // PROCESSES), str(load.seconds), str(load.rate / PROCESSES))
        running = [await self.program("writers", *arguments) for _ in range(PROCESSES)]
        committed: dict[str, float] = {}
        cpu_s = 0.0
        for out, _ in await asyncio.gather(*(process.communicate() for process in running)):
            cpu, *lines = out.decode().splitlines()
            cpu_s += float(cpu)
            committed |= {order: float(at) for order, at in (line.split() for line in lines)}
        return committed, cpu_s

    async def program(self, name: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a program of this folder."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", f"benchmarks.outbox.{name}", *arguments),
            env=self._environment,
            stdout=subprocess.PIPE,
        )


class Load(NamedTuple):
    """What writers do."""

    writers: int
    seconds: float
    rate: float
    """Orders a second of all; 0 for as many as there can be."""


async def _until_read(reading: Reading, count: int) -> None:
    async with asyncio.timeout(_READ_S):
        while len(reading) < count:  # It has a thread of its own.
            await asyncio.sleep(0.05)


async def _round(bench: Bench, kind: str, load: Load) -> Round:
    async with bench.relayed(kind) as (dsn, topic, reading, relay_cpu_s):
        warm, _ = await bench.write(kind, dsn, topic, Load(load.writers, 1.0, 100.0))
        await _until_read(reading, len(warm))
        committed, cpu_s = await bench.write(kind, dsn, topic, load)
        await _until_read(reading, len(warm) + len(committed))
        read = reading.times()
        assert len(read) == len(reading), "orders are there twice"
    first = min(committed.values())
    late = [(read[order] - at) * 1000 for order, at in committed.items()]
    cuts = statistics.quantiles(late, n=100)
    count = len(committed)
    return Round(
        count,
        count / (max(committed.values()) - first),
        count / (max(read[order] for order in committed) - first),
        cuts[49],
        cuts[98],
        cpu_s / count * 1e6,
        sum(relay_cpu_s) / count * 1e6,
    )


async def _compare(bench: Bench, load: Load, rounds: int) -> None:
    found: dict[str, list[Round]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            found[kind].append(await _round(bench, kind, load))
    how = f"{load.rate:,.0f} orders/s" if load.rate else "as many orders as there can be"
    print(f"{load.writers} writers, {how}, {rounds} rounds of {load.seconds:.0f} s, medians:")
    for kind, turns in found.items():
        middle = Round(*(statistics.median(column) for column in zip(*turns, strict=True)))
        rates = ", ".join(f"{turn.committed_rate:,.0f}" for turn in turns)
        print(
            f"  {kind}: {middle.committed_rate:,.0f} orders/s committed ({rates}), {middle.read_rate:,.0f}/s until all "
            f"were in Kafka; from commit to Kafka p50 {middle.p50_ms:.1f} ms, p99 {middle.p99_ms:.1f} ms; CPU of an "
            f"order: writers {middle.writers_cpu_us:,.0f} us, relay {middle.relay_cpu_us:,.0f} us",
            flush=True,
        )


async def _compare_by_pgbench(bench: Bench, load: Load, rounds: int, folder: Path) -> None:
    """The same transactions by writers in C."""
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            async with bench.relayed(kind) as (dsn, topic, reading, _):
                warm, _ = await bench.write(kind, dsn, topic, Load(load.writers, 1.0, 100.0))
                await _until_read(reading, len(warm))
                start = time.monotonic()
                count, rate = await pgbench.commit(kind, dsn, topic, folder, load.writers, load.seconds)
                await _until_read(reading, len(warm) + count)
                found[kind].append((rate, count / (time.monotonic() - start)))
    print(f"{load.writers} clients of pgbench, {rounds} rounds of {load.seconds:.0f} s, medians:")
    for kind, turns in found.items():
        rate, read_rate = (statistics.median(column) for column in zip(*turns, strict=True))
        rates = ", ".join(f"{turn[0]:,.0f}" for turn in turns)
        print(
            f"  {kind}: {rate:,.0f} orders/s committed ({rates}), {read_rate:,.0f}/s until all were in Kafka",
            flush=True,
        )


async def _backlog(bench: Bench, count: int, profile: Sequence[str]) -> None:
    async with bench.relayed("library", *profile) as (dsn, topic, reading, cpu_s):
        with psycopg.connect(dsn) as connection:
            connection.execute(_BACKLOG.encode(), (topic, count))
        await _until_read(reading, count)
        span_s = reading.span_s
    print(
        f"a backlog of {count:,} rows: {count / span_s:,.0f} rows/s from the first in Kafka to the last, "
        f"{sum(cpu_s) / count * 1e6:.1f} us of the relay's CPU a row",
        flush=True,
    )


async def _writers_cost(bench: Bench, transactions: int) -> None:
    _, alone = bench.new_database()
    costs.create_tables(alone)
    _show_costs("no relay runs", await asyncio.to_thread(costs.compare, alone, transactions))
    async with bench.relayed("library") as (dsn, _, _, _):
        _show_costs("a relay is woken by each", await asyncio.to_thread(costs.compare, dsn, transactions))


def _show_costs(when: str, found: dict[str, tuple[float, float, float]]) -> None:
    print(f"one writer, a transaction with an order, {when}:")
    for kind, (took_us, client_us, server_us) in found.items():
        print(
            f"  {kind}: {took_us:,.0f} us, CPU of the client {client_us:,.0f} us, of Postgres {server_us:,.0f} us",
            flush=True,
        )


async def _growth(bench: Bench, minutes: float, rate: float, writers: int) -> None:
    print(f"growth at {rate:,.0f} orders/s over {minutes:.0f} minutes:", flush=True)
    async with bench.relayed("library") as (dsn, topic, reading, _):
        load = Load(writers, minutes * 60, rate)
        writing = asyncio.create_task(bench.write("library", dsn, topic, load))
        sizes: list[int] = []
        start = shown = time.monotonic()
        while not writing.done():
            await asyncio.wait([writing], timeout=5)
            with psycopg.connect(dsn, autocommit=True) as connection:
                ((size, rows, dead),) = connection.execute(_SIZES.encode()).fetchall()
            sizes.append(size)
            if time.monotonic() - shown >= 60 or writing.done():
                shown = time.monotonic()
                print(
                    f"  {(shown - start) / 60:.0f} min: {len(reading):,} orders in Kafka, {size / 2**20:.1f} MiB with "
                    f"indexes, at most {max(sizes) / 2**20:.1f}, {rows:,} rows, {dead:,} dead",
                    flush=True,
                )


@contextmanager
def _example_before(given: str | None) -> Iterator[Path]:
    """The folder with `examples` as it was."""
    if given is not None:
        yield Path(given).resolve()
        return
    with tempfile.TemporaryDirectory() as name:
        packed = subprocess.run(
            ["git", "archive", BEFORE, "examples/orders"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", name], input=packed, check=True)
        yield Path(name)


async def _measure(given: argparse.Namespace) -> None:
    settings = ("fsync=on", f"commit_delay={round(given.flush_ms * 1000)}", "commit_siblings=0")
    with _example_before(given.before) as before, server_folders() as (folder,):
        server = PostgresServer(folder, settings=settings)
        server.create()
        server.start()
        try:
            async with await KafkaCluster.start(1) as kafka:
                bench = Bench(before, server, kafka)
                for rate in given.rates if given.rounds else ():
                    await _compare(bench, Load(given.writers, given.seconds, rate), given.rounds)
                if given.pgbench_rounds:
                    await _compare_by_pgbench(
                        bench, Load(given.writers, given.seconds, 0.0), given.pgbench_rounds, before
                    )
                if given.backlog:
                    await _backlog(bench, given.backlog, [given.profile] if given.profile else [])
                if given.transactions:
                    await _writers_cost(bench, given.transactions)
                if given.minutes:
                    await _growth(bench, given.minutes, given.growth_rate, given.writers)
        finally:
            server.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="a folder with examples/orders as it was (else `git archive` gives it)")
    parser.add_argument("--writers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3, help="of which the median counts (3); 0 for none")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round (20)")
    parser.add_argument("--rates", type=float, nargs="*", default=[0.0, 200.0], help="orders a second; 0: no limit")
    parser.add_argument("--pgbench-rounds", type=int, default=3, help="the same by writers in C (3); 0 for none")
    parser.add_argument("--flush-ms", type=float, default=0.0, help="what a flush of the disk takes longer (0)")
    parser.add_argument("--backlog", type=int, default=300_000, help="rows (300,000); 0 for none")
    parser.add_argument("--profile", help="the file for cProfile of the relay that works off the backlog")
    parser.add_argument("--transactions", type=int, default=3000, help="of each kind of the costs (3,000); 0 for none")
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to look at the growth of the table (0)")
    parser.add_argument("--growth-rate", type=float, default=200.0, help="orders a second meanwhile (200)")
    asyncio.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
