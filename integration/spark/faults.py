"""Many micro-batches with a fault in each: what consumers with read_committed see in the end.

    python -m integration.spark.faults --batches 40 --seed 1 [--sink spark]

Every micro-batch gets a random fault of the matrix. If the driver or its query dies, a new driver continues. With
`--sink spark` the faults that apply to Spark's own Kafka sink are injected there.

With `--driver process` each driver is a process that is killed. `--driver query` is much faster: in place of the driver
its query is stopped without any cleanup, and only drivers whose executor is killed are processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import statistics
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aioprod.testing.fixtures import running_cluster
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from integration.spark.connector import connector_jars
from integration.spark.faulty import DRIVER_POINTS, Faults, break_driver
from integration.spark.once_stream import CLUSTER, Ended, Life, Topic, begin_life, end_of, one_life
from integration.spark.sessions import local_session

__all__: list[str] = []

FAULTS: Final = ("task", "kill", "executor", "zombie", "slow", "lost", "rival", *DRIVER_POINTS)
STEPS: Final = ("init", "fetch", "job", "offsets", "end")
TIMEOUT_MS: Final = 3000
"""Of transactions, so that one which is too slow is over soon."""


@dataclass
class Sums:
    """What all lives together have done."""

    lives: int = 0
    rerun: int = 0
    skipped: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    took_ms: list[dict[str, float]] = field(default_factory=list)

    def add(self, notes: Path) -> None:
        """What one life has left."""
        self.lives += 1
        if notes.exists():
            tally, took_ms = json.loads(notes.read_text())
            self.rerun += tally["rerun"]
            self.skipped += tally["skipped"]
            self.took_ms += took_ms


class DriverDiedError(Exception):
    """What a query dies of in place of its driver; nothing that aioprod knows."""


def run(topic: Topic, folder: Path, plan: list[str], sink: str, driver: str) -> Sums:
    """Have one life after the other until all steps are done."""
    faults = Faults(folder / "faults")
    for step, fault in enumerate(plan):
        faults.order(step, fault)
    sums = Sums()
    live = _in_this_process(faults, sink) if driver == "query" else _in_its_own
    deadline = time.monotonic() + 60 * len(plan)
    while (done := _done(folder)) < len(plan):
        if time.monotonic() > deadline:
            raise TimeoutError(f"Only {done} of {len(plan)} micro-batches were done in time.")
        life = Life(
            servers=topic.servers,
            topic=topic.name,
            checkpoint=str(folder / "checkpoint"),
            faults=str(faults.folder),
            batches=_until(plan, done),
            rows=topic.rows,
            host="A" if sink == "aioprod" else "spark",
            options={"transaction_timeout_ms": TIMEOUT_MS} if sink == "aioprod" else {},
        )
        if plan[done] == "executor":
            life.master, life.config = CLUSTER["master"], dict(CLUSTER["config"])
        if sink == "spark":
            life.config |= _of_spark()
        said = _in_its_own(life) if plan[done] == "executor" else live(life)
        sums.add(faults.folder / "notes")
        print(f"life {sums.lives}: from step {done}, {said}", flush=True)
    return sums


def _of_spark() -> dict[str, str]:
    return {"spark.jars": connector_jars(), "spark.sql.execution.arrow.maxRecordsPerBatch": "20"}


def _in_its_own(life: Life) -> str:
    """A life as a process; how it ended."""
    status, last, ended = end_of(begin_life(life))
    if status == 9:
        return last
    return _said(ended) if ended is not None else f"ended with status {status}: {last}"


def _in_this_process(faults: Faults, sink: str) -> Callable[[Life], str]:
    """The same as a query of the one session that there is."""

    def die(point: str) -> None:
        raise DriverDiedError(f"died: {point}")

    break_driver(faults, die)
    spark = local_session(**(_of_spark() if sink == "spark" else {}))
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return lambda life: _said(one_life(spark, life, die))


def _said(ended: Ended) -> str:
    return _sentence(ended.failure) if ended.failure else "went on to the end"


def _done(folder: Path) -> int:
    """How many micro-batches Spark knows to be done."""
    numbers = [int(path.name) for path in (folder / "checkpoint" / "commits").glob("[0-9]*")]
    return max(numbers, default=-1) + 1


def _until(plan: list[str], done: int) -> int:
    """After which step a life ends: an executor that is to be killed needs a life of its own."""
    if plan[done] == "executor":
        return done + 1
    return next((step for step in range(done, len(plan)) if plan[step] == "executor"), len(plan))


def _sentence(failure: str) -> str:
    """The line of a query's failure that says what it was."""
    lines = [line for line in failure.splitlines() if "Error: " in line]
    return (lines or failure.splitlines() or [""])[-1].strip()[:150]


def tell(version: str, sink: str, topic: Topic, plan: list[str], sums: Sums) -> bool:
    """Print what became of it; whether every row is there once."""
    steps = topic.marker() if sink == "aioprod" else -(-max(map(int, topic.values())) // topic.rows)
    values = topic.values()
    numbers = Counter(map(int, values))
    expected = steps * topic.rows
    lost = sum(number not in numbers for number in range(expected))
    planned = ", ".join(f"{count} {name}" for name, count in sorted(Counter(plan).items()))
    print(f"Kafka {version}, sink of {sink}: {len(plan)} micro-batches with a fault in each ({planned})")
    print(f"{'rows expected':>40}: {expected:,} ({steps} micro-batches)")
    print(f"{'rows read committed by confluent-kafka':>40}: {len(values):,}")
    print(f"{'distinct rows':>40}: {len(numbers):,}")
    print(f"{'duplicates, lost rows':>40}: {len(values) - len(numbers):,}, {lost:,}")
    print(f"{'rows in the raw log':>40}: {len(topic.values('read_uncommitted')):,}")
    print(f"{'lives of the driver':>40}: {sums.lives}")
    if sink == "aioprod":
        print(f"{'micro-batches run again in a life':>40}: {sums.rerun}")
        print(f"{'micro-batches skipped by marker':>40}: {sums.skipped}")
        medians = {step: [took[step] for took in sums.took_ms if step in took] for step in STEPS}
        said = ", ".join(f"{step} {statistics.median(of):.1f}" for step, of in medians.items() if of)
        print(f"{'median ms per micro-batch':>40}: {said}")
    return len(values) == expected == len(numbers)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m integration.spark.faults", description=__doc__)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--version", default=DEFAULT_VERSION, help="of Kafka")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sink", choices=["aioprod", "spark"], default="aioprod")
    parser.add_argument("--driver", choices=["process", "query"], default="process")
    parser.add_argument("--faults", default=",".join(FAULTS), help="to choose from")
    parser.add_argument("--rows", type=int, default=2000, help="per micro-batch")
    given = parser.parse_args(arguments)
    chance = random.Random(given.seed)
    plan = [chance.choice(given.faults.split(",")) for _ in range(given.batches)]
    options: dict[str, Any] = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 500}
    with (
        running_cluster(version=given.version, backend="local", **options) as cluster,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        topic = Topic(cluster.bootstrap_servers, f"faults-{uuid.uuid4().hex[:8]}", given.rows)
        asyncio.run(topic.create())
        sums = run(topic, Path(folder), plan, given.sink, given.driver)
        flawless = tell(given.version, given.sink, topic, plan, sums)
    return 0 if flawless or given.sink == "spark" else 1


if __name__ == "__main__":
    raise SystemExit(main())
