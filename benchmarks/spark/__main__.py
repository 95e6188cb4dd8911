"""`make bench-spark`: CPU seconds per million rows of each path; the paths take turns in one run.

It measures the JVM and Spark's Python workers, without the broker and the idle driver. It shows the medians of the
rounds, the difference to the bare query, and the ratio to Spark's own sink and source.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from aioprod.testing.fixtures import LoopThread, running_cluster
from benchmarks import report
from benchmarks.rows.spark import SPARK
from benchmarks.spark.paths import FLOOR, PARTITIONS, Paths
from benchmarks.spark.tree import ProcessTree, children
from integration.spark.connector import connector_jars
from integration.spark.sessions import local_session
from tests.support.environment import environment

SLOW = 4
"""The row-wise path gets this many times fewer rows."""


def main() -> int:
    """Run all rounds, print the table, and write the figures that the report of `make bench` has, with --write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="paths whose name holds this")
    parser.add_argument(
        "--write", action="store_true", help="write the figures of the sink and the source for the report"
    )
    arguments = parser.parse_args()
    if arguments.write and arguments.only:
        parser.error("--write is for the sink and the source: it does not go with --only")
    place = environment()
    with running_cluster(backend="local") as cluster, LoopThread() as loop:
        for topic in ("sink", "source"):
            loop.run(cluster.create_topic(topic, PARTITIONS))
        broker = children()
        spark = local_session("local[2]", spark__jars=connector_jars())
        paths = Paths(spark, cluster.bootstrap_servers, "sink", "source")
        chosen = {name: path for name, path in paths.all().items() if arguments.only in name or name in ("noop", FLOOR)}
        if any("source" in name for name in chosen):
            paths.spark_sink(arguments.rows, topic="source", **{"kafka.linger.ms": "20"})
        for path in chosen.values():
            path(50_000)
        used: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
        with ProcessTree(without=broker) as tree:
            for number in range(arguments.rounds):
                for name, path in chosen.items():
                    rows = arguments.rows // SLOW if "foreach" in name else arguments.rows
                    before, start = tree.seconds(), time.perf_counter()
                    path(rows)
                    wall_s, after = time.perf_counter() - start, tree.seconds()
                    figures = {kind: (after[kind] - before[kind]) / rows * 1e6 for kind in after}
                    figures |= {"total": sum(figures.values()), "rows_per_s": rows / wall_s}
                    used[name].append(figures)
                    print(f"round {number + 1}: {name}: {figures['total']:.2f} CPU s per million rows", flush=True)
        title = f"Spark {spark.version} on Kafka {cluster.version}, {place['date']}, commit {place['commit']}"
        spark.stop()
    medians = {
        name: {kind: statistics.median(one[kind] for one in runs) for kind in runs[0]} for name, runs in used.items()
    }
    show(medians, arguments.rows, arguments.rounds)
    if arguments.write:
        entries = entries_of(used, arguments.rows)
        report.write_spark(
            {"environment": place, "runs": arguments.rounds, "brokers": {"spark": title}, "entries": entries}
        )
    return 0


def entries_of(used: Mapping[str, Sequence[Mapping[str, float]]], rows: int) -> list[dict[str, Any]]:
    """Return the rows of the report: what each sink and source takes above the bare query of the same round."""
    bare = [one["total"] for one in used["noop"]]
    return [
        {
            "broker": "spark",
            "row": row.name,
            "contender": contender.label,
            "runs": [
                {"records": rows, "cpu_us": round(one["total"] - noop, 4), "records_per_s": round(one["rows_per_s"])}
                for one, noop in zip(used[contender.label], bare, strict=True)
            ],
            "settings": {"partitions": PARTITIONS},
        }
        for row in SPARK
        for contender in row.contenders
    ]


def show(medians: dict[str, dict[str, float]], rows: int, rounds: int) -> None:
    """Print one line for each path."""
    bare = medians["noop"]["total"]
    print(f"\n{rows:,} rows, medians of {rounds} rounds, load {os.getloadavg()[0]:.1f}; CPU s per million rows")
    print(f"{'path':<48}{'JVM':>7}{'Python':>8}{'total':>7}{'net of noop':>13}{'rows/s':>12}")
    for name, one in medians.items():
        net = "" if name == "noop" else f"{one['total'] - bare:.2f}"
        print(
            f"{name:<48}{one['jvm']:>7.2f}{one['python']:>8.2f}{one['total']:>7.2f}{net:>13}{one['rows_per_s']:>12,.0f}"
        )
    if {"aioprod sink", "Spark's sink"} <= medians.keys():
        above, floor = (medians[path]["total"] - bare for path in ("aioprod sink", FLOOR))
        print(f"of the sink's {above:.2f}, Spark takes {floor:.2f} to hand the rows to Python")
    for ours, other in (
        ("aioprod sink", "Spark's sink"),
        ("aioprod sink", "Spark's sink, linger.ms=20, batch.size=128 KB"),
        ("aioprod sink", "foreachPartition, confluent-kafka"),
        ("aioprod source", "Spark's source"),
        ("aioprod source, key and value", "Spark's source, key and value"),
    ):
        if ours in medians and other in medians:
            theirs, our = medians[other]["total"], medians[ours]["total"]
            above = (theirs - bare) / (our - bare)
            print(f"{other} / {ours}: {theirs / our:.2f}x in all, {above:.2f}x net of the bare query")


if __name__ == "__main__":
    sys.exit(main())
