"""`make demo-spark`: real input through Spark into a real Kafka broker, exactly once, while an executor is killed.

    python -m examples.demo_spark [FOLDER]

Each source line of Python's standard library, or of the Python files below FOLDER, becomes a row of a Parquet file.
They are loaded into a topic, in the middle of which an executor of Spark is killed; a stream picks the definitions
among them and writes them to another topic; both topics are read back by another client and compared. The audit and the
partition planner leave a page each. Exit status: 0 when everything was there once and in order, 1 when not, 2 when the
demo could not run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import confluent_kafka
from pyspark.sql import SparkSession

import aioprod.spark
from aioprod.errors import AioprodError
from aioprod.testing.fixtures import LoopThread, running_cluster
from examples.demo.compare import Digests, compare
from examples.demo.reading import read_back
from examples.demo.screen import Screen
from examples.demo.source import count_lines, standard_library
from examples.demo_spark.cluster import ExecutorKiller, local_cluster
from examples.demo_spark.lines import COLUMNS, DEFINITION, definitions, digests, write_parquet

LINES, DEFINITIONS = "lines", "definitions"
PARTITIONS = 6
CHUNKS = 4
DIFFERENCES_SHOWN = 20


def main(arguments: Sequence[str], screen: Screen) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo_spark")
    parser.add_argument("folder", nargs="?", type=Path, help="take the Python files below it, not the standard library")
    folder: Path | None = parser.parse_args(arguments).folder
    sources = standard_library(folder)
    if folder is not None and count_lines(sources) == 0:
        screen.say(
            f"FOLDER={folder} {'has no Python files with lines in them' if folder.is_dir() else 'is not a folder'}."
        )
        return 2
    place = Path(tempfile.mkdtemp(prefix="aioprod-demo-spark-"))
    try:
        with running_cluster(backend="local") as kafka, LoopThread() as loop:
            screen.say(f"Kafka {kafka.version} serves at {kafka.bootstrap_servers}.")
            for topic in (LINES, DEFINITIONS):
                loop.run(kafka.create_topic(topic, PARTITIONS))
            rows = write_parquet(sources, place / "lines")
            screen.say(f"{rows:,} lines of Python are in Parquet files; starting Spark with two executors ...")
            spark = local_cluster()
            try:
                return demo(spark, kafka.bootstrap_servers, place, screen)
            finally:
                spark.stop()
    except (AioprodError, confluent_kafka.KafkaException, TimeoutError) as error:
        screen.say(f"The demo could not finish: {error}")
        return 2
    except KeyboardInterrupt:
        screen.say("Stopped.")
        return 2


def demo(spark: SparkSession, servers: str, place: Path, screen: Screen) -> int:
    """Load, stream, compare, audit and plan; returns the exit status."""
    source = spark.read.parquet(str(place / "lines"))
    start = time.perf_counter()
    with ExecutorKiller(servers, LINES) as killer:
        loaded = aioprod.spark.load(
            source,
            bootstrap_servers=servers,
            topic=LINES,
            key="path",
            value="line",
            order_by="number",
            chunks=CHUNKS,
            run_id="demo",
            manifest=str(place / "manifest"),
        )
    how = (
        "before an executor could be killed" if killer.killed is None else f"while executor {killer.killed} was killed"
    )
    screen.say(f"Loaded in {time.perf_counter() - start:.1f} s, {how}:\n{loaded}")
    stream(spark, servers, place)
    differs = [
        *differences(servers, LINES, digests(place / "lines")),
        *differences(servers, DEFINITIONS, digests(place / "lines", definitions)),
    ]
    for difference in differs[:DIFFERENCES_SHOWN]:
        screen.say(f"DIFFERS {difference}")
    audited = aioprod.spark.audit(
        spark,
        manifest=str(place / "manifest"),
        bootstrap_servers=servers,
        topic=LINES,
        report=str(place / "audit.html"),
    )
    screen.say(str(audited))
    planned = aioprod.spark.plan(
        source,
        key="path",
        value="line",
        partitioners=["murmur2", "crc32"],
        counts=[6, 12, 24],
        consumers=4,
        report=str(place / "plan.html"),
    )
    screen.say(planned.recommendation)
    screen.say(f"Reports: {place / 'audit.html'} and {place / 'plan.html'}")
    if differs or not audited.is_clean or killer.killed is None:
        return 1
    screen.say("Every row is in Kafka once, in the order of its key, and so is every definition of the stream.")
    return 0


def stream(spark: SparkSession, servers: str, place: Path) -> None:
    """Read the one topic as a stream, and write what is left of it to the other, exactly once."""
    read = spark.readStream.format("aioprod").option("kafka.bootstrap.servers", servers)
    read = read.option("subscribe", LINES).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 300_000)
    rows = read.option("isolation.level", "read_committed").load()
    kept = rows.where(rows["value"].cast("string").rlike(DEFINITION)).select(*COLUMNS, rows["offset"].alias("position"))
    query = aioprod.spark.exactly_once(
        kept,
        transactional_id="demo-definitions",
        bootstrap_servers=servers,
        topic=DEFINITIONS,
        order_by="position",
        checkpoint_location=str(place / "checkpoint"),
        trigger={"availableNow": True},
    )
    query.awaitTermination()


def differences(servers: str, topic: str, expected: Digests) -> list[str]:
    """What confluent-kafka, which shares no code with aioprod, finds wrong; transactions that were aborted it skips."""
    found = read_back(servers, topic, PARTITIONS, lambda count, rate: None)
    return [f"{topic}: {difference}" for difference in compare(expected, found)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Screen()))
