"""What Spark's workers and planners import: only what their part needs, as a new worker process pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FOR_MEMBERS = {"aioprod.group.member", "aioprod.group.runner", "aioprod.group.classic.membership"}
FOR_DRIVERS = {"aioprod.admin", "aioprod.spark.transactions.transaction", "aioprod.spark.transactions.query"}
READS = {"aioprod.reader.reader", "aioprod.reader.fetching"}
WRITES = {"aioprod.producer.producer_calls", "aioprod.producer.batching.accumulator"}
PICTURES = {"matplotlib", "rich"}


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("aioprod.spark.sink.at_least_once", FOR_MEMBERS | FOR_DRIVERS | READS),
        ("aioprod.spark.transactions.task", FOR_MEMBERS | FOR_DRIVERS | READS),
        ("aioprod.spark.source.reader", FOR_MEMBERS | FOR_DRIVERS | WRITES),
        ("aioprod.spark.planning.job", FOR_MEMBERS | WRITES),
        ("aioprod.spark.datasource", FOR_MEMBERS | FOR_DRIVERS | READS | WRITES),
    ],
)
def test_a_process_of_spark_imports_only_its_part(module: str, needless: set[str]) -> None:
    code = f"import sys, {module}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert module in loaded
    assert not loaded & (needless | PICTURES)
