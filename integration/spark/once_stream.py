"""A stream of numbers that is written exactly once by each API, and the content of its topic."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aioprod import TransactionSession
from aioprod.admin import Admin
from aioprod.spark import exactly_once
from aioprod.spark.partitioning import co_partitioned, with_partition
from aioprod.spark.transactions import query as query_module
from aioprod.spark.transactions.marker import group_of
from aioprod.spark.transactions.query import EachBatch
from aioprod.spark.transactions.transaction import Transactions
from aioprod.types import TopicPartition
from integration.spark.faulty import Faults, SparksOwn
from integration.spark.faulty_source import FaultySource
from integration.support.reading import read_topic

__all__ = ["CLUSTER", "PARTITIONS", "PLACES", "Ended", "Life", "Topic", "begin_life", "end_of", "numbers", "one_life"]

PARTITIONS = 4
ROOT = Path(__file__).parent.parent.parent
PLACES = {"PYTHONPATH": str(ROOT), "SPARK_HOME": str(Path(pyspark.__file__).parent)}
"""What the environment of a Spark cluster needs."""
CLUSTER: dict[str, Any] = {
    "master": "local-cluster[2,1,1024]",
    "config": {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.speculation": "true"},
}
"""Two executors that are processes of their own, as options of a `Life`. A barrier is never speculated about."""
TIMEOUT_S = 600.0


@dataclass
class Life:
    """What a driver is told. `batches`: it ends when so many micro-batches of the checkpoint are done."""

    servers: str
    topic: str
    checkpoint: str
    faults: str
    batches: int
    rows: int = 200
    host: str = "A"
    master: str = "local[2,3]"
    config: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ended:
    """How a life ended: micro-batches by number and how long they took in ms; the first words of what went wrong."""

    batches: dict[str, int] = field(default_factory=dict)
    failure: str = ""
    tally: dict[str, Any] = field(default_factory=dict)
    took_ms: list[dict[str, float]] = field(default_factory=list)


def numbers(spark: SparkSession, rows: int) -> DataFrame:
    """A stream whose n-th micro-batch has `rows` numbers from n * rows on, again and again the same."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 3).load()
    return stream.selectExpr(
        "cast(concat('k', value % 97) as binary) as key", "cast(cast(value as string) as binary) as value"
    )


def one_life(spark: SparkSession, life: Life, die: Callable[[str], None] = print) -> Ended:
    """Run the query until enough micro-batches are done, or it fails; `die` is how its driver dies (host "spark")."""
    ended = Ended()
    notes = Path(life.faults) / "notes"
    query = _noting(notes, lambda: start(spark, life, die))
    deadline = time.monotonic() + TIMEOUT_S
    while query.isActive and time.monotonic() < deadline:
        for progress in query.recentProgress:
            ended.batches[str(progress["batchId"])] = progress["durationMs"].get("triggerExecution", 0)
        if ended.batches and max(map(int, ended.batches)) >= life.batches - 1:
            break
        time.sleep(0.02)
    is_late = time.monotonic() > deadline
    failure = query.exception()
    query.stop()
    if is_late:
        raise TimeoutError(f"Only {len(ended.batches)} of {life.batches} micro-batches were done in time.")
    if failure is not None:
        ended.failure = str(failure)[:20_000]
    if notes.exists():
        ended.tally, ended.took_ms = json.loads(notes.read_text())
    return ended


def _noting(notes: Path, begin: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Begin a query whose `Transactions` leave in a file what has happened in this life."""
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.unlink(missing_ok=True)

    class Noting(EachBatch):
        noted: Transactions | None = None

        def transactions(self, owner: str) -> Transactions:
            made = super().transactions(owner)
            self.noted = made
            return made

        def __call__(self, df: DataFrame, batch_id: int) -> None:
            try:
                super().__call__(df, batch_id)
            finally:
                if self.noted is not None:
                    notes.write_text(json.dumps([asdict(self.noted.tally), self.noted.took_ms]))

    query_module.EachBatch = Noting  # type: ignore[misc]
    try:
        return begin()
    finally:
        query_module.EachBatch = EachBatch  # type: ignore[misc]


def start(spark: SparkSession, life: Life, die: Callable[[str], None]) -> StreamingQuery:
    """Start the query: by `exactly_once` (host A), the data source (host B), or Spark's own sink (host "spark")."""
    stream = numbers(spark, life.rows)
    if life.host == "A":
        return exactly_once(
            stream,
            transactional_id=life.topic,
            bootstrap_servers=life.servers,
            topic=life.topic,
            checkpoint_location=life.checkpoint,
            **life.options,
        )
    if life.host == "spark":
        each = SparksOwn(life.servers, life.topic, Faults(Path(life.faults)), die)
        return stream.writeStream.foreachBatch(each).option("checkpointLocation", life.checkpoint).start()
    spark.dataSource.register(FaultySource)
    rows = with_partition(stream, partitioner="murmur2", counts={life.topic: PARTITIONS}, topic=life.topic)
    return (
        co_partitioned(rows, tasks=2)
        .writeStream.format(FaultySource.name())
        .options(
            **{
                "kafka.bootstrap.servers": life.servers,
                "topic": life.topic,
                "delivery": "exactly-once",
                "transactional.id": life.topic,
                "checkpointLocation": life.checkpoint,
                "faults": life.faults,
                **life.options,
            }
        )
        .start()
    )


def begin_life(life: Life) -> subprocess.Popen[str]:
    """The same as a process of its own."""
    command = [sys.executable, "-m", "integration.spark.programs.once_life", json.dumps(asdict(life))]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", cwd=ROOT, env=os.environ | PLACES
    )


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, Ended | None]:
    """Its status, the last line that it wrote, and what it told if it came to that."""
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    last = (output.strip().splitlines() or [""])[-1]
    return process.returncode, last, Ended(**json.loads(last)) if last.startswith("{") else None


@dataclass(frozen=True)
class Topic:
    """A topic that a stream of numbers was written to, under a transactional id of the same name."""

    servers: str
    name: str
    rows: int = 200

    def marker(self) -> int:
        """How many steps were committed, after all that is open was aborted."""
        return asyncio.run(self._marker())

    async def _marker(self) -> int:
        place = TopicPartition(self.name, 0)
        async with TransactionSession(self.servers, transactional_id=self.name) as session:
            await session.begin()
            found = (await session.committed_offsets(group_of(self.name), [place]))[place]
        return 0 if found is None else found.offset

    def values(self, isolation: str = "read_committed") -> list[bytes]:
        """What confluent-kafka reads."""
        return [record.value or b"" for record in read_topic(self.servers, self.name, isolation)]

    def check(self, at_least: int = 0) -> int:
        """That each number of all committed steps is in it once, and nothing else; returns how many steps that are.

        Raises AssertionError, also for fewer steps than `at_least`.
        """
        steps = self.marker()
        values = self.values()
        expected = steps * self.rows
        assert steps >= at_least, steps
        assert (len(values), len(set(values))) == (expected, expected)
        assert sorted(map(int, values)) == list(range(expected))
        return steps

    async def create(self) -> None:
        """Make it."""
        async with Admin(self.servers) as admin:
            await admin.create_topic(self.name, partitions=PARTITIONS)
