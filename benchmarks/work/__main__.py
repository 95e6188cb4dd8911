"""Many records at once: `member.work` beside FastStream's `max_workers` and Confluent's parallel-consumer for Java.

`python -m benchmarks.work` prints a table for each load. All read one partition of a real Kafka, records of 100 B, with
200 handlers at once. Each run is a process of its own, and contenders take turns. CPU time is that of the consumer's
process, from its first handler after a warm-up to the end of its last one; figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys

from aioprod import COMPILED, Producer
from aioprod.console.tables import Table
from aioprod.console.terminal import show
from aioprod.testing import KafkaCluster
from benchmarks.processes import ProcessFailedError, output_of
from benchmarks.work.java import ORDERS, command
from benchmarks.work.job import Job, Measurement
from benchmarks.work.loads import CONCURRENCY, VALUE, Contender, Load, keys_of, loads


async def fill(bootstrap: str, load: Load) -> None:
    """Store the records of a load."""
    keys = keys_of(load)
    async with Producer(bootstrap, batch_size=64 * 1024, linger_ms=20) as producer:
        (await producer.send_many(load.topic, [VALUE] * len(keys), keys=keys)).raise_for_failures()


async def run(job: Job) -> Measurement:
    """Run one process; raises ProcessFailedError."""
    python = [sys.executable, "-m", "benchmarks.work.contender", job.to_json()]
    out, _ = await output_of(*(command(job) if job.contender in ORDERS else python))
    if not out:
        raise ProcessFailedError("It printed no measurement.")
    return Measurement.from_json(out.splitlines()[-1])


async def measure(bootstrap: str, load: Load, rounds: int, only: str) -> Table:
    """Run all contenders of a load in turns, and return its table."""
    some = [contender for contender in load.contenders() if only in contender.name]
    found: dict[Contender, list[Measurement]] = {contender: [] for contender in some}
    for number in range(rounds):
        for contender in some:
            records, warm_up = load.scaled(contender)
            job = Job(
                contender=contender.name,
                bootstrap_servers=bootstrap,
                topic=load.topic,
                group=f"{load.topic}-{contender.name}-{number}",
                records=records,
                warm_up=warm_up,
                wait_ms=load.wait_ms,
                concurrency=CONCURRENCY,
            )
            measured = await run(job)
            found[contender].append(measured)
            print(f"{load.title}: {contender.title}: {measured.to_json()}", file=sys.stderr, flush=True)
    headers = ("contender", "order", "commits", "records/s", "CPU us a record", "peak MB", "same key at once")
    return Table(load.title, load.bound, headers, [_row(contender, runs) for contender, runs in found.items()])


def _row(contender: Contender, runs: list[Measurement]) -> tuple[object, ...]:
    figures = (
        round(statistics.median(one.records_per_s for one in runs)),
        round(statistics.median(one.cpu_us for one in runs), 1),
        round(statistics.median(one.peak_mb for one in runs)),
    )
    return contender.title, contender.order, contender.commits, *figures, max(one.overlaps for one in runs)


async def run_all(rounds: int, scale: float, only: str, load: str) -> None:
    """Measure each load, and print its table."""
    build = "compiled" if COMPILED else "interpreted"
    cluster = await KafkaCluster.start(backend="local", progress=lambda line: print(line, file=sys.stderr))
    async with cluster:
        print(f"Kafka {cluster.version}, aioprod {build}, {CONCURRENCY} handlers at once, medians of {rounds}\n")
        for one in loads(scale):
            if load in one.title:
                await cluster.create_topic(one.topic)
                await fill(cluster.bootstrap_servers, one)
                show([await measure(cluster.bootstrap_servers, one, rounds, only)], sys.stdout)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.work", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the usual number of records")
    parser.add_argument("--only", default="", metavar="WORD", help="contenders whose names contain it")
    parser.add_argument("--load", default="", metavar="WORDS", help="loads whose titles contain them")
    given = parser.parse_args()
    asyncio.run(run_all(given.rounds, given.scale, given.only, given.load))


if __name__ == "__main__":
    main()
