"""The examples for Spark, each run as its docstring says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples import spark_plan
from integration.test_examples import EXAMPLES, run


@pytest.mark.long
def test_plan_as_its_docstring_says(tmp_path: Path) -> None:
    assert "python examples/spark_plan.py partition-plan.html" in (EXAMPLES / "spark_plan.py").read_text()
    page = tmp_path / "plan.html"
    ended = run("examples/spark_plan.py", str(page))
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^murmur2 +12 partitions: the busiest has \d\.\d\d times the mean$", ended.stdout, re.MULTILINE)
    assert re.search(r"^Take \d+ partitions with (murmur2|crc32): the busiest of 8 members", ended.stdout, re.MULTILINE)
    assert "<h1>Partition plan</h1>" in page.read_text()


def test_plan_counts_every_order(spark: SparkSession, tmp_path: Path) -> None:
    report = spark_plan.compare(spark_plan.orders(spark, 5000), str(tmp_path / "plan.html"))
    assert {sum(layout.rows) for layout in report.results} == {5000}
    assert json.loads(report.to_json())["consumers"] == 8
